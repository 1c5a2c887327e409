// The pictures that are selected. They stay selected while one searches on, until the selection is cleared.
import { computed, signal } from "../html.js";
import { hits } from "./store.js";

export const selected = signal(new Map()); // image id -> hit, in the order of selecting
export const selecting = computed(() => selected.value.size > 0);
let anchor = null; // id of the picture that was selected last: a range begins there

/** Select a picture or leave it out; with `range`, select all from the last one to it. */
export function toggle(hit, { range = false } = {}) {
  const changed = new Map(selected.value);
  const from = hits.value.findIndex((other) => other.image_id === anchor);
  const to = hits.value.findIndex((other) => other.image_id === hit.image_id);
  if (range && from >= 0 && to >= 0) {
    for (const other of hits.value.slice(Math.min(from, to), Math.max(from, to) + 1)) changed.set(other.image_id, other);
  } else if (!changed.delete(hit.image_id)) {
    changed.set(hit.image_id, hit);
  }
  anchor = hit.image_id;
  selected.value = changed;
}

/** Select all results that are there. */
export function selectAll() {
  selected.value = new Map([...selected.value, ...hits.value.map((hit) => [hit.image_id, hit])]);
}

/** Select nothing. */
export function clearSelection() {
  selected.value = new Map();
  anchor = null;
}

/** Do what a key says on a picture; returns whether it says anything: x, Shift+X, Ctrl+A, Escape. */
export function selectByKey(event, hit) {
  const control = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  const act = key === "x" && !control && !event.altKey && hit ? () => toggle(hit, { range: event.shiftKey })
    : key === "a" && control ? selectAll
    : key === "escape" && selected.value.size ? clearSelection : null;
  if (!act) return false;
  event.preventDefault();
  act();
  return true;
}

/** Do what a click with Shift or Ctrl says; returns whether it was one. */
export function selectByClick(event, hit) {
  if (!event.shiftKey && !event.ctrlKey && !event.metaKey) return false;
  event.preventDefault();
  toggle(hit, { range: event.shiftKey });
  return true;
}
