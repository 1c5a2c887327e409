// What is told beside the results: a toast, and what screen readers read out. A toast has a place of its own, in the header or
// below a large picture, so it covers nothing. An open dialog makes all that lies outside it inert, so the notices stand in it then.
import { html, useEffect, useRef, useState } from "../html.js";
import { announcement, toast } from "../query/store.js";
import { Connection } from "./status.js";

const TOAST_MS = 6000;
const OFFER_MS = 12000; // of a toast with a button: it takes time to get there

export function Notices() {
  const before = useRef(announcement.value); // was read out where it was shown first
  return html`
    <p class="hidden" role="status" aria-live="polite">${announcement.value === before.current ? "" : announcement.value}</p>
    <${Toast} />`;
}

/** The notices of a dialog, with what the banner of the page says. */
export function DialogNotices() {
  return html`<${Connection} /><${Notices} />`;
}

/** It goes by itself, but not while the pointer or the focus is on it. */
function Toast() {
  const [held, setHeld] = useState(false);
  const told = toast.value;
  const { text, label, act } = typeof told === "string" ? { text: told } : told;
  useEffect(() => setHeld(false), [told]);
  useEffect(() => {
    if (!told || held) return undefined;
    const timer = setTimeout(() => { toast.value = ""; }, act ? OFFER_MS : TOAST_MS);
    return () => clearTimeout(timer);
  }, [told, held]);
  const press = (event) => {
    const focused = event.currentTarget === document.activeElement;
    toast.value = "";
    if (focused) (document.querySelector("dialog[open]") ?? document.getElementById("results"))?.focus({ preventScroll: true });
    act();
  };
  if (!text) return null;
  const hold = () => setHeld(true);
  const release = () => setHeld(false);
  return html`
    <p class="toast" role="status" onPointerEnter=${hold} onPointerLeave=${release} onFocusIn=${hold} onFocusOut=${release}>
      <span>${text}</span>${act && html`<button type="button" class="button small" onClick=${press}>${label}</button>`}
      <button type="button" class="close" aria-label="Hide this" onClick=${() => { toast.value = ""; }}>×</button></p>`;
}
