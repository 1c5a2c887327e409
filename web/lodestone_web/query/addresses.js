// The page's address and the browser's history: each entry holds a draft, the steps that led to it, and the picture that is large.
import { fromAddress, isPrivate, toAddress } from "./draft.js";

const remembered = new Map(); // entries with pictures of the user, which cannot be part of the browser's own history
let count = 0; // of what was remembered
let leaving = false; // the page goes back by itself, and the browser has not arrived yet
let waiting = null; // the entry that was to be made meanwhile

/** Return `{draft, steps, picture}` of the address; `picture` is the id of the large one, or null. */
export function entryOfAddress() {
  const kept = remembered.get(history.state?.remembered) ?? history.state;
  const picture = new URLSearchParams(location.search).get("picture");
  return { draft: kept?.draft ?? fromAddress(location.search), steps: kept?.steps ?? [], picture };
}

/**
 * Make an entry of the browser's history, or replace the current one. One with the same address is replaced, too. `over` marks
 * the entry of a large picture that lies over its results: whoever closes it goes back to them.
 */
export function setAddress(entry, { replace = false, over = false } = {}) {
  if (leaving) {
    waiting = [entry, { replace, over }];
    return;
  }
  const { draft, steps, picture = null } = entry;
  const own = [draft, ...steps].some(isPrivate) ? `${performance.timeOrigin}.${(count += 1)}` : null; // blobs do not outlive the page
  if (own) remembered.set(own, { draft, steps });
  const kept = { ...(own ? { remembered: own } : { draft, steps }), over };
  const query = addressOf(draft, picture);
  const address = `${location.pathname}${query ? `?${query}` : ""}`;
  const same = query === location.search.replace(/^\?/, "") && !own && !history.state?.remembered;
  if (!same && !replace) {
    history.pushState(kept, "", address);
    return;
  }
  remembered.delete(history.state?.remembered);
  history.replaceState(kept, "", address);
}

/** Put a large picture into the address; another one takes the place of the one before. */
export function pictureInAddress(entry) {
  const there = new URLSearchParams(location.search).has("picture");
  // Back from here the results go to the picture that was shown last. A browser that is late would scroll them to where they were.
  history.scrollRestoration = "manual";
  setAddress(entry, there ? { replace: true, over: history.state?.over === true } : { over: true });
}

/** Take the large picture out of the address: by going back where it lies over its results. */
export function pictureOutOfAddress(entry) {
  if (leaving || !new URLSearchParams(location.search).has("picture")) return;
  if (history.state?.over) {
    leaving = true;
    history.back();
  } else {
    setAddress(entry, { replace: true });
  }
}

/** Return whether the browser arrived where the page itself went back to: then the page shows already what belongs there. */
export function arrived() {
  if (!leaving) return false;
  leaving = false;
  const made = waiting;
  waiting = null;
  if (made) setAddress(...made);
  return true;
}

/** Forget the entries with pictures of the user. */
export function forgetEntries() {
  remembered.clear();
}

function addressOf(draft, picture) {
  const params = new URLSearchParams(toAddress(draft));
  if (picture) params.set("picture", picture);
  return params.toString();
}
