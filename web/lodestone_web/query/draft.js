// The draft of a query as a value, and the request that it becomes.
//
// A part is {kind, text} for words to avoid, {kind, id, thumbnail} for an indexed picture, or {kind, blob, url, name} for a
// picture of the user. Kinds are like, upload, unlike and without; the words themselves are `text`. A picture to look for may
// have a `region` {x, y, w, h}, in shares of its size. `withoutGuides` are left out by hand. With `copies`, each copy of a picture
// is a result of its own. A draft of filters alone asks for all pictures that pass them. `sets` is the request's `match`, or null.
import { usualWeight } from "./access.js";
import { members, ranks, saidFilters, saidMember } from "./sets.js";

export const EMPTY = Object.freeze({
  text: "", parts: [], weights: {}, wordsOnly: false, seed: 0, withoutGuides: [], filters: {}, sets: null, composition: "", copies: false,
});

export const MOST_PARTS = 8; // of a composed query
const ORDER = ["like", "upload", "unlike", "without"];
const REGIONS = { like: "like a region of a picture", upload: "like a region of your picture" };
const SAID = { like: "like a picture", upload: "like your picture", unlike: "unlike a picture" };
const NAMES = { like: "picture", upload: "picture", unlike: "unlike", without: "without" };

// Members of the request's filters, and the address's parameters for them. Those in LISTS have several values.
const FILTERS = { corpora: "corpus", roots: "root", path_prefix: "folder", taken_from: "since", taken_to: "before", where: "where" };
const LISTS = ["corpora", "roots", "where"];

/** Return whether the draft asks for anything. */
export function isEmpty(draft) {
  return draft.text.trim() === "" && !ranks(draft.sets) && !draft.parts.some((part) => part.kind === "like" || part.kind === "upload");
}

/** Return whether the draft restricts where is searched. */
export function isFiltered(draft) {
  return Object.values(draft.filters).some((value) => value?.length);
}

/** Return whether the draft asks for all pictures that pass its filters, by date. */
export function isBrowsing(draft) {
  return isEmpty(draft) && isFiltered(draft) && !draft.sets;
}

/** Return whether there is anything to show for the draft. */
export function isAsking(draft) {
  return !isEmpty(draft) || isFiltered(draft) || draft.sets !== null;
}

/** Return whether the draft has parts beside plain words. */
export function isComposed(draft) {
  return draft.parts.length > 0;
}

/** Return whether the draft has all the parts that a query can have. */
export function isFull(draft) {
  return draft.parts.length + (draft.text.trim() ? 1 : 0) >= MOST_PARTS;
}

/** Return what is kept of a draft when another question begins: where and how is searched. */
export function kept({ filters, composition, copies }) {
  return { ...EMPTY, filters, composition, copies };
}

/** Return the draft with a part more; one that is there already is not added, and none to a full draft. */
export function withPart(draft, part) {
  const there = draft.parts.some((other) => keyOf(other) === keyOf(part));
  return there || isFull(draft) ? draft : weighedAs(draft, { ...draft, parts: [...draft.parts, part] });
}

/** Return the draft with other words. */
export function withText(draft, text) {
  return weighedAs(draft, { ...draft, text });
}

/** Return the draft with another part in the place of one. Weights go with their parts, whose names may change. */
export function replaced(draft, part, other) {
  const parts = draft.parts.filter((one) => keyOf(one) !== keyOf(other) || keyOf(one) === keyOf(part));
  const after = { ...draft, parts: parts.map((one) => (keyOf(one) === keyOf(part) ? other : one)) };
  return weighedAs(draft, after, (key) => (key === keyOf(other) ? keyOf(part) : key));
}

/** Return the draft without a part. */
export function withoutPart(draft, part) {
  if (part.kind === "words") return withText(draft, "");
  return weighedAs(draft, { ...draft, parts: draft.parts.filter((other) => keyOf(other) !== keyOf(part)) });
}

/**
 * Return `after` with the weights of `before`: parts that stay keep theirs, whatever they are called now, and new ones get
 * what is usual for their kind beside the others. Without weights that were chosen, the service gives the usual ones.
 */
function weighedAs(before, after, keyBefore = (key) => key) {
  const parts = namedParts(after);
  if (!Object.keys(before.weights).length || parts.length < 2) return { ...after, weights: {} };
  const keyIn = (part) => (part.kind === "words" ? "words" : keyOf(part));
  const weightOf = new Map(namedParts(before).map((part) => [keyIn(part), before.weights[part.name]]));
  const weighed = parts.map((part) => ({ ...part, weight: weightOf.get(keyBefore(keyIn(part))) }));
  const baseOf = ({ kind }) => NAMES[kind] ?? kind;
  const usual = (part) => usualWeight(baseOf(part), after.composition) / parts.filter((other) => baseOf(other) === baseOf(part)).length;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const stay = weighed.filter((part) => part.weight !== undefined);
  const seeks = weighed.some(({ kind, weight }) => weight !== 0 && kind !== "unlike" && kind !== "without");
  if (!seeks) return { ...after, weights: {} }; // what is left to look for weighed nothing: no answer would come
  const scale = sum(stay.map((part) => part.weight)) / sum(stay.map(usual)) || 1;
  const fitting = (part) => Math.min(1, Number((usual(part) * scale).toFixed(2)));
  return { ...after, weights: Object.fromEntries(weighed.map((part) => [part.name, part.weight ?? fitting(part)])) };
}

/** Return the parts as the engine names them: words, picture, picture2, unlike, without, … */
export function namedParts(draft) {
  const counts = {};
  const named = draft.text.trim() ? [{ name: "words", kind: "words", text: draft.text.trim() }] : [];
  const sorted = ORDER.flatMap((kind) => draft.parts.filter((part) => sentAs(part, draft) === kind));
  for (const part of sorted) {
    const base = NAMES[part.kind];
    counts[base] = (counts[base] ?? 0) + 1;
    named.push({ ...part, name: counts[base] === 1 ? base : `${base}${counts[base]}` });
  }
  return named;
}

/** Return the kind that the service is told. It takes a region of one picture alone; beside others, the page cuts it out. */
export function sentAs(part, draft) {
  const several = draft.parts.filter((other) => other.kind === "like" || other.kind === "upload").length > 1;
  return part.region && several ? "upload" : part.kind;
}

/** Return the members of a search request. */
export function requestOf(draft, { limit, offset = 0 } = {}) {
  const of = (kind, member) => draft.parts.filter((part) => sentAs(part, draft) === kind).map((part) => part[member]);
  const pictures = draft.parts.filter((part) => part.kind === "like" || part.kind === "upload");
  const body = { query: draft.text.trim(), limit, explain: false, collapse: !draft.copies };
  const members = { like: of("like", "id"), unlike: of("unlike", "id"), without: of("without", "text") };
  for (const [name, values] of Object.entries(members)) if (values.length) body[name] = values;
  if (Object.keys(draft.weights).length) body.weights = draft.weights;
  if (isFiltered(draft)) body.filters = draft.filters;
  if (draft.sets) body.match = draft.sets;
  if (draft.composition) body.composition = draft.composition;
  if (pictures.length === 1 && pictures[0].region) body.region = pictures[0].region;
  if (draft.wordsOnly) body.guides = 0; // composed queries have guides too, where their pictures are edited
  else if (draft.withoutGuides.length) body.without_guides = draft.withoutGuides;
  if (draft.seed) body.seed = draft.seed;
  if (offset) body.offset = offset;
  return body;
}

/** Return the parts whose pictures are sent: those of the user, and regions that the page cuts out. */
export function uploadsOf(draft) {
  return namedParts(draft).filter((part) => part.kind !== "words" && sentAs(part, draft) === "upload");
}

/** Return whether the draft holds a picture of the user, which no address can hold. */
export function isPrivate(draft) {
  return draft.parts.some((part) => part.kind === "upload");
}

/** Return a sentence that says what the draft asks for. */
export function spoken(draft) {
  const words = draft.text.trim() ? [`“${draft.text.trim()}”`] : [];
  const rest = draft.parts.map(said);
  return [...words, ...rest, ...members(draft.sets).map(saidMember)].join(", ") || placesOf(draft.filters) || "nothing yet";
}

/** Return what filters alone ask for. */
function placesOf(filters) {
  const places = saidFilters(filters);
  return places && `pictures ${places}`;
}

/** Return what a step changed, in a few words, such as `like a picture` or `without people`; the whole draft if that is not simple. */
export function changed(before, after) {
  const partsOf = (draft) => new Map([["text", draft.text.trim()], ...draft.parts.map((part) => [keyOf(part), part])]);
  const [old, now] = [partsOf(before), partsOf(after)];
  const added = after.parts.filter((part) => !old.has(keyOf(part)));
  const removed = before.parts.filter((part) => !now.has(keyOf(part)));
  const words = old.get("text") !== now.get("text");
  if (added.length + removed.length + Number(words) !== 1) {
    return added.length + removed.length || words ? spoken(after) : otherwise(before, after);
  }
  if (words) return after.text.trim() ? `“${after.text.trim()}”` : "without the words";
  return added.length ? said(added[0]) : `no longer ${said(removed[0])}`;
}

function said(part) {
  return part.kind === "without" ? `without ${part.text}` : (part.region ? REGIONS : SAID)[part.kind];
}

function otherwise(before, after) {
  if (JSON.stringify(before.weights) !== JSON.stringify(after.weights)) return "other weights";
  if (JSON.stringify(before.filters) !== JSON.stringify(after.filters)) return "other filters";
  if (JSON.stringify(before.sets) !== JSON.stringify(after.sets)) return "other sets";
  if (before.copies !== after.copies) return after.copies ? "with all copies" : "copies together";
  if (before.composition !== after.composition) return `compared by ${after.composition || "default"}`;
  return spoken(after);
}

/** Return the draft as parameters of the page's address; pictures of the user cannot be part of it. */
export function toAddress(draft) {
  const params = new URLSearchParams();
  if (draft.text.trim()) params.set("q", draft.text.trim());
  for (const part of draft.parts) if (part.kind !== "upload") params.append(part.kind, (part.id ?? part.text) + written(part.region));
  if (draft.sets) params.set("sets", JSON.stringify(draft.sets));
  if (draft.wordsOnly) params.set("words", "1");
  if (draft.seed) params.set("seed", draft.seed);
  if (draft.copies) params.set("copies", "1");
  if (draft.composition) params.set("composition", draft.composition);
  for (const guide of draft.withoutGuides) params.append("leave", guide);
  if (!isPrivate(draft)) for (const [name, weight] of Object.entries(draft.weights)) params.append("weight", `${name}:${weight}`);
  for (const [member, name] of Object.entries(FILTERS)) {
    for (const value of [draft.filters[member] ?? []].flat()) if (value) params.append(name, value);
  }
  return params.toString();
}

/** Return the draft of an address. */
export function fromAddress(search) {
  const params = new URLSearchParams(search);
  const pictures = (kind) => params.getAll(kind).map((value) => {
    const [id, region] = value.split("@");
    return { kind, id, thumbnail: `v1/images/${encodeURIComponent(id)}/thumbnail`, ...(kind === "like" && readRegion(region)) };
  });
  const without = params.getAll("without").map((text) => ({ kind: "without", text }));
  const filters = {};
  for (const [member, name] of Object.entries(FILTERS)) {
    if (params.get(name)) filters[member] = LISTS.includes(member) ? params.getAll(name) : params.get(name);
  }
  const draft = {
    ...EMPTY,
    text: params.get("q") ?? "",
    parts: [...pictures("like"), ...pictures("unlike"), ...without],
    wordsOnly: params.get("words") === "1",
    seed: Math.max(0, Number.parseInt(params.get("seed"), 10) || 0),
    withoutGuides: params.getAll("leave"),
    filters,
    sets: readSets(params.get("sets")),
    composition: params.get("composition") ?? "",
    copies: params.get("copies") === "1",
  };
  const names = namedParts(draft).map((part) => part.name);
  const weights = params.getAll("weight").map((value) => value.split(":")).filter(([name, weight]) => names.includes(name) && weight);
  return { ...draft, weights: Object.fromEntries(weights.map(([name, weight]) => [name, Number(weight)]).filter(([, weight]) => weight >= 0 && weight <= 1)) };
}

/** Return what tells a part from all others. */
export function keyOf(part) {
  return `${part.kind}:${part.id ?? part.text ?? part.url}${written(part.region)}`;
}

/** Return the sets of an address; null without any that can be read. */
function readSets(text) {
  try {
    const sets = JSON.parse(text);
    return sets.constructor === Object && members(sets).map(saidMember).every(Boolean) && [true, false].includes(ranks(sets)) ? sets : null;
  } catch {
    return null;
  }
}

function written(region) {
  return region ? `@${[region.x, region.y, region.w, region.h].map((share) => Number(share.toFixed(4))).join(",")}` : "";
}

function readRegion(text) {
  const [x, y, w, h] = (text ?? "").split(",").map(Number);
  return [x, y, w, h].every((share) => share >= 0 && share <= 1) && w * h > 0 ? { region: { x, y, w, h } } : {};
}
