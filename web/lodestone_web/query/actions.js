// What can be done: ask, refine, undo, load more, judge, sign in. Every answer goes through `show`.
import { batch } from "../html.js";
import { streamSearch } from "../engine/events.js";
import { getJson, postJson, Problem, request } from "../engine/http.js";
import { prepared } from "../engine/uploads.js";
import { EMPTY, fromAddress, isEmpty, isPrivate, keyOf, replaced, requestOf, spoken, toAddress, uploadsOf, withPart } from "./draft.js";
import { remember } from "./history.js";
import { answerByPictures } from "./sending.js";
import * as store from "./store.js";

const PAGE = 80;
const NEXT_PAGE = 200;
const FURTHEST = 1000; // the engine's largest offset
const RETRY_MS = 3000;
let running = null; // AbortController of the search that runs
let answered = ""; // the question that the results which are shown answer
const remembered = new Map(); // drafts with pictures of the user, which cannot be part of the browser's own history

/** Ask for what the draft says. `step` keeps the last draft, so that it can be gone back to. */
export async function ask(draft = store.draft.value, { step = true, address = true, keepOpen = false } = {}) {
  if (isEmpty(draft)) return idle(draft, address);
  running?.abort();
  const mine = (running = new AbortController());
  const begun = performance.now();
  const again = draft.text.trim() === store.asked.value.text.trim();
  batch(() => {
    if (step && !isEmpty(store.asked.value) && store.asked.value !== draft) {
      store.steps.value = [...store.steps.value, store.asked.value].slice(-20);
    }
    store.draft.value = draft;
    store.asked.value = draft;
    store.phase.value = "loading";
    store.problem.value = null;
    store.broken.value = false;
    store.guides.value = [];
    store.firstMs.value = store.wholeMs.value = null;
    if (!keepOpen) store.opened.value = null;
    if (!again) store.judged.value = new Map();
  });
  if (address) {
    setAddress(draft);
    remember(draft.text);
  }
  const onEvent = (message) => mine === running && take(message, begun);
  const onBroken = () => mine === running && (store.broken.value = true);
  try {
    if (uploadsOf(draft).length) onEvent({ type: "done", response: await answerByPictures(draft, { limit: NEXT_PAGE, signal: mine.signal }) });
    else await streamSearch(requestOf(draft, { limit: PAGE }), { signal: mine.signal, onEvent, onBroken });
    if (mine === running) store.phase.value = "done";
  } catch (error) {
    if (mine === running && error.name !== "AbortError") fail(error);
  }
}

/** Ask for words alone, from an example, the history or an empty page. */
export function askWords(text) {
  store.steps.value = [];
  return ask({ ...EMPTY, text, wordsOnly: store.draft.value.wordsOnly, filters: store.draft.value.filters });
}

/** Ask for pictures like an indexed one. */
export function askSimilar(hit) {
  return ask(withPart({ ...EMPTY, filters: store.asked.value.filters }, likePart(hit)));
}

/** Add an indexed picture to what was asked: `kind` is like or unlike. */
export function addPicture(hit, kind = "like") {
  return ask(withPart(store.draft.value, { ...likePart(hit), kind }));
}

/** Ask for what is like a picture, but as the words say. */
export function askLikeBut(hit, words) {
  return ask({ ...withPart({ ...EMPTY, filters: store.asked.value.filters }, likePart(hit)), text: words });
}

/** Ask for what is like a region: of an indexed picture anew, of a part of the query in its place. */
export function askRegion({ hit, part }, region) {
  if (part) return ask(replaced(store.asked.value, part, { ...part, region }));
  return ask(withPart({ ...EMPTY, filters: store.asked.value.filters }, { ...likePart(hit), region }));
}

/** Add pictures of the user to the query. */
export async function addFiles(files) {
  let draft = store.draft.value;
  for (const file of files) {
    try {
      draft = withPart(draft, { kind: "upload", ...(await prepared(file)) });
    } catch (error) {
      store.toast.value = error.message;
    }
  }
  if (draft !== store.draft.value) await ask(draft);
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
  const offset = answer?.next_offset;
  const idle = store.phase.value === "done" && !store.loadingMore.value;
  if (!idle || !offset || offset > FURTHEST || uploadsOf(store.asked.value).length) return;
  const mine = running;
  store.loadingMore.value = true;
  try {
    const body = requestOf(store.asked.value, { limit: NEXT_PAGE, offset });
    const more = await postJson("/v1/search", body, { signal: mine?.signal });
    if (mine !== running) return;
    const there = new Set(store.hits.value.map((hit) => hit.image_id));
    store.hits.value = [...store.hits.value, ...more.hits.filter((hit) => !there.has(hit.image_id))];
    store.answer.value = { ...answer, next_offset: more.next_offset };
  } catch (error) {
    if (mine !== running) return; // another question was asked meanwhile
    if (error.status === 401) store.locked.value = true;
    store.toast.value = error.message;
    store.answer.value = { ...answer, next_offset: null };
  } finally {
    store.loadingMore.value = false;
  }
}

/** Say whether a picture was right for the words; then ask again, so that what was learnt shows. */
export async function judge(hit, right) {
  const before = store.judged.value;
  const changed = new Map(before);
  if (before.get(hit.image_id) === right) return;
  changed.set(hit.image_id, right);
  store.judged.value = changed;
  const member = right ? "relevant" : "irrelevant";
  try {
    const result = await postJson("/v1/feedback", { query_id: store.answer.value.query_id, [member]: [hit.image_id] });
    store.announcement.value = store.toast.value = learnt(result);
    await ask(store.asked.value, { step: false, address: false, keepOpen: true });
  } catch (error) {
    if (error.status === 401) store.locked.value = true;
    store.judged.value = before;
    store.toast.value = [error.message, error.hint].filter(Boolean).join(" ");
  }
}

function learnt({ applied, before, after }) {
  if (!applied) return "This was known already.";
  const moved = Object.keys(after).filter((space) => Math.abs(after[space] - (before[space] ?? 1)) > 0.0005);
  const told = moved.map((space) => `${space} ${(before[space] ?? 1).toFixed(3)} → ${after[space].toFixed(3)}`);
  return told.length ? `Thank you. Trust changed: ${told.join(", ")}.` : "Thank you. Nothing had to change.";
}

/** Give a key or token once, for a session of this browser. */
export async function signIn(key) {
  await request("/v1/session", { method: "POST", headers: { Authorization: `Bearer ${key.trim()}` } });
  store.locked.value = false;
  signedIn(true);
  await begin();
}

/** End the session of this browser. */
export async function signOut() {
  try {
    await request("/v1/session", { method: "DELETE" });
  } catch (error) {
    if (error.status !== 401) { // with 401 it has ended by itself
      store.toast.value = `You are still signed in. ${error.message}`;
      return;
    }
  }
  idle(EMPTY, true);
  store.corpora.value = [];
  signedIn(false);
  store.locked.value = true;
}

function signedIn(is) {
  store.signedIn.value = is;
  try {
    if (is) localStorage.setItem("lodestone.session", "1"); // scripts cannot see the cookie itself
    else localStorage.removeItem("lodestone.session");
  } catch {
    // Private windows may keep nothing.
  }
}

/** Read what the page needs, and ask for what its address says. */
export async function begin() {
  try {
    store.corpora.value = (await getJson("/v1/corpora?limit=200")).corpora;
    store.online.value = true;
  } catch (error) {
    if (error.status === 401) store.locked.value = true;
    else fail(error);
    return;
  }
  await openAddress();
}

/** Ask for what the address says; at the start, and on back and forward. */
export function openAddress() {
  const { draft: kept, remembered: at } = history.state ?? {};
  const draft = kept ?? remembered.get(at) ?? fromAddress(location.search);
  return ask(draft, { step: false, address: false });
}

function setAddress(draft) {
  const own = isPrivate(draft) ? `${performance.timeOrigin}.${remembered.size}` : null; // blobs do not outlive the page
  if (own) remembered.set(own, draft);
  const kept = own ? { remembered: own } : { draft };
  const query = toAddress(draft);
  const address = `${location.pathname}${query ? `?${query}` : ""}`;
  if (query === location.search.replace(/^\?/, "") && !own && !history.state?.remembered) history.replaceState(kept, "", address);
  else history.pushState(kept, "", address);
}

function idle({ text, wordsOnly, filters }, address) {
  const draft = { ...EMPTY, text, wordsOnly, filters };
  running?.abort();
  running = null;
  batch(() => {
    store.draft.value = draft;
    store.asked.value = draft;
    store.steps.value = [];
    store.phase.value = "idle";
    store.problem.value = null;
    store.hits.value = [];
    store.guides.value = [];
    store.answer.value = null;
  });
  if (address) setAddress(draft);
}

/** Return what tells a draft from all others that have other results. */
function questionOf(draft) {
  return JSON.stringify([requestOf(draft, { limit: PAGE }), draft.parts.map(keyOf)]);
}

function take(message, begun) {
  batch(() => {
    store.broken.value = false;
    store.online.value = true;
    if (message.type === "guide") store.guides.value = [...store.guides.value, message.guide];
    if (message.type === "results" || message.type === "done") show(message.response, message.type === "done", begun);
  });
}

function show({ hits, ...response }, final, begun) {
  store.firstMs.value ??= Math.round(performance.now() - begun);
  answered = questionOf(store.asked.value);
  store.hits.value = hits;
  store.answer.value = response;
  if (response.guides.length) store.guides.value = response.guides;
  store.phase.value = final ? "done" : "streaming";
  if (final) {
    store.wholeMs.value = Math.round(performance.now() - begun);
    const count = response.next_offset ? `The best ${hits.length}` : hits.length || "No";
    store.announcement.value = `${count} ${hits.length === 1 ? "picture" : "pictures"} for ${spoken(store.asked.value)}.`;
  }
}

function fail(error) {
  batch(() => {
    store.broken.value = false;
    store.problem.value = error instanceof Problem ? error : new Problem(-1, { detail: error.message });
    store.phase.value = "failed";
    if (questionOf(store.asked.value) !== answered) store.hits.value = []; // those that are shown answer an earlier question
    if (error.status === 401) store.locked.value = true;
    if (error.offline) store.online.value = false;
  });
  if (error.offline) waitForService();
}

let waiting = 0;

function waitForService() {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (store.online.value) return;
    try {
      await request("/healthz");
    } catch {
      waitForService();
      return;
    }
    store.online.value = true;
    if (store.corpora.value.length) await ask(store.asked.value, { step: false, address: false });
    else await begin();
  }, RETRY_MS);
}

function likePart(hit) {
  return { kind: "like", id: hit.image_id, thumbnail: hit.thumbnail, name: hit.uri };
}
