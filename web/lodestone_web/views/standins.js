// The nearest pictures, which stand for guides without a picture.
import { explanationOf } from "../query/explanations.js";
import { hits } from "../query/store.js";

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
