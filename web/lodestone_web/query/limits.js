// How long texts may be, as the service counts them; nothing that is longer is cut off unasked.

export const MOST_CHARS = 1000; // of words, to look for and to avoid
export const MOST_TAG_CHARS = 200;
export const MOST_FOLDER_CHARS = 4096;

/** Return by how many characters a text is too long; the service counts whole characters, not halves of them. */
export function excess(text, most) {
  return text.length <= most ? 0 : Math.max(0, [...text.trim()].length - most);
}

/** Return the beginning of a text that can be sent: whole words, unless the first one is too long by itself. */
export function beginning(text, most) {
  const all = [...text.trim()];
  const first = all.slice(0, most).join("");
  const words = all[most]?.trim() ? first.replace(/\s+\S*$/, "") : first;
  return words.trim() || first;
}
