// Explanations of queries, each asked for once.
import { signal } from "../html.js";
import { getJson } from "../engine/http.js";
import { hits } from "./store.js";

const MOST = 8; // that are kept: a query and its further pages

const explanations = signal(new Map());
const asking = new Set();
let session = 0; // counts what was forgotten: answers to an earlier session are not kept

/** Return the explanation of a query, or null until it is there; views that ask for it are shown again. */
export function explanationOf(queryId) {
  if (queryId && !explanations.value.has(queryId) && !asking.has(queryId)) ask(queryId);
  return explanations.value.get(queryId) ?? null;
}

/** Return guide id to the hit that is nearest to the guide, which stands for one without a picture. */
export function standIns(queryId) {
  const explanation = explanationOf(queryId);
  const nearest = new Map();
  if (!explanation) return nearest;
  const known = new Map(hits.value.map((hit) => [hit.image_id, hit]));
  for (const hit of explanation.hits) {
    for (const part of hit.parts) {
      const other = nearest.get(part.guide);
      if (part.rank !== null && known.has(hit.image_id) && (!other || part.rank < other.rank)) {
        nearest.set(part.guide, { ...known.get(hit.image_id), rank: part.rank });
      }
    }
  }
  return nearest;
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
