// Moves of tiles to their new places (FLIP by Web Animations): only what is visible, never while the page scrolls.

const MOVE_MS = 420;
const APPEAR_MS = 220;
const QUIET_MS = 160;
let scrolledAt = -Infinity;

addEventListener("scroll", () => { scrolledAt = performance.now(); }, { passive: true });

/** Return whether tiles may move now. */
export function mayMove() {
  return !matchMedia("(prefers-reduced-motion: reduce)").matches && performance.now() - scrolledAt > QUIET_MS && !document.hidden;
}

/**
 * Animate tiles from where they were to where they are.
 *
 * @param {Map<string, Element>} tiles id to element of what is visible now
 * @param {Map<string, object>} before id to box
 * @param {Map<string, object>} after id to box
 */
export function moveTiles(tiles, before, after) {
  if (!mayMove()) return 0;
  let moved = 0;
  for (const [id, tile] of tiles) {
    const from = before.get(id);
    const to = after.get(id);
    if (!to) continue;
    if (!from) {
      tile.animate([{ opacity: 0 }, { opacity: 1 }], { duration: APPEAR_MS, easing: "ease-out" });
    } else if (from.left !== to.left || from.top !== to.top || from.width !== to.width) {
      const offset = `${from.left - to.left}px ${from.top - to.top}px`;
      const scale = `${from.width / to.width}`;
      tile.animate(
        [{ translate: offset, scale, zIndex: 1 }, { translate: "0 0", scale: "1", zIndex: 1 }],
        { duration: MOVE_MS, easing: "cubic-bezier(.2, .8, .2, 1)" },
      );
      moved += 1;
    }
  }
  return moved;
}
