// What can be done with a query: ask anew, add to it, undo, load more.
import { postJson } from "../engine/http.js";
import { prepared } from "../engine/uploads.js";
import { ask, lock, running } from "./asking.js";
import { browsed } from "./browsing.js";
import { isFull, kept, MOST_PARTS, replaced, requestOf, uploadsOf, withPart, withText } from "./draft.js";
import { wrongLast } from "./judging.js";
import { excess, MOST_CHARS } from "./limits.js";
import * as store from "./store.js";

const NEXT_PAGE = 200;
const FURTHEST = 1000; // the engine's largest offset
const FULL = `A query has at most ${MOST_PARTS} parts. Remove one first.`;

/** Ask for words alone, from an example, the history or an empty page. */
export function askWords(text) {
  return ask({ ...kept(store.draft.value), text, wordsOnly: store.draft.value.wordsOnly });
}

/** Ask for what is written, with other `members` of the draft. Words that are too long stay as they are, and are not asked for. */
export function askWritten(members = {}, options = {}) {
  const draft = { ...store.draft.value, ...members };
  if (excess(draft.text, MOST_CHARS)) {
    store.draft.value = draft;
    return undefined;
  }
  return ask({ ...draft, weights: withText(store.asked.value, draft.text).weights }, options);
}

/** Ask for pictures like an indexed one. */
export function askSimilar(hit) {
  return ask(withPart(kept(store.asked.value), likePart(hit)));
}

/** Add an indexed picture to what was asked: `kind` is like or unlike. */
export function addPicture(hit, kind = "like") {
  return addPart(store.draft.value, { ...likePart(hit), kind });
}

/** Ask for a draft with a part more. One that has all that a query can have is not asked: this says so, and returns nothing. */
export function addPart(draft, part) {
  if (isFull(draft)) {
    store.toast.value = FULL;
    return undefined;
  }
  return ask(withPart(draft, part));
}

/** Ask for what is like a picture, but as the words say. */
export function askLikeBut(hit, words) {
  return ask({ ...withPart(kept(store.asked.value), likePart(hit)), text: words });
}

/** Ask for what is like a region: of an indexed picture anew, of a part of the query in its place. */
export function askRegion({ hit, part }, region) {
  if (part) return ask(replaced(store.asked.value, part, { ...part, region }));
  return ask(withPart(kept(store.asked.value), { ...likePart(hit), region }));
}

/** Add pictures of the user to the query; `before` is the draft that they are added to. */
export async function addFiles(files, before = store.draft.value) {
  let draft = before;
  for (const file of files) {
    if (isFull(draft)) {
      store.toast.value = FULL;
      break;
    }
    try {
      draft = withPart(draft, { kind: "upload", ...(await prepared(file)) });
    } catch (error) {
      store.toast.value = { text: error.message, label: "Try another picture", act: choosePicture };
    }
  }
  if (draft !== before) await ask(draft);
}

/** Let the user choose a picture; browsers allow it only as the answer to a click. */
function choosePicture() {
  document.querySelector(".searchbox input[type=file]")?.click();
}

/** Go back to the draft before, or to the step of an index. */
export function undo(index = store.steps.value.length - 1) {
  const step = store.steps.value[index];
  if (!step) return undefined;
  store.steps.value = store.steps.value.slice(0, index);
  return ask(step, { step: false });
}

/** Fetch further results, once at a time. */
export async function loadMore() {
  const answer = store.answer.value;
  const [offset, cursor] = [answer?.next_offset, answer?.next_cursor];
  const idle = store.phase.value === "done" && !store.loadingMore.value;
  const further = cursor || (offset && offset <= FURTHEST && !uploadsOf(store.asked.value).length);
  if (!idle || !further) return;
  const mine = running;
  store.loadingMore.value = true;
  store.moreProblem.value = null;
  try {
    const signal = mine?.signal;
    const more = cursor ? await browsed(store.asked.value.filters, { cursor, signal })
      : await postJson("/v1/search", requestOf(store.asked.value, { limit: NEXT_PAGE, offset }), { signal });
    if (mine !== running) return;
    const there = new Set(store.hits.value.map((hit) => hit.image_id));
    const added = more.hits.filter((hit) => !there.has(hit.image_id)).map((hit) => ({ ...hit, query_id: more.query_id }));
    store.hits.value = wrongLast([...store.hits.value, ...added]);
    store.answer.value = { ...answer, next_offset: more.next_offset, next_cursor: more.next_cursor };
  } catch (error) {
    if (mine !== running) return; // another question was asked meanwhile
    if (error.status === 401) lock();
    store.moreProblem.value = error;
  } finally {
    store.loadingMore.value = false;
  }
}

function likePart(hit) {
  return { kind: "like", id: hit.image_id, thumbnail: hit.thumbnail, name: hit.uri };
}
