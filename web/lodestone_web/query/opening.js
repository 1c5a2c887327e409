// The large picture: opened from the results or by an address, and put away.
import { batch } from "../html.js";
import { getJson } from "../engine/http.js";
import { pictureInAddress, pictureOutOfAddress } from "./addresses.js";
import { wrongLast } from "./judging.js";
import * as store from "./store.js";

/** Show a picture large. It has an entry of the browser's history, which Back leaves and Forward comes to. */
export function openPicture(id) {
  store.opened.value = id;
  pictureInAddress({ draft: store.asked.value, steps: store.steps.value, picture: id });
}

/** Put the large picture away: the results go to where it stands, or stood if it was called wrong. */
export function closePicture({ address = true } = {}) {
  const { opened, judged, hits, shownLast } = store;
  const id = opened.value;
  const place = hits.value.findIndex((hit) => hit.image_id === id);
  batch(() => {
    opened.value = null;
    store.lone.value = null;
    hits.value = wrongLast(hits.value);
    if (place >= 0) shownLast.value = judged.value.get(id) === false ? hits.value[place].image_id : id;
  });
  if (address && id !== null) pictureOutOfAddress({ draft: store.asked.value, steps: store.steps.value });
}

/** Show what the address says: the picture of an id, or none. It may be none of the results; then it stands alone. */
export async function showPicture(id) {
  store.cropping.value = null;
  if (id === null) {
    if (store.opened.value !== null) closePicture({ address: false });
    return;
  }
  if (store.hits.value.some((hit) => hit.image_id === id)) {
    store.opened.value = id;
    return;
  }
  const asked = store.asked.value;
  try {
    const info = await getJson(`v1/images/${encodeURIComponent(id)}`);
    if (store.asked.value !== asked) return;
    batch(() => {
      store.lone.value = { ...info, copies: 0, missing: false };
      store.opened.value = id;
    });
  } catch (error) {
    if (store.asked.value !== asked) return;
    store.toast.value = error.status === 404 || error.status === 422 ? "The picture of this address is not here any more." : error.message;
    pictureOutOfAddress({ draft: asked, steps: store.steps.value });
  }
}
