// The page's address and the browser's history: each entry holds a draft and the steps that led to it.
import { fromAddress, isPrivate, toAddress } from "./draft.js";

const remembered = new Map(); // entries with pictures of the user, which cannot be part of the browser's own history
let count = 0; // of what was remembered

/** Return `{draft, steps}` of the address. */
export function entryOfAddress() {
  const kept = remembered.get(history.state?.remembered) ?? history.state;
  return { draft: kept?.draft ?? fromAddress(location.search), steps: kept?.steps ?? [] };
}

/** Make an entry of the browser's history, or replace the current one. One with the same address is replaced, too. */
export function setAddress(entry, { replace = false } = {}) {
  const own = [entry.draft, ...entry.steps].some(isPrivate) ? `${performance.timeOrigin}.${(count += 1)}` : null; // blobs do not outlive the page
  if (own) remembered.set(own, entry);
  const kept = own ? { remembered: own } : entry;
  const query = toAddress(entry.draft);
  const address = `${location.pathname}${query ? `?${query}` : ""}`;
  const same = query === location.search.replace(/^\?/, "") && !own && !history.state?.remembered;
  if (same || replace) history.replaceState(kept, "", address);
  else history.pushState(kept, "", address);
}

/** Forget the entries with pictures of the user. */
export function forgetEntries() {
  remembered.clear();
}
