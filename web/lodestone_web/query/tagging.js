// Tags of one picture: read, added and removed. Tags of one text are one thing to people, whatever their sources.
import { postJson, request, getJson } from "../engine/http.js";
import { wholeList } from "../engine/lists.js";
import { lock } from "./asking.js";

/** Return `[{text, tags}]` of a picture, the newest text first. */
export async function tagsOf(imageId, signal) {
  const tags = await asked(() => wholeList((path) => getJson(path, { signal }), `/v1/tags?image_id=${encodeURIComponent(imageId)}`, "tags"));
  const byText = new Map();
  for (const tag of tags) byText.set(tag.text, [...(byText.get(tag.text) ?? []), tag]);
  return [...byText].map(([text, same]) => ({ text, tags: same }));
}

/** Tag a picture by hand, and return the text as the service keeps it. */
export async function addTag(imageId, text) {
  const { tags } = await asked(() => postJson("/v1/tags", { image_ids: [imageId], text }));
  return tags[0].text;
}

/** Remove tags; one that is gone already is no failure. */
export async function removeTags(tags) {
  for (const { tag_id: id } of tags) {
    await asked(() => request(`/v1/tags/${encodeURIComponent(id)}`, { method: "DELETE" })).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }
}

async function asked(work) {
  try {
    return await work();
  } catch (error) {
    if (error.status === 401) lock();
    throw error;
  }
}
