// The explanation of a query, asked for once, and the nearest pictures that stand for guides without one.
import { signal } from "../html.js";
import { getJson } from "../engine/http.js";
import { hits } from "../query/store.js";

const explanations = signal(new Map());
const asking = new Set();

/** Return the explanation of a query, or null until it is there; views that ask for it are shown again. */
export function explanationOf(queryId) {
  if (queryId && !explanations.value.has(queryId) && !asking.has(queryId)) {
    asking.add(queryId);
    getJson(`/v1/queries/${queryId}`)
      .catch(() => null) // not recorded, or not for this caller
      .then((told) => { explanations.value = new Map([[queryId, told]]); })
      .finally(() => asking.delete(queryId));
  }
  return explanations.value.get(queryId) ?? null;
}

/** Return guide id to the hit that is nearest to the guide. */
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
