// Filters: a small panel that adds them, and a chip for each, by which it is removed.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { postJson } from "../engine/http.js";
import { ask } from "../query/asking.js";
import { excess, MOST_FOLDER_CHARS } from "../query/limits.js";
import { asked, corpora, hits } from "../query/store.js";
import { Filter } from "./icons.js";
import { TooLong } from "./limited.js";
import { narrow } from "./narrow.js";

const FACTS = { place: "Place", during: "Season, month, day or holiday", camera: "Camera" }; // kinds that fields are shown of
const MOST_FOLDERS = 40; // that are suggested
const MARGIN = 10; // pixels between the panel and the edge of the page

export function Filters() {
  return html`<div class="filters"><${FilterChips} /><${FilterMenu} /></div>`;
}

function change(members) {
  return ask({ ...asked.value, filters: { ...asked.value.filters, ...members } }, { step: false });
}

function FilterChips() {
  const { corpora: inside = [], roots = [], path_prefix: folder, taken_from: from, taken_to: before, where = [] } = asked.value.filters;
  const chips = [
    ...inside.map((name) => ["in", name, () => change({ corpora: inside.filter((other) => other !== name) })]),
    ...roots.map((name) => ["in", name, () => change({ roots: roots.filter((other) => other !== name) })]),
    folder && ["folder", folder, () => change({ path_prefix: undefined })],
    from && ["since", from.slice(0, 10), () => change({ taken_from: undefined })],
    before && ["before", before.slice(0, 10), () => change({ taken_to: undefined })],
    ...where.map((text) => [...text.split(/=(.*)/s, 2), () => change({ where: where.filter((other) => other !== text) })]),
  ].filter(Boolean);
  if (!chips.length) return null;
  return html`
    <ul aria-label="Filters">${chips.map(([kind, value, remove]) => html`
      <li class="chip" key=${`${kind}:${value}`}><span class="label">${kind} <bdi>${value}</bdi></span>
        <button type="button" class="close" aria-label=${`Remove the filter: ${kind} ${value}`} onClick=${remove}>×</button></li>`)}
    </ul>`;
}

/** The button and its panel. It closes by Escape, by a click elsewhere, and when a filter was added. */
function FilterMenu() {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  const button = useRef(null);
  const panel = useRef(null);
  useLayoutEffect(() => { // the panel ends before the page does
    panel.current.style.translate = "";
    const over = open && !narrow.value ? panel.current.getBoundingClientRect().right - (document.documentElement.clientWidth - MARGIN) : 0;
    if (over > 0) panel.current.style.translate = `${-over}px`;
  }, [open]);
  useEffect(() => {
    if (!open) return undefined;
    box.current.querySelector("select, input")?.focus();
    const elsewhere = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", elsewhere);
    return () => removeEventListener("pointerdown", elsewhere);
  }, [open]);
  const close = () => { setOpen(false); button.current.focus(); };
  const add = (members) => { close(); change(members); };
  const onKeyDown = (event) => { if (event.key === "Escape" && open) { event.stopPropagation(); close(); } };
  return html`
    <div class="menu" ref=${box} onKeyDown=${onKeyDown}>
      <button type="button" class="button quiet" ref=${button} aria-expanded=${open ? "true" : "false"} aria-controls="filter-panel"
        onClick=${() => setOpen(!open)}><${Filter} /> Filter</button>
      <div class="panel" id="filter-panel" ref=${panel} hidden=${!open}>${open && html`<${Fields} add=${add} />`}</div>
    </div>`;
}

function Fields({ add }) {
  const filters = asked.value.filters;
  const inside = filters.corpora ?? [];
  const roots = filters.roots ?? [];
  const seen = corpora.value.filter((corpus) => !inside.length || inside.includes(corpus.name));
  const folders = [...new Set(seen.flatMap((corpus) => corpus.roots.map((root) => root.name)))];
  const [folder, setFolder] = useState(filters.path_prefix ?? "");
  const [from, setFrom] = useState(filters.taken_from?.slice(0, 10) ?? "");
  const [before, setBefore] = useState(filters.taken_to?.slice(0, 10) ?? "");
  const [facts, setFacts] = useState({});
  const field = useRef(null);
  const tooLong = excess(folder, MOST_FOLDER_CHARS) > 0;
  const submit = (event) => {
    event.preventDefault();
    const added = Object.entries(facts).map(([of, text]) => [of, text.trim()]).filter(([, text]) => text).map((pair) => pair.join("="));
    const where = [...new Set([...(filters.where ?? []), ...added])];
    if (!tooLong) add({
      path_prefix: folder.trim() || undefined, taken_from: from || undefined, taken_to: before || undefined,
      where: where.length ? where : undefined,
    });
  };
  return html`
    <form onSubmit=${submit}>
      ${corpora.value.length > 1 && html`<${Choice} label="Collection" names=${corpora.value.map((corpus) => corpus.name)} chosen=${inside}
        choose=${(name) => add({ corpora: [...inside, name], roots: undefined })} />`}
      ${folders.length > 1 && html`<${Choice} label="Indexed folder" names=${folders} chosen=${roots}
        choose=${(name) => add({ roots: [...roots, name] })} />`}
      <label>Folder inside <input ref=${field} value=${folder} list="known-folders" placeholder="2024/summer" spellcheck="false"
        aria-invalid=${tooLong ? "true" : undefined} aria-describedby="folder-limit" onInput=${(event) => setFolder(event.target.value)} /></label>
      <${TooLong} id="folder-limit" text=${folder} most=${MOST_FOLDER_CHARS} shorten=${(text) => { setFolder(text); field.current.focus(); }} />
      <datalist id="known-folders">${knownFolders().map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      ${Object.keys(FACTS).map((of) => html`<${Fact} key=${of} of=${of} set=${(text) => setFacts({ ...facts, [of]: text })} />`)}
      <label>Taken from <input type="date" value=${from} onInput=${(event) => setFrom(event.target.value)} /></label>
      <label>Taken before <input type="date" value=${before} onInput=${(event) => setBefore(event.target.value)} /></label>
      <p class="quiet">Pictures without a date match no dates.</p>
      <button class="button primary">Apply</button>
    </form>`;
}

/** A field for a value of a kind of facts; it suggests those of the pictures that pass the filters. */
function Fact({ of, set }) {
  const [values, setValues] = useState([]);
  useEffect(() => {
    const { where = [], ...others } = asked.value.filters;
    const filters = { ...others, where: where.filter((text) => !text.startsWith(`${of}=`)) }; // two of a kind are alternatives
    postJson("/v1/images/facets", { of, filters }).then((found) => setValues(found.values), () => undefined);
  }, []);
  return html`
    <label>${FACTS[of]} <input list=${`known-${of}`} maxlength="200" onInput=${(event) => set(event.target.value)} /></label>
    <datalist id=${`known-${of}`}>${values.map(({ name }) => html`<option key=${name} value=${name} />`)}</datalist>`;
}

function Choice({ label, names, chosen, choose }) {
  const others = names.filter((name) => !chosen.includes(name));
  if (!others.length) return null;
  return html`
    <label>${label}
      <select value="" onChange=${(event) => choose(event.target.value)}>
        <option value="">${chosen.length ? "add …" : "all"}</option>
        ${others.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select></label>`;
}

/** Folders of the pictures that are shown, with those above them. */
function knownFolders() {
  const folders = new Set();
  for (const hit of hits.value) {
    const parts = hit.uri.split("/").slice(0, -1);
    for (let depth = 1; depth <= parts.length && folders.size < MOST_FOLDERS; depth += 1) folders.add(parts.slice(0, depth).join("/"));
  }
  return [...folders].sort();
}
