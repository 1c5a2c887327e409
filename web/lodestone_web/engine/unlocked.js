// What makes this tab act as the user of the service's machine: a pass that `lodestone serve --open` hands over once.
//
// The pass is kept for this tab and this address alone (sessionStorage), for cookies of 127.0.0.1 are sent to every port, and so
// to the programs of other users of the machine.
import { request } from "./http.js";

const NAME = "lodestone.pass";
const TOKEN_HEADER = "X-Lodestone-Token";
const FRAGMENT = /^#unlock=([\w-]{20,200})$/;

/** Return the pass of this tab; "" without one. */
export function pass() {
  try {
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

/** Keep a pass for this tab, or forget it ("") . */
export function keepPass(value) {
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // Without storage the token can be given on the pages that manage the service.
  }
}

/** Return the headers of what this machine's user asks. */
export function passHeaders() {
  return pass() ? { [TOKEN_HEADER]: pass() } : {};
}

/** Exchange the code of the address, where there is one, for a pass; the code leaves the address first. */
export async function unlockByAddress() {
  const code = FRAGMENT.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  const answer = await request("/v1/session/unlock", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  keepPass((await answer.json()).token);
}
