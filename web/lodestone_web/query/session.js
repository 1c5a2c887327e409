// The session of this browser: a key is given once, and nothing is left when it ends.
import { batch } from "../html.js";
import { request } from "../engine/http.js";
import { access } from "./access.js";
import { forgetEntries } from "./addresses.js";
import { begin, idle, lock } from "./asking.js";
import { EMPTY } from "./draft.js";
import { forgetExplanations } from "./explanations.js";
import { stopArchive } from "./export.js";
import { clearSelection } from "./selection.js";
import * as store from "./store.js";

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
  stopArchive();
  forgetExplanations();
  forgetEntries();
  batch(() => {
    idle(EMPTY, true);
    clearSelection();
    store.corpora.value = [];
    access.value = null;
    store.known.value = false;
    store.judged.value = new Map();
    signedIn(false);
    lock();
  });
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
