// What is told beside the results: a toast, and what screen readers read out. An open dialog makes all that lies outside it
// inert and covers it, so the notices stand in the dialog then.
import { html, useEffect, useRef } from "../html.js";
import { announcement, toast } from "../query/store.js";
import { Connection } from "./status.js";

const TOAST_MS = 6000;

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

function Toast() {
  useEffect(() => {
    if (!toast.value) return undefined;
    const timer = setTimeout(() => { toast.value = ""; }, TOAST_MS);
    return () => clearTimeout(timer);
  }, [toast.value]);
  return toast.value ? html`<p class="toast" role="status">${toast.value}</p>` : null;
}
