// A region of a picture as a query: a box that is drawn, moved and resized by pointer or by keyboard.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { askRegion } from "../query/actions.js";
import { cropping } from "../query/store.js";
import { DialogNotices } from "./notices.js";

const STEP = 0.02; // of the picture, for a key
const SMALLEST = 0.04;
const START = { x: 0.25, y: 0.25, w: 0.5, h: 0.5 };
const CORNERS = { nw: [0, 0], ne: [1, 0], sw: [0, 1], se: [1, 1] };

export function RegionDialog() {
  const dialog = useRef(null);
  const target = cropping.value;
  useLayoutEffect(() => {
    if (target && !dialog.current.open) dialog.current.showModal();
    if (!target && dialog.current.open) dialog.current.close();
  }, [target]);
  return html`
    <dialog class="region" ref=${dialog} aria-labelledby="region-title" onClose=${() => { cropping.value = null; }}>
      ${target && html`<${Drawing} target=${target} close=${() => dialog.current.close()} /><${DialogNotices} />`}
    </dialog>`;
}

function Drawing({ target, close }) {
  const part = target.part ?? { id: target.hit.image_id, thumbnail: target.hit.thumbnail };
  const box = useRef(null);
  const field = useRef(null);
  const [region, setRegion] = useState(part.region ?? START);
  const [source, setSource] = useState(part.url ?? `v1/images/${encodeURIComponent(part.id)}/content`);
  const [ratio, setRatio] = useState(null);
  const [most, setMost] = useState(0); // pixels that the picture is wide at most, so that it is not blown up
  useEffect(() => box.current?.focus(), [ratio !== null]);

  const down = (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    box.current.focus({ preventScroll: true });
    field.current.setPointerCapture(event.pointerId);
    const frame = field.current.getBoundingClientRect();
    const at = (moved) => [(moved.clientX - frame.left) / frame.width, (moved.clientY - frame.top) / frame.height];
    const [x, y] = at(event);
    const corner = CORNERS[event.target.dataset?.corner];
    const inside = event.target === box.current;
    // A corner is drawn against the one across; elsewhere a new box begins.
    const fixed = corner ? [region.x + region.w * (1 - corner[0]), region.y + region.h * (1 - corner[1])] : [x, y];
    const move = (moved) => {
      const [nowX, nowY] = at(moved);
      setRegion(inside ? placed({ ...region, x: region.x + nowX - x, y: region.y + nowY - y }) : between(fixed, [nowX, nowY]));
    };
    const up = () => {
      field.current?.removeEventListener("pointermove", move);
      field.current?.removeEventListener("pointerup", up);
      field.current?.removeEventListener("pointercancel", up);
      setRegion((drawn) => (drawn.w < SMALLEST || drawn.h < SMALLEST ? around(drawn) : drawn));
    };
    field.current.addEventListener("pointermove", move);
    field.current.addEventListener("pointerup", up);
    field.current.addEventListener("pointercancel", up);
  };
  const onKeyDown = (event) => {
    const [x, y] = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[event.key] ?? [0, 0];
    if (!x && !y) return;
    event.preventDefault();
    setRegion(event.shiftKey ? resized(region, x, y) : placed({ ...region, x: region.x + x, y: region.y + y }));
  };
  const search = (event) => {
    event.preventDefault();
    close();
    askRegion(target, region);
  };
  const [x, y, w, h] = [region.x, region.y, region.w, region.h].map((share) => `${Math.round(100 * share)} %`);
  const told = `From ${x} left and ${y} top, ${w} wide and ${h} high`;
  const place = { left: `${100 * region.x}%`, top: `${100 * region.y}%`, width: `${100 * region.w}%`, height: `${100 * region.h}%` };
  return html`
    <form onSubmit=${search}>
      <div class="bar"><h2 id="region-title">Search a region</h2>
        <button type="button" class="close" aria-label="Close" onClick=${close}>×</button></div>
      <div class="canvas">
        <div class="picture" ref=${field} style=${{ "--ratio": ratio ?? 1, "--most": most ? `${most}px` : "100cqw" }} onPointerDown=${down}>
          <img src=${source.replace(/^\//, "")} alt="The picture" draggable=${false}
            onLoad=${({ target: { naturalWidth, naturalHeight } }) => { setRatio(naturalWidth / naturalHeight || 1); setMost(2 * naturalWidth); }}
            onError=${() => part.thumbnail && setSource(part.thumbnail)} />
          ${ratio !== null && html`
            <div class="box" ref=${box} role="group" tabindex="0" style=${place} onKeyDown=${onKeyDown}
              aria-roledescription="region" aria-label="Region of the picture" aria-describedby="region-help">
              ${Object.keys(CORNERS).map((corner) => html`<span key=${corner} class=${`corner ${corner}`} data-corner=${corner}></span>`)}
            </div>`}
        </div>
      </div>
      <div class="bar below">
        <p id="region-help" class="quiet">Draw a box, move it, or pull its corners. Arrow keys move it, with Shift they change its size.</p>
        <output aria-live="polite">${told}</output>
        <button class="button primary" disabled=${ratio === null}>Search this region</button>
      </div>
    </form>`;
}

function bounded(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

function placed(region) {
  return { ...region, x: bounded(region.x, 0, 1 - region.w), y: bounded(region.y, 0, 1 - region.h) };
}

function resized(region, x, y) {
  return { ...region, w: bounded(region.w + x, SMALLEST, 1 - region.x), h: bounded(region.h + y, SMALLEST, 1 - region.y) };
}

function between([fromX, fromY], [toX, toY]) {
  const [x, y] = [bounded(toX, 0, 1), bounded(toY, 0, 1)];
  return { x: Math.min(fromX, x), y: Math.min(fromY, y), w: Math.abs(x - fromX), h: Math.abs(y - fromY) };
}

/** A box that is too small to be meant, as after a click: the usual one around it. */
function around({ x, y, w, h }) {
  return placed({ x: x + w / 2 - START.w / 2, y: y + h / 2 - START.h / 2, w: START.w, h: START.h });
}

/** The picture of a part, small and round; of a region, that region alone. */
export function PartPicture({ part }) {
  const [ratio, setRatio] = useState(1);
  const [damaged, setDamaged] = useState(false);
  const source = (part.thumbnail ?? part.url).replace(/^\//, "");
  const { x, y, w, h } = part.region ?? { x: 0, y: 0, w: 1, h: 1 };
  const shape = (ratio * w) / h; // the region covers the circle, its middle in the middle
  const [wide, high] = shape > 1 ? [shape, 1] : [1, 1 / shape];
  const place = {
    width: `${(100 * wide) / w}%`, height: `${(100 * high) / h}%`,
    left: `${(-100 * wide * x) / w - 50 * (wide - 1)}%`, top: `${(-100 * high * y) / h - 50 * (high - 1)}%`,
  };
  if (damaged) return html`<span class="part-picture broken" title="This picture cannot be shown here."></span>`;
  return html`<span class="part-picture"><img src=${source} alt="" style=${place} onError=${() => setDamaged(true)}
    onLoad=${({ target }) => setRatio(target.naturalWidth / target.naturalHeight || 1)} /></span>`;
}
