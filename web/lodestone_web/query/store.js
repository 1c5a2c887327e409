// What the page knows: the draft, the answer so far, and the state of the search. Views read it, the modules beside it change it.
import { computed, signal } from "../html.js";
import { EMPTY } from "./draft.js";

export const draft = signal(EMPTY); // what is being written
export const asked = signal(EMPTY); // what was asked last
export const steps = signal([]); // drafts before the last one, oldest first

/** idle, loading, streaming, done or failed. */
export const phase = signal("idle");
export const answer = signal(null); // the last response of the service, without its hits
export const hits = signal([]);
export const guides = signal([]);
export const problem = signal(null);
export const broken = signal(false); // the connection is being taken up again
export const firstMs = signal(null); // from the question to the first pictures, as seen here
export const wholeMs = signal(null); // to the whole answer
export const loadingMore = signal(false);
export const moreProblem = signal(null); // why further results could not be loaded

export const online = signal(true); // whether the service answers; on loopback it does without any network
export const locked = signal(false); // the service asks for a key
export const signedIn = signal(kept("lodestone.session")); // a key was given in this browser
export const corpora = signal([]);
export const known = signal(false); // the service told what there is to search in
export const indexing = signal(null); // {done, total} of the index run that goes on
export const announcement = signal(""); // read out by screen readers
export const toast = signal(""); // a text, or {text, label, act}: a text with a button

export const opened = signal(null); // id of the picture in the lightbox
export const lone = signal(null); // the large picture where it is none of the results: an address named it
export const cropping = signal(null); // {hit} or {part} of which a region is being drawn
export const shownLast = signal(null); // id of the picture that the lightbox showed when it closed: the grid goes there
export const judged = signal(new Map()); // image id -> true (right) or false (wrong), for the last words

export const busy = computed(() => phase.value === "loading" || phase.value === "streaming");
export const pictures = computed(() => corpora.value.reduce((sum, corpus) => sum + corpus.images, 0));

function kept(name) {
  try {
    return localStorage.getItem(name) !== null;
  } catch {
    return false;
  }
}
