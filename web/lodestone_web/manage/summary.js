// What a run did, in a line.
import { count } from "./wording.js";

const INDEXED = [
  ["embedded", "picture embedded", "pictures embedded"],
  ["adopted", "picture was embedded before", "pictures were embedded before"],
  ["changed", "file changed", "files changed"],
  ["moved", "file moved", "files moved"],
  ["gone", "file gone", "files gone"],
  ["recaptioned", "picture with new captions", "pictures with new captions"],
  ["added", "picture with a further part", "pictures with a further part"],
  ["failed", "file failed", "files failed"],
  ["unreadable", "file unreadable", "files unreadable"],
];
const TRAINED = [
  ["pictures", "picture", "pictures"], ["texts", "text", "texts"], ["judged", "judged query", "judged queries"],
  ["feedback", "judged answer", "judged answers"], ["pairs", "query with its right picture", "queries with their right pictures"],
];
const NOTHING = { index: "Nothing had to be done.", duplicates: "No copies were found.", compact: "Nothing had to be rewritten." };

/** Return what a run did, in words; a run of a kind that is not known here tells its counts. */
export function summary({ kind, counts, state }) {
  const told = listed(kind, counts);
  const nothing = kind.startsWith("train-") ? "There was nothing to learn from." : NOTHING[kind] ?? "";
  return told || (state === "done" ? nothing : "");
}

function listed(kind, counts) {
  if (kind === "index" || kind === "model-swap") return told(counts, INDEXED).join(", ");
  if (kind.startsWith("train-")) return sentence("Learnt from ", told(counts, TRAINED).join(" and "));
  if (kind === "duplicates") return told(counts, [["exact", "exact copy", "exact copies"], ["near", "near copy", "near copies"]]).join(", ");
  if (kind === "compact") return counts.replaced ? `${count(counts.replaced, "slice")} rewritten as ${(counts.written ?? 0).toLocaleString("en")}` : "";
  return Object.entries(counts).filter(([, number]) => number > 0).map(([name, number]) => `${name.replaceAll("_", " ")}: ${number.toLocaleString("en")}`).join(", ");
}

function told(counts, names) {
  return names.filter(([name]) => counts[name] > 0).map(([name, one, many]) => count(counts[name], one, many));
}

function sentence(begin, rest) {
  return rest && `${begin}${rest}.`;
}
