// What the service warns of, in words for people who search. Its own words, with what to do about it, unfold.
import { html } from "../html.js";

/** What a warning begins with or holds -> how it is told; null: not at all, the page shows it otherwise. */
const PLAIN = [
  [/; this looks like (\w+),/, (language) => `This looks like ${language}. The search understands other languages better, so the pictures may not fit.`],
  [/^no word of the query is known \((.*?)\):/, (words) => `None of these words is known here: ${words}. The pictures may have nothing to do with them.`],
  [/that was sent ends early: (\d+)%/, (share) => `A picture of yours is cut short: ${share} % of it could be read, and the search is for that part.`],
  [/^only files of equal content/, null], // the page always asks for copies together
  [/^nothing is indexed yet|^no index run has finished/, null], // it says so in place of pictures
  [/so nothing is searched;/, () => "The folders that were searched are hidden at present."],
  [/disabled and left out;/, () => "Some folders are hidden at present."],
  [/is left out: its index|is left out: nothing is indexed|^captions are left out:/, () => "A part of the search is not ready. Some pictures may be missing."],
  [/is searched in its former version/, () => "A part of the search is from before a change of its settings. It can find less until the pictures are indexed again."],
  [/were not checked:/, () => "The spelling was not checked."],
  [/not recorded|no tags/, () => "This search was not kept."],
];
const OTHERWISE = "The search has a note on this answer.";

/** Return `{text, original}` of a warning in plain words; null where it is not told. */
export function plainWarning(original) {
  for (const [pattern, say] of PLAIN) {
    const match = pattern.exec(original);
    if (match) return say && { text: say(...match.slice(1)), original };
  }
  return { text: OTHERWISE, original };
}

/** Return what is told of an answer: its warnings, and what was left out of it. */
export function notesOf({ warnings, dropped }) {
  const late = dropped.length ? [{ text: "A part of the search took too long and was left out.", original: dropped.join("\n") }] : [];
  return [...late, ...warnings.map(plainWarning).filter(Boolean)];
}

/** Notes in plain words, with the words of the service below. */
export function Warnings({ notes }) {
  if (!notes.length) return null;
  return html`
    ${[...new Set(notes.map(({ text }) => text))].map((text) => html`<p class="note" key=${text}>${text}</p>`)}
    <details class="technical"><summary>Details</summary>${notes.map(({ original }) => html`<p key=${original}><bdi>${original}</bdi></p>`)}</details>`;
}
