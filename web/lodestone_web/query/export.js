// Exports of selected pictures: a list of paths, JSON, CSV, and a zip archive of the originals.
import { signal } from "../html.js";
import { postJson, Problem, request } from "../engine/http.js";
import { cell } from "../engine/csv.js";
import { access } from "./access.js";
import { announcement, toast } from "./store.js";

export const MOST_FILES = 1000; // of one archive
const MOST_BYTES = 2 ** 30;
const MOST_IDS = 1000; // of one request for paths
const COLUMNS = ["image_id", "corpus", "root", "uri", "width", "height", "taken_at", "taken_local", "captions"];

/** {done, count, bytes, failures, message}: the archive that is being made, or how it ended; null where there is none. */
export const archive = signal(null);
let stopping = null;

/**
 * Save where pictures are, each in a line: absolute paths for who is on the service's machine, else the indexed folder and the
 * path inside it. Names that a line cannot hold are written as JSON strings.
 */
export function saveNames(hits) {
  return withPaths(hits, (rows) => {
    const lines = rows.map((row) => row.path ?? pathOf(row)).map((path) => (/[\u0000-\u001f]/.test(path) ? JSON.stringify(path) : path));
    save(new Blob([lines.join("\n"), "\n"], { type: "text/plain" }), "pictures.txt");
    const others = rows.filter((row) => !row.path).length;
    if (access.value?.paths && others) toast.value = `${others} of ${rows.length} pictures have no path that can be told: their lines have the indexed folder and the path inside it.`;
  });
}

/** Save the facts about pictures as JSON. */
export function saveJson(hits) {
  return withPaths(hits, (rows, columns) => {
    const facts = rows.map((row) => Object.fromEntries(columns.map((name) => [name, row[name] ?? null])));
    save(new Blob([JSON.stringify(facts, null, 2), "\n"], { type: "application/json" }), "pictures.json");
  });
}

/** Save the facts about pictures as CSV (RFC 4180); captions stand in one column, each in a line. */
export function saveCsv(hits) {
  return withPaths(hits, (rows, columns) => {
    const lines = rows.map((row) => columns.map((name) => cell(name === "captions" ? row.captions.join("\n") : row[name])));
    save(new Blob([[columns.join(","), ...lines.map((line) => line.join(","))].join("\r\n"), "\r\n"], { type: "text/csv" }), "pictures.csv");
  });
}

/** Call `write(hits, columns)`; on the service's machine, with the path of each picture. Nothing is written where that fails. */
async function withPaths(hits, write) {
  if (!access.value?.paths) return write(hits, COLUMNS);
  const paths = {};
  try {
    for (let at = 0; at < hits.length; at += MOST_IDS) {
      const ids = hits.slice(at, at + MOST_IDS).map((hit) => hit.image_id);
      Object.assign(paths, (await postJson("/v1/images/paths", { image_ids: ids })).paths);
    }
  } catch (error) {
    toast.value = `Nothing was saved. ${error.message}`;
    return undefined;
  }
  return write(hits.map((hit) => ({ ...hit, path: paths[hit.image_id] })), [...COLUMNS, "path"]);
}

/** Return the beginning of a time, or of a day, month or year, as a clock of this machine would show it. */
function beginning(shown) {
  const [year, month = 1, ...rest] = shown.split(/\D/).map(Number);
  return new Date(year, month - 1, ...(rest.length ? rest : [1]));
}

/** Fetch originals one by one, and save them as an archive; what cannot be fetched is listed in it. */
export async function saveArchive(hits) {
  stopping?.abort();
  const mine = (stopping = new AbortController());
  let writer = null;
  const failures = [];
  const show = (done, more = {}) => {
    if (mine === stopping) archive.value = { done, count: hits.length, bytes: writer?.size ?? 0, failures, message: "", ...more };
  };
  show(0);
  try {
    writer = new (await import("../engine/zip.js")).ZipWriter(); // few visits need it
    if (hits.length > MOST_FILES) throw new RangeError(`An archive has at most ${MOST_FILES.toLocaleString("en")} pictures. Select fewer.`);
    for (const [at, hit] of hits.entries()) {
      try {
        const content = await original(hit, mine.signal, MOST_BYTES - writer.size);
        await writer.add(pathOf(hit), content, hit.taken_local ? beginning(hit.taken_local) : new Date());
      } catch (error) {
        if (!(error instanceof Problem) || error.offline || error.status === 401) throw error;
        failures.push(`${pathOf(hit)}: ${error.message}`);
      }
      show(at + 1);
    }
    if (failures.length === hits.length) throw new RangeError(`No original could be fetched. ${failures[0]}`);
    if (failures.length) await writer.add("failures.txt", new Blob([failures.join("\n"), "\n"]));
    if (mine !== stopping) return;
    save(writer.finish(), "pictures.zip");
    const told = failures.length ? `${hits.length - failures.length} pictures are saved, ${failures.length} could not be fetched.` : "";
    archive.value = failures.length ? { ...archive.value, message: told } : null;
    announcement.value = told || "The archive is saved.";
  } catch (error) {
    if (error.name === "AbortError") return;
    show(archive.value?.done ?? 0, { message: error.message, failed: true });
  }
}

/** End the making of an archive, or put away how it ended. */
export function stopArchive() {
  stopping?.abort();
  stopping = null;
  archive.value = null;
}

async function original(hit, signal, left) {
  const answer = await request(`/v1/images/${encodeURIComponent(hit.image_id)}/content`, { signal });
  const tooMuch = () => new RangeError(`The pictures have more than ${MOST_BYTES / 2 ** 30} GB. Select fewer, or use lodestone search --copy-to.`);
  if (Number(answer.headers.get("Content-Length")) > left) {
    await answer.body.cancel();
    throw tooMuch();
  }
  const content = await answer.blob();
  if (content.size > left) throw tooMuch();
  return content;
}

function pathOf(hit) {
  return `${hit.root}/${hit.uri}`;
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
