// A picture that is zoomed by wheel, pinch, double click, keys and buttons, and moved by pointer.
import { html, useEffect, useRef, useState } from "../html.js";

const LARGEST = 8;
const STEP = 1.5;
const CLOSER = 3; // what a double click zooms to
const SWIPE_PX = 60;
const FIT = Object.freeze({ scale: 1, x: 0, y: 0 });

/** Return a view moved by (x, y) pixels, so far that the frame stays filled. */
export function moved(view, x, y, { width, height }) {
  const bounded = (value, size) => Math.min(0, Math.max(size * (1 - view.scale), value));
  return { scale: view.scale, x: bounded(view.x + x, width), y: bounded(view.y + y, height) };
}

/** Return a view with another scale, in which the point (x, y) of the frame stays where it is. */
export function scaled(view, scale, x, y, frame) {
  const larger = Math.min(LARGEST, Math.max(1, scale));
  const factor = larger / view.scale;
  return moved({ scale: larger, x: x - (x - view.x) * factor, y: y - (y - view.y) * factor }, 0, 0, frame);
}

/** `children` fill a frame; `move` goes to the next (1) or previous (-1) picture when one that is not zoomed is swiped. */
export function Zoom({ children, move }) {
  const frame = useRef(null);
  const content = useRef(null);
  const [act, setAct] = useState(null);
  const [scale, setScale] = useState(1);

  useEffect(() => {
    const actions = zoomable(frame.current, content.current, { onScale: setScale, onSwipe: move });
    const dialog = frame.current.closest("dialog");
    const keys = (event) => {
      const action = { "+": "closer", "=": "closer", "-": "further", "0": "fit" }[event.key];
      if (!action || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[action]();
    };
    dialog?.addEventListener("keydown", keys);
    setAct(actions);
    return () => dialog?.removeEventListener("keydown", keys);
  }, []);

  // Buttons that did their last step stay focused: one that is `disabled` would swallow the next key.
  return html`
    <div class=${`frame ${scale > 1 ? "zoomed" : ""}`} ref=${frame}><div class="content" ref=${content}>${children}</div></div>
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom out" aria-disabled=${scale <= 1 ? "true" : "false"} onClick=${() => act.further()}>−</button>
      <button type="button" aria-label="Fit the picture" aria-disabled=${scale <= 1 ? "true" : "false"} onClick=${() => act.fit()}>${Math.round(100 * scale)} %</button>
      <button type="button" aria-label="Zoom in" aria-disabled=${scale >= LARGEST ? "true" : "false"} onClick=${() => act.closer()}>+</button>
    </div>`;
}

function zoomable(frame, content, { onScale, onSwipe }) {
  const pointers = new Map();
  let view = FIT;
  let swipe = null; // where a touch of one finger began
  const show = (next, smooth = false) => {
    view = next;
    content.classList.toggle("smooth", smooth);
    content.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
    onScale(view.scale);
  };
  const size = () => ({ width: frame.clientWidth, height: frame.clientHeight });
  const zoomTo = (scale) => show(scaled(view, scale, frame.clientWidth / 2, frame.clientHeight / 2, size()), true);
  const at = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  /** Middle of all pointers, and their distance from each other. */
  const spread = () => {
    const [[x, y], [otherX, otherY] = [x, y]] = [...pointers.values()];
    return { x: (x + otherX) / 2, y: (y + otherY) / 2, distance: Math.hypot(otherX - x, otherY - y) };
  };
  const listeners = {
    wheel(event) {
      event.preventDefault();
      show(scaled(view, view.scale * Math.exp(-event.deltaY / (event.ctrlKey ? 100 : 400)), ...at(event), size()));
    },
    dblclick(event) {
      show(view.scale > 1 ? FIT : scaled(view, CLOSER, ...at(event), size()), true);
    },
    pointerdown(event) {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, at(event));
      frame.setPointerCapture(event.pointerId);
      swipe = pointers.size === 1 && event.pointerType === "touch" && view.scale === 1 ? event.clientX : null;
    },
    pointermove(event) {
      if (!pointers.has(event.pointerId)) return;
      const before = spread();
      pointers.set(event.pointerId, at(event));
      const now = spread();
      const dragged = moved(view, now.x - before.x, now.y - before.y, size());
      show(before.distance > 0 ? scaled(dragged, dragged.scale * (now.distance / before.distance), now.x, now.y, size()) : dragged);
    },
    pointerup(event) {
      const way = swipe === null ? 0 : event.clientX - swipe;
      pointers.delete(event.pointerId);
      swipe = null;
      if (Math.abs(way) > SWIPE_PX && view.scale === 1) onSwipe(way < 0 ? 1 : -1);
    },
    pointercancel(event) {
      pointers.delete(event.pointerId);
      swipe = null;
    },
  };
  for (const [name, listener] of Object.entries(listeners)) frame.addEventListener(name, listener, { passive: false });
  return { closer: () => zoomTo(view.scale * STEP), further: () => zoomTo(view.scale / STEP), fit: () => show(FIT, true) };
}
