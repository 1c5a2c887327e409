// Thumbs: whether pictures were right for the words, and what the engine learnt of it.
import { batch } from "../html.js";
import { postJson } from "../engine/http.js";
import { ask, lock } from "./asking.js";
import { wrongLast } from "./judging.js";
import * as store from "./store.js";

/** Say whether a picture was right for the words; then ask again, so that what was learnt shows. */
export async function judge(hit, right) {
  const before = store.judged.value;
  const changed = new Map(before);
  if (before.get(hit.image_id) === right) return;
  changed.set(hit.image_id, right);
  const order = store.hits.value;
  batch(() => {
    store.judged.value = changed;
    store.hits.value = wrongLast(order);
  });
  const moved = store.hits.value;
  const member = right ? "relevant" : "irrelevant";
  try {
    const result = await postJson("/v1/feedback", { query_id: hit.query_id ?? store.answer.value.query_id, [member]: [hit.image_id] });
    store.announcement.value = store.toast.value = learnt(result);
    await ask(store.asked.value, { step: false, address: false, keepOpen: true });
  } catch (error) {
    if (error.status === 401) lock();
    const restored = new Map(store.judged.value); // other pictures may have been judged meanwhile
    if (before.has(hit.image_id)) restored.set(hit.image_id, before.get(hit.image_id));
    else restored.delete(hit.image_id);
    store.judged.value = restored;
    if (store.hits.value === moved) store.hits.value = order;
    store.toast.value = [error.message, error.hint].filter(Boolean).join(" ");
  }
}

/** Put the large picture away: the results go to where it stands, or stood if it was called wrong. */
export function closePicture() {
  const { opened, judged, hits, shownLast } = store;
  const id = opened.value;
  const place = hits.value.findIndex((hit) => hit.image_id === id);
  batch(() => {
    opened.value = null;
    hits.value = wrongLast(hits.value);
    if (place >= 0) shownLast.value = judged.value.get(id) === false ? hits.value[place].image_id : id;
  });
}

function learnt({ applied, before, after }) {
  if (!applied) return "This was known already.";
  const moved = Object.keys(after).filter((space) => Math.abs(after[space] - (before[space] ?? 1)) > 0.0005);
  const told = moved.map((space) => `${space} ${(before[space] ?? 1).toFixed(3)} → ${after[space].toFixed(3)}`);
  return told.length ? `Thank you. Trust changed: ${told.join(", ")}.` : "Thank you. Nothing had to change.";
}
