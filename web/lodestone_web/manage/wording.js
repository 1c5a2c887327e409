// Numbers, times and states in words, and the small marks that show them.
import { html } from "../html.js";

const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** Return a count with its noun: `count(1, "picture")` is "1 picture". */
export function count(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** A moment as "3 hours ago", with the exact time beside it. */
export function When({ at, never = "never" }) {
  if (!at) return never;
  const date = new Date(at);
  const seconds = (date - Date.now()) / 1000;
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  const text = unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : seconds > 5 ? "in a moment" : "just now";
  return html`<time datetime=${at} title=${date.toLocaleString()}>${text}</time>`;
}

/** Return a length of time in words. */
export function lasting(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Return the seconds between two moments; the second may still be to come. */
export function between(from, to) {
  return Math.max(0, (new Date(to ?? Date.now()) - new Date(from)) / 1000);
}

/** Return a size in words. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = number < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(number) / 3));
  return `${(number / 1000 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}

const TONES = {
  done: "good", ok: "good", closed: "good", on: "good", valid: "good",
  running: "live", waiting: "live", half_open: "live",
  failed: "bad", open: "bad", revoked: "bad", "not answering": "bad",
};

/** A state as a coloured word. */
export function Badge({ state, children }) {
  return html`<span class="badge" data-tone=${TONES[state] ?? "calm"}>${children ?? state.replaceAll("_", " ")}</span>`;
}

/** A bar of work that is going on. */
export function Progress({ label, done, total }) {
  if (!total) return html`<progress aria-label=${label}></progress>`;
  return html`<progress aria-label=${label} value=${Math.min(done, total)} max=${total}>${Math.round((100 * done) / total)} %</progress>`;
}

/** Pairs of names and values; those without a value are left out. */
export function Facts({ of }) {
  const given = of.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${given.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A table that scrolls to the side by itself where it is too wide. */
export function Table({ label, head, rows, empty = "Nothing." }) {
  if (!rows.length) return html`<p class="quiet">${empty}</p>`;
  return html`
    <div class="scroll" role="region" aria-label=${label} tabindex="0">
      <table>
        <thead><tr>${head.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row.key}>${row.cells.map((cell, at) => html`<td key=${at}>${cell}</td>`)}</tr>`)}</tbody>
      </table>
    </div>`;
}
