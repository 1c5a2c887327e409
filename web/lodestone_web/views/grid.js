// The grid of results: justified rows, of which only the visible ones are in the page. Tiles move when the order changes.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { may } from "../query/access.js";
import { loadMore } from "../query/actions.js";
import { judge } from "../query/feedback.js";
import { openPicture } from "../query/opening.js";
import { selectByClick, selectByKey, selected } from "../query/selection.js";
import { answer, asked, busy, hits, judged, loadingMore, moreProblem, phase, shownLast } from "../query/store.js";
import { ThumbDown, ThumbUp } from "./icons.js";
import { between, clamped, justified, vertical } from "./layout.js";
import { moveTiles } from "./motion.js";
import { useLongPress } from "./pressing.js";
import { Check } from "./selection.js";
import { fitting, hintOf } from "./shown.js";

const GAP = 6;
const AROUND = 600; // pixels above and below that are kept in the page
const CLOSE = 80; // the same while an answer comes or the page scrolls fast: pictures that are seen must not wait for others
const FAST = 2; // viewports a second: tiles that enter the page at this speed keep their place, and load when it scrolls slower
const QUIET_MS = 150; // without scrolling, until they load
const PHONE = 600;
const LATE_MS = 200; // pictures that come later than this fade in; others are there at once

export function Grid() {
  const box = useRef(null);
  const tiles = useRef(new Map());
  const before = useRef(new Map());
  const [width, setWidth] = useState(0);
  const [view, setView] = useState({ top: 0, height: innerHeight });
  const [fast, setFast] = useState(false);
  const all = hits.value;

  useLayoutEffect(() => {
    const measure = () => {
      setWidth(Math.floor(box.current?.clientWidth ?? 0));
      setView({ top: scrollY - (box.current?.offsetTop ?? 0), height: innerHeight });
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    let frame = 0;
    let quiet = 0;
    let last = { top: scrollY, at: performance.now() };
    const scrolled = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        const now = { top: scrollY, at: performance.now() };
        setFast(Math.abs(now.top - last.top) > (FAST * innerHeight * (now.at - last.at)) / 1000);
        last = now;
        clearTimeout(quiet);
        quiet = setTimeout(() => setFast(false), QUIET_MS);
        measure();
      });
    };
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", scrolled);
    return () => {
      watcher.disconnect();
      clearTimeout(quiet);
      cancelAnimationFrame(frame);
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", scrolled);
    };
  }, []);

  const layout = useMemo(() => justified(all, { width, rowHeight: width < PHONE ? 120 : 210, gap: GAP }), [all, width]);
  const { height, shift } = clamped(layout.height, view.top, view.height);
  const around = busy.value || fast ? CLOSE : AROUND;
  const [first, end] = width ? between(layout.boxes, view.top + shift - around, view.top + shift + view.height + around) : [0, 0];

  useLayoutEffect(() => {
    const after = new Map(all.map((hit, at) => [hit.image_id, layout.boxes[at]]));
    if (before.current.hits !== all && before.current.size > 0 && before.current.width === width) {
      moveTiles(tiles.current, before.current, after);
    }
    before.current = Object.assign(after, { hits: all, width });
  }, [all, layout]);

  useEffect(() => {
    if (width && end >= all.length && all.length > 0 && !moreProblem.value) loadMore();
  }, [end, all.length, width, phase.value]);

  const focus = (index) => {
    const target = layout.boxes[index];
    if (!target) return;
    const top = target.top - shift + box.current.offsetTop;
    if (top < scrollY + 80 || top + target.height > scrollY + innerHeight) scrollTo({ top: top - innerHeight / 3 });
    focusWhenThere(() => tiles.current.get(all[index].image_id)?.querySelector("button.open"));
  };

  useEffect(() => {
    const index = all.findIndex((hit) => hit.image_id === shownLast.value);
    shownLast.value = null;
    if (index >= 0) focus(index);
  }, [shownLast.value]);

  const onKeyDown = (event) => {
    const index = Number(event.target.closest("[data-index]")?.dataset.index ?? -1);
    if (selectByKey(event, all[index])) return;
    if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {
      ArrowRight: () => index + 1, ArrowLeft: () => index - 1, Home: () => 0, End: () => all.length - 1,
      ArrowDown: () => vertical(layout.boxes, index, 1), ArrowUp: () => vertical(layout.boxes, index, -1),
    };
    const next = moves[event.key]?.();
    if (next === undefined) return;
    event.preventDefault();
    focus(Math.min(all.length - 1, Math.max(0, next)));
  };

  const shown = [];
  for (let index = first; index < end && index < all.length; index += 1) {
    shown.push(html`<${Tile} key=${all[index].image_id} hit=${all[index]} index=${index} box=${layout.boxes[index]} shift=${shift} tiles=${tiles} count=${all.length} waits=${fast} />`);
  }
  return html`
    <div class="grid" ref=${box} role="list" aria-label="Results" style=${{ height: `${height}px` }} onKeyDown=${onKeyDown}>${shown}</div>
    <${More} />`;
}

/** What stands below the results while further ones load, or where they could not be loaded. */
export function More() {
  if (loadingMore.value) return html`<p class="more" role="status">Loading more …</p>`;
  if (!moreProblem.value) return null;
  return html`
    <p class="more note" role="alert">Further results could not be loaded. ${moreProblem.value.message}
      <button type="button" class="button" onClick=${again}>Try again</button></p>`;
}

function again(event) {
  event.target.closest("dialog, main").focus({ preventScroll: true }); // the button goes
  loadMore();
}

/** Focus an element as soon as the page has it: after a scroll, that is some frames later. */
function focusWhenThere(find, frames = 60) {
  const element = find();
  if (element) element.focus({ preventScroll: true });
  else if (frames > 0) requestAnimationFrame(() => focusWhenThere(find, frames - 1));
}

function Tile({ hit, index, box, shift, tiles, count, waits }) {
  const [state, setState] = useState("loading");
  const born = useRef(performance.now());
  const loads = useRef(false);
  loads.current ||= !waits;
  const place = { left: `${box.left}px`, top: `${box.top - shift}px`, width: `${box.width}px`, height: `${box.height}px` };
  const keep = (element) => (element ? tiles.current.set(hit.image_id, element) : tiles.current.delete(hit.image_id));
  const name = hit.uri.split("/").pop();
  const description = hit.captions[0] || name;
  const verdict = judged.value.get(hit.image_id);
  const teachable = asked.value.text.trim() !== "" && answer.value !== null && may("feedback");
  const press = useLongPress(hit);
  const open = (event) => { if (!press.took(event) && !selectByClick(event, hit)) openPicture(hit.image_id); };
  const stay = () => requestAnimationFrame(() => focusWhenThere(() => document.querySelector(`.tile[data-index="${index}"] button.open`)));
  const drag = (event) => event.dataTransfer.setData("application/x-lodestone", JSON.stringify({ image_id: hit.image_id, thumbnail: hit.thumbnail, uri: hit.uri }));
  return html`
    <div class=${`tile ${state} ${verdict === false ? "wrong" : ""} ${selected.value.has(hit.image_id) ? "selected" : ""}`} role="listitem" aria-setsize=${count} aria-posinset=${index + 1}
      data-index=${index} data-id=${hit.image_id} ref=${keep} style=${place}>
      <button type="button" class="open" tabindex=${0} aria-label=${`Open ${index + 1}: ${description}`} title=${hintOf(hit)} onClick=${open}
        ...${press.listeners} draggable=${press.draggable} onDragStart=${drag}>
        <img src=${loads.current ? hit.thumbnail.replace(/^\//, "") : undefined} alt="" style=${fitting(hit)} decoding="async" draggable=${false}
          onLoad=${() => setState(performance.now() - born.current > LATE_MS ? "late" : "")} onError=${() => setState("damaged")} />
        ${state === "damaged" && html`<span class="missing"><bdi>${name}</bdi><br />The picture cannot be shown.</span>`}
      </button>
      <${Check} hit=${hit} description=${description} />
      ${hit.copies > 0 && html`<span class="copies" title=${`${hit.copies + 1} copies: the best is shown`}>×${hit.copies + 1}</span>`}
      ${teachable && html`<${Thumbs} hit=${hit} verdict=${verdict} description=${description} onWrong=${stay} />`}
    </div>`;
}

/** Two buttons that say whether a picture was right. `onWrong` runs when it was not: its tile goes elsewhere. */
export function Thumbs({ hit, verdict, description, onWrong = () => undefined }) {
  const say = (right) => (event) => {
    if (event.detail > 1) return; // the second click of a double click would take the first one back
    judge(hit, right);
    if (!right) onWrong();
  };
  const title = (name, pressed) => (pressed ? `${name}: press again to take it back` : name);
  return html`
    <span class=${verdict === undefined ? "thumbs" : "thumbs judged"}>
      <button type="button" aria-pressed=${verdict === true ? "true" : "false"} aria-label=${`Right: ${description}`} title=${title("Right", verdict === true)} onClick=${say(true)}><${ThumbUp} /></button>
      <button type="button" aria-pressed=${verdict === false ? "true" : "false"} aria-label=${`Wrong: ${description}`} title=${title("Wrong", verdict === false)} onClick=${say(false)}><${ThumbDown} /></button>
    </span>`;
}
