// All pictures that pass the filters, newest first: what is shown where nothing but filters is asked for.
import { postJson } from "../engine/http.js";

const PAGE = 200;

/** Return a page of them as an answer has it: `{hits, next_cursor, …}`. */
export async function browsed(filters, { cursor, signal } = {}) {
  const page = await postJson("/v1/images/browse", { filters, limit: PAGE, ...(cursor ? { cursor } : {}) }, { signal });
  const hits = page.images.map((image) => ({ ...image, copies: 0, missing: false }));
  return { stage: "browse", hits, next_cursor: page.next_cursor, next_offset: null, parts: [], guides: [], warnings: [], dropped: [] };
}
