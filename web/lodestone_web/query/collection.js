// The collection as the service tells of it: its corpora, what the caller may do with it, and whether pictures are being indexed.
import { batch } from "../html.js";
import { getJson } from "../engine/http.js";
import { wholeList } from "../engine/lists.js";
import { passHeaders } from "../engine/unlocked.js";
import { access } from "./access.js";
import * as store from "./store.js";

const POLL_MS = 3000;
let timer = 0;

/** Read what there is to search in, and what the caller may do. */
export async function reread() {
  const [corpora, told] = await Promise.all([
    wholeList(getJson, "/v1/corpora", "corpora"),
    getJson("/v1/access", { headers: passHeaders() }).catch(() => null), // the page does without: corpora say what is wrong
  ]);
  batch(() => {
    store.corpora.value = corpora;
    access.value = told;
    store.known.value = true;
    store.online.value = true;
  });
}

/** Find out whether an index run goes on. While one does, this is asked again; its first pictures and its end are read. */
export async function lookForIndexing() {
  clearTimeout(timer);
  const before = store.indexing.value;
  const run = await getJson("/v1/runs?state=running&kind=index&limit=1").then(({ runs }) => runs[0], () => null);
  clearTimeout(timer); // of a look that began meanwhile
  store.indexing.value = run ? { done: run.progress?.done ?? 0, total: run.progress?.total ?? 0 } : null;
  if (run) timer = setTimeout(lookForIndexing, POLL_MS);
  if (run ? store.pictures.value === 0 : before) await reread().catch(() => undefined); // the next question says what is wrong
}
