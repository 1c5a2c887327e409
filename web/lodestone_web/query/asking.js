// The question that is asked: one at a time, streamed, and asked again when the service is back. Every answer goes through `show`.
import { batch } from "../html.js";
import { streamSearch } from "../engine/events.js";
import { Problem, request } from "../engine/http.js";
import { entryOfAddress, setAddress } from "./addresses.js";
import { browsed } from "./browsing.js";
import { lookForIndexing, reread } from "./collection.js";
import { EMPTY, isAsking, isBrowsing, keyOf, requestOf, spoken, uploadsOf } from "./draft.js";
import { remember } from "./history.js";
import { wrongLast } from "./judging.js";
import { showPicture } from "./opening.js";
import { answerByPictures } from "./sending.js";
import * as store from "./store.js";

const PAGE = 80;
const MOST = 200; // results of an answer to pictures that are sent
const RETRY_MS = 3000;
/** AbortController of the search that runs. */
export let running = null;
let wanted = null; // id of the picture that the address shows large, until it is there
let answered = ""; // the question that the results which are shown answer

/**
 * Ask for what the draft says. `step` keeps the last draft, so that it can be gone back to. `address` makes an entry of the
 * browser's history, or replaces the current one ("replace"). `picture` is the id of the one that is shown large when it is there.
 */
export async function ask(draft = store.draft.value, { step = true, address = true, keepOpen = false, picture = null } = {}) {
  if (!isAsking(draft)) return idle(draft, address, picture);
  running?.abort();
  const mine = (running = new AbortController());
  const begun = performance.now();
  const again = draft.text.trim() === store.asked.value.text.trim();
  batch(() => {
    if (step && isAsking(store.asked.value) && store.asked.value !== draft) {
      store.steps.value = [...store.steps.value, store.asked.value].slice(-20);
    }
    store.draft.value = draft;
    store.asked.value = draft;
    store.phase.value = "loading";
    store.problem.value = null;
    store.moreProblem.value = null;
    store.broken.value = false;
    store.guides.value = [];
    store.firstMs.value = store.wholeMs.value = null;
    if (!keepOpen) store.opened.value = store.cropping.value = store.lone.value = null;
    if (!again) store.judged.value = new Map();
  });
  if (address) {
    setAddress({ draft, steps: store.steps.value }, { replace: address === "replace" });
    remember(draft.text);
  }
  wanted = picture;
  const onEvent = (message) => mine === running && take(message, begun);
  const onBroken = () => mine === running && (store.broken.value = true);
  try {
    if (isBrowsing(draft)) onEvent({ type: "done", response: await browsed(draft.filters, { signal: mine.signal }) });
    else if (uploadsOf(draft).length) onEvent({ type: "done", response: await answerByPictures(draft, { limit: MOST, signal: mine.signal }) });
    else await streamSearch(requestOf(draft, { limit: PAGE }), { signal: mine.signal, onEvent, onBroken });
    if (mine === running) store.phase.value = "done";
  } catch (error) {
    if (mine === running && error.name !== "AbortError") fail(error);
  }
}

/** Read what the page needs, and ask for what its address says. */
export async function begin() {
  try {
    await reread();
    lookForIndexing();
  } catch (error) {
    if (error.status === 401) lock();
    else fail(error);
    return;
  }
  const written = store.draft.value === store.asked.value ? null : store.draft.value; // somebody was quicker
  const asking = openAddress();
  if (written) store.draft.value = written;
  await asking;
}

/** Ask for what the address says; at the start, and on back and forward. */
export function openAddress() {
  const { draft, steps, picture } = entryOfAddress();
  store.steps.value = steps;
  const there = store.phase.value === "done" && [draft, store.asked.value].every((one) => questionOf(one) === answered);
  if (!there) return ask(draft, { step: false, address: false, picture });
  store.draft.value = store.asked.value = draft;
  return showPicture(picture);
}

/** Ask for a key; nothing may lie above the form. */
export function lock() {
  store.locked.value = true;
  store.opened.value = store.cropping.value = store.lone.value = null;
}

/** Show the page without a question, or a picture alone; what else the draft holds is kept. */
export function idle({ text, wordsOnly, composition, copies }, address, picture = null) {
  const draft = { ...EMPTY, text, wordsOnly, composition, copies };
  running?.abort();
  running = null;
  batch(() => {
    store.draft.value = draft;
    store.asked.value = draft;
    store.steps.value = [];
    store.phase.value = "idle";
    store.problem.value = null;
    store.moreProblem.value = null;
    store.hits.value = [];
    store.guides.value = [];
    store.answer.value = null;
    store.opened.value = store.cropping.value = store.lone.value = null;
  });
  if (address) setAddress({ draft, steps: [] });
  return showPicture(picture);
}

/** Return what tells a draft from all others that have other results. */
function questionOf(draft) {
  return isAsking(draft) ? JSON.stringify([requestOf(draft, { limit: PAGE }), draft.parts.map(keyOf)]) : null;
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
  store.hits.value = wrongLast(hits);
  store.answer.value = response;
  if (response.guides.length) store.guides.value = response.guides;
  store.phase.value = final ? "done" : "streaming";
  if (wanted !== null && (final || hits.some((hit) => hit.image_id === wanted))) {
    showPicture(wanted);
    wanted = null;
  }
  if (final) {
    lookForIndexing();
    store.wholeMs.value = Math.round(performance.now() - begun);
    store.announcement.value = announced(hits.length, response);
  }
}

function announced(count, { next_offset: more, probably_nothing: doubtful }) {
  const pictures = `${count || "No"} ${count === 1 ? "picture" : "pictures"}`;
  if (isBrowsing(store.asked.value)) return `${pictures}: ${spoken(store.asked.value)}.`;
  if (doubtful) return `Probably no picture shows ${spoken(store.asked.value)}. ${pictures} come nearest.`;
  return `${more ? `The best ${count} pictures` : pictures} for ${spoken(store.asked.value)}.`;
}

function fail(error) {
  batch(() => {
    store.broken.value = false;
    store.problem.value = error instanceof Problem ? error : new Problem(-1, { detail: error.message });
    store.phase.value = "failed";
    if (questionOf(store.asked.value) !== answered) store.hits.value = []; // those that are shown answer an earlier question
    if (error.status === 401) lock();
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
