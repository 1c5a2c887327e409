// The page as a whole: header, search, results, and what lies above them.
import { html, useEffect, useRef, useState } from "../html.js";
import { toldOf } from "../engine/http.js";
import { filesOf } from "../engine/uploads.js";
import { addFiles, addPicture } from "../query/actions.js";
import { selecting } from "../query/selection.js";
import { signIn, signOut } from "../query/session.js";
import { busy, cropping, hits, locked, opened, phase, signedIn } from "../query/store.js";
import { Chips } from "./chips.js";
import { Grid } from "./grid.js";
import { Menu } from "./icons.js";
import { Lightbox } from "./lightbox.js";
import { Notices } from "./notices.js";
import { RegionDialog } from "./region.js";
import { SearchBox } from "./searchbox.js";
import { SelectionBar } from "./selection.js";
import { Connection, Instead, Pace, Status } from "./status.js";
import { Strip } from "./strip.js";
import { ThemeButton } from "./themebutton.js";

export function App() {
  const dragging = useDrops();
  return html`
    <a class="skip" href="#results" onClick=${toResults}>Skip to the results</a>
    <header class="top">
      <a class="brand" href="./" aria-label="Lodestone"><img src="docs/assets/icon.svg" alt="" width="28" height="28" /><span>Lodestone</span></a>
      ${locked.value ? html`<span class="nobox"></span>` : html`<${SearchBox} />`}
      <${Navigation} />
      ${opened.value === null && cropping.value === null && html`<${Notices} />`}
    </header>
    <${Connection} />
    <main id="results" tabindex="-1" data-phase=${phase.value} aria-busy=${busy.value ? "true" : "false"} data-selecting=${selecting.value ? "true" : "false"}>
      ${locked.value ? html`<${Key} />` : html`
        ${phase.value !== "idle" && html`<h1 class="hidden">Pictures that were found</h1><div class="asked"><${Chips} /><${Status} /><${Pace} /></div><${Strip} />`}
        <${Instead} />
        ${phase.value !== "idle" && hits.value.length > 0 && html`<${Grid} />`}`}
    </main>
    <${SelectionBar} />
    <${Lightbox} />
    <${RegionDialog} />
    ${dragging && html`<div class="drop" aria-hidden="true"><p>Drop the picture to search with it</p></div>`}`;
}

/** Links to the other pages; where the page is narrow, a button unfolds them. */
function Navigation() {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    const elsewhere = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", elsewhere);
    return () => removeEventListener("pointerdown", elsewhere);
  }, [open]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || !open) return;
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  return html`
    <div class="navigation" ref=${box} onKeyDown=${onKeyDown}>
      <button type="button" class="icon unfold" aria-label="Menu" aria-expanded=${open ? "true" : "false"} aria-controls="page-links" onClick=${() => setOpen(!open)}><${Menu} /></button>
      <nav id="page-links" class=${open ? "open" : ""} aria-label="Page">
        <a class="link" href="manage">Manage</a>
        <a class="link" href="docs">API</a>
        ${signedIn.value && html`<button type="button" class="link" onClick=${signOut}>Sign out</button>`}
        <${ThemeButton} />
      </nav>
    </div>`;
}

function toResults(event) {
  event.preventDefault(); // another address would be another question
  document.getElementById("results").focus();
}

/** Add a result that was dragged here. Other pages can drag anything: only the id of a picture is taken from it. */
function addDragged(text) {
  let hit = null;
  try {
    hit = JSON.parse(text);
  } catch {
    // not of this page
  }
  if (typeof hit?.image_id !== "string") return;
  const { image_id: id, uri } = hit;
  addPicture({ image_id: id, thumbnail: `v1/images/${encodeURIComponent(id)}/thumbnail`, uri: String(uri ?? "") });
}

/** Take pictures that are dropped or pasted anywhere; returns whether one is being dragged. */
function useDrops() {
  const [dragging, setDragging] = useState(false);
  useEffect(() => {
    const takes = (transfer) => transfer && ["Files", "application/x-lodestone"].some((type) => transfer.types.includes(type));
    const over = (event) => { if (takes(event.dataTransfer)) { event.preventDefault(); setDragging(event.dataTransfer.types.includes("Files")); } };
    const leave = (event) => { if (!event.relatedTarget) setDragging(false); };
    const drop = (event) => {
      setDragging(false);
      if (!takes(event.dataTransfer)) return;
      event.preventDefault();
      const tile = event.dataTransfer.getData("application/x-lodestone");
      if (!tile) addFiles(filesOf(event.dataTransfer));
      else if (event.target.closest?.("header, .chips")) addDragged(tile);
    };
    const paste = (event) => {
      const files = filesOf(event.clipboardData);
      if (files.length) { event.preventDefault(); addFiles(files); }
    };
    const all = { dragover: over, dragleave: leave, drop, paste };
    for (const [name, listener] of Object.entries(all)) addEventListener(name, listener);
    return () => { for (const [name, listener] of Object.entries(all)) removeEventListener(name, listener); };
  }, []);
  return dragging;
}

function Key() {
  const [key, setKey] = useState("");
  const [refused, setRefused] = useState("");
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setRefused("");
    try {
      await signIn(key);
    } catch (error) {
      setRefused(toldOf(error));
    }
  };
  return html`
    <form class="key" onSubmit=${submit}>
      <h1>This service asks for a key</h1>
      <p>Give it once. This browser then has a session of seven days, which scripts and other sites cannot use.</p>
      <label>API key or token
        <input ref=${input} type="password" autocomplete="current-password" required value=${key} aria-describedby="refused" onInput=${(event) => setKey(event.target.value)} /></label>
      <p id="refused" class="note" role="alert" hidden=${!refused}>${refused}</p>
      <button class="button primary">Open</button>
      <p class="quiet">Whoever runs the service makes one: <code>lodestone keys create "my browser"</code></p>
    </form>`;
}
