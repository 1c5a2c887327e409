// A long press selects a picture where there is no mouse. While some are selected, a touch selects others.
import { useRef } from "../html.js";
import { selecting, toggle } from "../query/selection.js";

const LONG_MS = 500;
const MOVED_PX = 10; // a finger that goes further scrolls

/**
 * Return `{listeners, took, draggable}` of a picture's button: what to listen to, whether a click was a press that selected, and
 * whether it may be dragged: on a touch screen a long press would drag it.
 */
export function useLongPress(hit) {
  const timer = useRef(0);
  const start = useRef(null); // of the touch that goes on
  const selected = useRef(false); // by this touch: the click that follows it opens nothing
  const stop = () => {
    clearTimeout(timer.current);
    start.current = null;
  };
  const down = (event) => {
    selected.current = false;
    stop();
    if (event.pointerType !== "touch" || !event.isPrimary) return;
    start.current = [event.clientX, event.clientY];
    timer.current = setTimeout(() => {
      selected.current = true;
      toggle(hit);
      navigator.vibrate?.(15);
    }, LONG_MS);
  };
  const move = (event) => {
    if (start.current && Math.hypot(event.clientX - start.current[0], event.clientY - start.current[1]) > MOVED_PX) stop();
  };
  const took = (event) => {
    if (selected.current) {
      selected.current = false;
      return true;
    }
    if (event.pointerType !== "touch" || !selecting.value) return false;
    toggle(hit);
    return true;
  };
  const menu = (event) => { if (start.current || selected.current) event.preventDefault(); }; // Android's, at a long press
  return {
    listeners: { onPointerDown: down, onPointerMove: move, onPointerUp: stop, onPointerCancel: stop, onContextMenu: menu },
    took,
    draggable: matchMedia("(hover: none)").matches ? "false" : "true",
  };
}
