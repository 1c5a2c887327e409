// Words that were searched before, newest first, kept in this browser alone.
import { signal } from "../html.js";

const NAME = "lodestone.history";
const MOST = 30;

export const history = signal(read());

/** Put words in front of the history. */
export function remember(text) {
  const words = text.trim();
  if (words) keep([words, ...history.value.filter((other) => other !== words)].slice(0, MOST));
}

/** Forget one entry, or all. */
export function forget(text) {
  keep(text === undefined ? [] : history.value.filter((other) => other !== text));
}

function keep(entries) {
  history.value = entries;
  try {
    localStorage.setItem(NAME, JSON.stringify(entries));
  } catch {
    // Private windows may keep nothing.
  }
}

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter((entry) => typeof entry === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

addEventListener("storage", (event) => {
  if (event.key === NAME) history.value = read(); // another tab has searched
});
