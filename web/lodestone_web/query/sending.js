// Queries with pictures that are sent: those of the user, and regions that the page cuts out of indexed pictures.
import { request } from "../engine/http.js";
import { cutOut } from "../engine/uploads.js";
import { requestOf, uploadsOf } from "./draft.js";

/** Return the answer to a draft of which at least one picture is sent. */
export async function answerByPictures(draft, { limit, signal }) {
  const form = new FormData();
  const body = requestOf(draft, { limit });
  for (const [at, part] of uploadsOf(draft).entries()) {
    const whole = part.blob ?? await contentOf(part, signal);
    const sent = part.region && !body.region ? await cutOut(whole, part.region) : whole; // the service cuts out one by itself
    form.append(at === 0 ? "image" : "images", sent, "picture");
  }
  form.append("options", JSON.stringify(body));
  return (await request("/v1/search/image", { method: "POST", body: form, signal })).json();
}

/** Return an indexed picture that the browser can read: its original, or else its thumbnail. */
async function contentOf(part, signal) {
  const path = `/v1/images/${encodeURIComponent(part.id)}`;
  const original = await (await request(`${path}/content`, { signal })).blob();
  const readable = await createImageBitmap(original).then((picture) => { picture.close(); return true; }, () => false);
  return readable ? original : (await request(`${path}/thumbnail`, { signal })).blob();
}
