// The order of results after some were judged.
import { judged, opened } from "./store.js";

/** Return the hits with those that were called wrong behind the others; the large picture keeps its place until it is put away. */
export function wrongLast(hits) {
  const isWrong = ({ image_id: id }) => judged.value.get(id) === false && id !== opened.value;
  return hits.some(isWrong) ? [...hits.filter((hit) => !isWrong(hit)), ...hits.filter(isWrong)] : hits;
}
