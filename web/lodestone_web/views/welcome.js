// The page before any question: what can be asked, in words of the collection's own where it has some, and pictures to begin from.
import { html, signal, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { getJson } from "../engine/http.js";
import { askSimilar, askWords } from "../query/actions.js";
import { corpora, known, pictures } from "../query/store.js";
import { AddFolder } from "./addfolder.js";
import { Filters } from "./filters.js";
import { justified } from "./layout.js";
import { narrow } from "./narrow.js";
import { fitting, hintOf } from "./shown.js";
import { WordsOnly } from "./wordsonly.js";

const EXAMPLES = ["two dogs running in the snow", "a child on a swing", "a boat on a lake at sunset", "people climbing a rock"];
const SHOWN = 24;
const READ = 96; // of each corpus; those that are shown are spread over them
const FIELDS = ["image_id", "root", "uri", "width", "height", "taken_at", "utc_offset_minutes", "captions", "thumbnail"].map((name) => `images.${name}`).join();
const LONGEST = 44; // characters of a caption that is an example
const ROWS = [{ from: 0, rowHeight: 96, gap: 4 }, { from: 600, rowHeight: 140, gap: 6 }]; // by the width of the page
const FULL = 0.98; // of the width, from which a row counts as full

const some = signal([]);
let readFor = null;

export function Welcome() {
  useEffect(() => { read(corpora.value); }, [corpora.value]);
  if (known.value && pictures.value === 0) return html`<${AddFolder} />`;
  const captions = [...new Set(some.value.map((picture) => tidied(picture.captions[0])))].filter((text) => text && text.length <= LONGEST);
  const examples = captions.length >= EXAMPLES.length ? spread(captions, EXAMPLES.length) : EXAMPLES;
  const count = pictures.value > 0 ? html`<b>${pictures.value.toLocaleString("en")}</b> ${pictures.value === 1 ? "picture is" : "pictures are"} indexed. ` : "";
  return html`
    <section class="welcome">
      <h1>Find pictures by what you mean</h1>
      <p>${count}Describe one in your own words, drop a picture here, or paste one.</p>
      <ul class="examples" aria-label="Examples">${examples.map((text) => html`
        <li key=${text}><button type="button" class="button" onClick=${() => askWords(text)}><bdi>${text}</bdi></button></li>`)}</ul>
      <div class="chips begin"><${Filters} />${narrow.value && html`<${WordsOnly} />`}</div>
      <p class="quiet keys"><kbd>/</kbd> to search, arrow keys to move, <kbd>Enter</kbd> to open</p>
      ${some.value.length > 0 && html`
        <h2>Or begin with one of yours</h2>
        <${Mosaic} pictures=${some.value} />`}
    </section>`;
}

/** Pictures in rows that are all full; those that would begin another row are left out. */
function Mosaic({ pictures: all }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  const [gone, setGone] = useState(() => new Set()); // those whose thumbnails cannot be shown
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(box.current?.clientWidth ?? 0));
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    measure();
    return () => watcher.disconnect();
  }, []);
  const shown = useMemo(() => fullRows(all.filter((picture) => !gone.has(picture.image_id)), width), [all, gone, width]);
  return html`
    <ul class="mosaic" ref=${box} aria-label="Pictures to begin with" style=${{ height: `${shown.height}px` }}>
      ${shown.boxes.map(({ picture, ...place }) => html`
        <${Begin} key=${picture.image_id} picture=${picture} place=${place} onGone=${() => setGone(new Set([...gone, picture.image_id]))} />`)}</ul>`;
}

/** Return `{boxes, height}` of the full rows of pictures; of a single row that is not full, it stands in the middle. */
function fullRows(pictures, width) {
  if (!width || !pictures.length) return { boxes: [], height: 0 };
  const { rowHeight, gap } = ROWS.findLast(({ from }) => width >= from);
  const { boxes } = justified(pictures, { width, rowHeight, gap });
  const end = ({ left, width: own }) => left + own;
  const tops = [...new Set(boxes.map(({ top }) => top))];
  const last = boxes.at(-1);
  const kept = end(last) >= FULL * width || tops.length === 1 ? boxes : boxes.filter(({ top }) => top !== last.top);
  const shift = tops.length === 1 ? Math.max(0, (width - end(last)) / 2) : 0;
  return {
    boxes: kept.map((place, at) => ({ ...place, left: place.left + shift, picture: pictures[at] })),
    height: kept.at(-1).top + kept.at(-1).height,
  };
}

function Begin({ picture, place, onGone }) {
  const label = tidied(picture.captions[0]) || picture.uri.split("/").pop();
  const style = Object.fromEntries(Object.entries(place).map(([name, pixels]) => [name, `${pixels}px`]));
  return html`
    <li style=${style}>
      <button type="button" aria-label=${`Pictures like this one: ${label}`} title=${["Pictures like this one", hintOf(picture)].join("\n")} onClick=${() => askSimilar(picture)}>
        <img src=${picture.thumbnail.replace(/^\//, "")}  alt="" style=${fitting(picture)} loading="lazy" decoding="async"
          onLoad=${(event) => event.target.classList.add("there")} onError=${onGone} /></button></li>`;
}

/** Read some pictures of the largest collections, once for these. */
async function read(known) {
  const named = [...known].sort((a, b) => b.images - a.images).slice(0, 3).filter((corpus) => corpus.images > 0);
  const key = JSON.stringify(named);
  if (key === readFor) return;
  readFor = key;
  const pages = await Promise.all(named.map(({ name }) => (
    getJson(`/v1/images?corpus=${encodeURIComponent(name)}&limit=${READ}&fields=${FIELDS}`).catch(() => ({ images: [] })) // only an offer
  )));
  const each = Math.ceil(SHOWN / Math.max(1, pages.filter((page) => page.images.length).length));
  some.value = mixed(pages.map((page) => spread(page.images, each))).slice(0, SHOWN);
}

/** Return `count` of the items, at equal distances. */
function spread(items, count) {
  return items.length <= count ? items : Array.from({ length: count }, (_, at) => items[Math.floor((at * items.length) / count)]);
}

/** Return the items of all lists in turns. */
function mixed(lists) {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => lists.flatMap((list) => (at < list.length ? [list[at]] : []))).flat();
}

function tidied(caption) {
  const text = (caption ?? "").trim().replace(/\s*\.$/, "");
  return text.charAt(0).toLowerCase() + text.slice(1);
}
