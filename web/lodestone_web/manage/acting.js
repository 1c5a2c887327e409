// What the pages do to the service: buttons that work once at a time, questions before what cannot be taken back, and results.
import { html, signal, useEffect, useRef, useState } from "../html.js";
import { toldOf } from "../engine/http.js";
import { Access } from "./access.js";

const TOAST_MS = 7000;
const toast = signal({ text: "", wrong: false });
const announcement = signal("");
const refusal = signal(null); // the problem of what needs another scope
const question = signal(null);

/** Say something to everybody: shown for a while, and read out. */
export function say(text, { wrong = false } = {}) {
  toast.value = { text, wrong };
}

/** Read something out that is seen anyway. */
export function announce(text) {
  announcement.value = text;
}

/** Do something; problems are shown. Returns whether it was done. */
export async function attempt(work, done = "") {
  try {
    await work();
    if (done) say(done);
    return true;
  } catch (error) {
    if (error.scope) refusal.value = error;
    else say(toldOf(error), { wrong: true });
    return false;
  }
}

/** A button that does something, and cannot be pressed again meanwhile. */
export function Act({ work, done = "", after = () => undefined, label, kind = "", children }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (busy) return;
    setBusy(true);
    try {
      if (await attempt(work, done)) await after();
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class="button ${kind}" aria-label=${label} aria-disabled=${busy} aria-busy=${busy} onClick=${press}>${children}</button>`;
}

/** A button that asks first. `typed` must be written by whoever confirms it; or `field` is the label of a text that `work` gets. */
export function Confirmed({ title, text, action, typed = "", field = "", label, kind = "", children, ...act }) {
  const open = () => { question.value = { title, text, action, typed, field, ...act }; };
  return html`<button type="button" class="button ${kind}" aria-label=${label} aria-haspopup="dialog" onClick=${open}>${children}</button>`;
}

/** A switch that is in force at once. */
export function Switch({ on, label, change, after = () => undefined, children }) {
  const [shown, setShown] = useState(on);
  useEffect(() => setShown(on), [on]);
  const flip = async (event) => {
    const wanted = event.target.checked;
    setShown(wanted);
    if (await attempt(() => change(wanted))) await after();
    else setShown(!wanted);
  };
  return html`<label class="switch"><input type="checkbox" role="switch" aria-label=${label} checked=${shown} onChange=${flip} />${children}</label>`;
}

/** A window in front of the page. What had the focus before gets it back. */
export function Dialog({ title, onClose, closeable = true, children }) {
  const box = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => (before?.isConnected ? before : document.querySelector("main h1"))?.focus();
  }, []);
  const cancel = (event) => { event.preventDefault(); if (closeable) onClose(); };
  const key = (event) => { if (event.key === "Escape" && !closeable) event.preventDefault(); }; // a second one cannot be cancelled
  return html`
    <dialog ref=${box} class="window" aria-label=${title} onCancel=${cancel} onKeyDown=${key} onClose=${onClose}>
      <h2>${title}</h2>
      ${children}
    </dialog>`;
}

/** What came of what was done; it stands in the header, where it covers nothing. */
export function Toast() {
  useEffect(() => {
    if (!toast.value.text) return undefined;
    const timer = setTimeout(() => say(""), TOAST_MS);
    return () => clearTimeout(timer);
  }, [toast.value]);
  return html`
    <div class="toasts" aria-live=${toast.value.wrong ? "assertive" : "polite"}>
      ${toast.value.text && html`<p class="toast ${toast.value.wrong ? "note" : ""}">${toast.value.text} <button type="button" class="close" aria-label="Hide this" onClick=${() => say("")}>×</button></p>`}
    </div>`;
}

/** What lies over all pages: questions, and refusals. */
export function Overlays() {
  const closeRefusal = () => { refusal.value = null; };
  return html`
    ${question.value && html`<${Question} key=${question.value.title} asked=${question.value} />`}
    ${refusal.value && html`
      <${Dialog} title="This was not done" onClose=${closeRefusal}>
        <${Access} problem=${refusal.value} onDone=${() => { closeRefusal(); say("Now it can be done. Try again."); }} />
        <p class="buttons"><button type="button" class="button" onClick=${closeRefusal}>Close</button></p>
      <//>`}
    <p class="hidden" role="status" aria-live="polite">${announcement.value}</p>`;
}

function Question({ asked }) {
  const [text, setText] = useState("");
  const close = () => { question.value = null; };
  const ready = asked.field ? text.trim() !== "" : text === asked.typed;
  const confirm = (event) => { if (event.key === "Enter") event.target.closest("dialog").querySelector(".primary:not(:disabled)")?.click(); };
  // What comes of it is said on the page, which is out of reach while a window is open.
  const work = async () => {
    try {
      await asked.work(text.trim());
    } finally {
      close();
    }
  };
  return html`
    <${Dialog} title=${asked.title} onClose=${close}>
      <p>${asked.text}</p>
      ${asked.typed && html`<label class="field-label"><span>Write <b><bdi>${asked.typed}</bdi></b> to confirm</span><input value=${text} autocomplete="off" onInput=${(event) => setText(event.target.value)} /></label>`}
      ${asked.field && html`<label class="field-label"><span>${asked.field}</span><input value=${text} autocomplete="off" spellcheck="false" onInput=${(event) => setText(event.target.value)} onKeyDown=${confirm} /></label>`}
      <p class="buttons">
        <button type="button" class="button" onClick=${close}>Cancel</button>
        ${ready ? html`<${Act} kind="primary" work=${work} done=${asked.done} after=${asked.after}>${asked.action}<//>` : html`<button type="button" class="button primary" disabled>${asked.action}</button>`}
      </p>
    <//>`;
}
