// Explanations of queries, each asked for once.
import { signal } from "../html.js";
import { getJson } from "../engine/http.js";

const MOST = 8; // that are kept: a query and its further pages

const explanations = signal(new Map());
const asking = new Set();
let session = 0; // counts what was forgotten: answers to an earlier session are not kept

/** Return the explanation of a query, or null until it is there; views that ask for it are shown again. */
export function explanationOf(queryId) {
  if (queryId && !explanations.value.has(queryId) && !asking.has(queryId)) ask(queryId);
  return explanations.value.get(queryId) ?? null;
}

/** Forget all explanations: the session has ended. */
export function forgetExplanations() {
  session += 1;
  asking.clear();
  explanations.value = new Map();
}

async function ask(queryId) {
  const mine = session;
  asking.add(queryId);
  let told; // stays undefined where asking failed: it is asked for again
  try {
    told = await getJson(`/v1/queries/${queryId}`);
  } catch (error) {
    if (error.status === 404) told = null; // not recorded, or not for this caller
  }
  if (mine !== session) return;
  asking.delete(queryId);
  if (told !== undefined) explanations.value = new Map([...explanations.value, [queryId, told]].slice(-MOST));
}
