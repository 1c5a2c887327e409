// Requests of the management pages: as the session of this browser, or with the token of this machine's user.
import { signal } from "../html.js";
import { request } from "../engine/http.js";
import { wholeList } from "../engine/lists.js";
import { keepPass, pass } from "../engine/unlocked.js";

const TOKEN_HEADER = "X-Lodestone-Token";
const SIGNED_IN = "lodestone.session"; // the search page reads it, too; scripts cannot see the cookie itself

export const locked = signal(false); // the service asks for a key, and there is no session
export const signedIn = signal(kept());
/** The token of service.json, in the memory of this tab alone; or the pass that `lodestone serve --open` gave it. */
export const token = signal(pass());
export const changes = signal(0); // counts sign-ins: what is shown is asked for again

/** Send a request; an answer without content is null. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token.value) headers[TOKEN_HEADER] = token.value;
  try {
    const answer = await request(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
    return answer.status === 204 ? null : await answer.json();
  } catch (error) {
    if (error.status === 401 && !error.scope) locked.value = true;
    if (error.scope && token.value && token.value === pass()) { // it has ended, or the service began anew
      keepPass("");
      token.value = "";
    }
    throw error;
  }
}

/** Return a whole list, page by page; `member` names it in each page. */
export function whole(path, member, options) {
  return wholeList((page) => ask(page, options), path, member);
}

/** Give a key or token once, for a session of this browser. */
export async function signIn(key) {
  await request("/v1/session", { method: "POST", headers: { Authorization: `Bearer ${key.trim()}` } });
  token.value = "";
  signedInIs(true);
  locked.value = false;
  changes.value += 1;
}

/** Act as this machine's user, in this tab, until it is closed or loaded again. */
export async function unlock(given) {
  const before = token.value;
  token.value = given.trim();
  try {
    await ask("/v1/keys?limit=1"); // only its reader may
  } catch (error) {
    token.value = before;
    throw error;
  }
  changes.value += 1;
}

/** End the session of this browser, and forget the token. */
export async function signOut() {
  token.value = "";
  keepPass("");
  if (signedIn.value) {
    await request("/v1/session", { method: "DELETE" }).catch((error) => {
      if (error.status !== 401) throw error; // with 401 it has ended by itself
    });
    signedInIs(false);
    locked.value = true;
  }
  changes.value += 1;
}

function signedInIs(is) {
  signedIn.value = is;
  try {
    if (is) localStorage.setItem(SIGNED_IN, "1");
    else localStorage.removeItem(SIGNED_IN);
  } catch {
    // Private windows may keep nothing.
  }
}

function kept() {
  try {
    return localStorage.getItem(SIGNED_IN) !== null;
  } catch {
    return false;
  }
}
