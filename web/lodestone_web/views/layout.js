// A justified layout, and the part of it that is to be seen: pure arithmetic, without the page.

/** Heights that browsers can scroll: Firefox stops at about 2^24 pixels, others a little later. */
export const TALLEST = 15_000_000;

const WIDEST = 4; // panoramas are cropped: one of 20:1 would be a line
const NARROWEST = 0.4;

/** Return width over height, within what a row can show. */
export function ratioOf({ width, height }) {
  const ratio = width > 0 && height > 0 ? width / height : 1;
  return Math.min(WIDEST, Math.max(NARROWEST, ratio));
}

/**
 * Return `{boxes, height}` of pictures in rows of one width.
 *
 * @param {{width: number, height: number}[]} items in their order
 * @param {{width: number, rowHeight: number, gap: number}} options in pixels
 */
export function justified(items, { width, rowHeight, gap }) {
  const boxes = [];
  let top = 0;
  let row = [];
  let ratios = 0;
  const close = (height) => {
    let left = 0;
    for (const ratio of row) {
      boxes.push({ left, top, width: ratio * height, height });
      left += ratio * height + gap;
    }
    top += height + gap;
    row = [];
    ratios = 0;
  };
  for (const item of items) {
    const ratio = ratioOf(item);
    const before = row.length ? (width - (row.length - 1) * gap) / ratios : Infinity;
    const after = (width - row.length * gap) / (ratios + ratio);
    // A row ends where one more picture would take it further below the wished height than it is above now.
    if (row.length && before - rowHeight < rowHeight - after) close(before);
    row.push(ratio);
    ratios += ratio;
  }
  if (row.length) close(Math.min(rowHeight * 1.15, (width - (row.length - 1) * gap) / ratios));
  return { boxes, height: Math.max(0, top - gap) };
}

/** Return `[first, end)` of the boxes between two heights; boxes are in order of their tops. */
export function between(boxes, from, to) {
  const first = firstWhere(boxes, (box) => box.top + box.height >= from);
  return [first, firstWhere(boxes, (box) => box.top > to)];
}

function firstWhere(boxes, holds) {
  let low = 0;
  let high = boxes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(boxes[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Map what is scrolled to what is shown, where the layout is taller than browsers can scroll.
 *
 * @returns {{height: number, shift: number}} height of the scroll box, and what to subtract from a box's top to place it
 */
export function clamped(height, scrolled, viewport) {
  if (height <= TALLEST) return { height, shift: 0 };
  const share = Math.min(1, Math.max(0, scrolled / Math.max(1, TALLEST - viewport)));
  return { height: TALLEST, shift: share * (height - TALLEST) };
}

/** Return the index of the picture above or below, the one nearest to the middle of the given one. */
export function vertical(boxes, index, step) {
  const from = boxes[index];
  if (!from) return index;
  const middle = from.left + from.width / 2;
  let best = index;
  let distance = Infinity;
  let row = null;
  for (let at = index + step; at >= 0 && at < boxes.length; at += step) {
    const box = boxes[at];
    if (box.top === from.top) continue;
    row ??= box.top;
    if (box.top !== row) break;
    const away = Math.abs(box.left + box.width / 2 - middle);
    if (away < distance) [best, distance] = [at, away];
  }
  return best;
}
