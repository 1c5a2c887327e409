// The state of the search in words: timings, confidence, notes, and what stands in place of results.
import { html } from "../html.js";
import { addPart, askWords } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { isBrowsing, isComposed, isFiltered, spoken } from "../query/draft.js";
import { answer, asked, broken, busy, firstMs, hits, online, phase, pictures, problem, wholeMs } from "../query/store.js";
import { Failure } from "./failures.js";
import { Folded } from "./folded.js";
import { indexingWords } from "./indexing.js";
import { narrow } from "./narrow.js";
import { Warnings, notesOf } from "./warnings.js";
import { Welcome } from "./welcome.js";

/** The line above the results. */
export function Status() {
  const told = answer.value;
  if (phase.value === "idle" || !told || hits.value.length === 0) return null;
  const count = `${hits.value.length.toLocaleString("en")} ${hits.value.length === 1 ? "picture" : "pictures"}`;
  return html`
    <div class="status">
      <p>${isBrowsing(asked.value) ? html`<b>${count}${told.next_cursor ? " and more" : ""}</b>, newest first`
        : told.probably_nothing ? html`<b class="doubtful" title=${`Confidence: ${Math.round(100 * (told.confidence ?? 0))} %`}>Probably nothing here shows it.</b> The nearest ${count}`
        : html`<b>${told.next_offset ? "The best " : ""}${count}</b>${" "}${narrow.value ? "" : stageOf(told)}`}
        ${busy.value ? html` <span class="working">still looking …</span>` : !narrow.value && html` <${Speed} timings=${told.timings_ms} />`}</p>
      <${Notes} told=${told} />
      ${(told.notes ?? []).map((note) => html`<${Wish} note=${note} key=${note.code + note.phrase} />`)}
    </div>`;
}

/** What the words ask for that words cannot do, and a button that does it. */
function Wish({ note }) {
  const draft = { ...asked.value, text: note.query || asked.value.text };
  if (note.code === "dates_by_filter") {
    const days = [note.taken_from && `since ${note.taken_from}`, note.taken_to && `before ${note.taken_to}`].filter(Boolean).join(", ");
    const filters = { ...asked.value.filters, taken_from: note.taken_from ?? undefined, taken_to: note.taken_to ?? undefined };
    return html`<p class="note">“<bdi>${note.phrase}</bdi>” leaves no picture out. ${" "}
      <button type="button" class="link" onClick=${() => ask({ ...draft, filters })}>Only pictures taken ${days}</button></p>`;
  }
  if (note.code !== "leave_out_by_option") return html`<p class="note">${note.message}.</p>`; // of a newer service
  return html`<p class="note">Words leave nothing out: “<bdi>${note.phrase}</bdi>”. ${" "}
    ${note.without.map((words) => html`
      <button type="button" class="link" key=${words} onClick=${() => addPart(draft, { kind: "without", text: words })}>Leave out <bdi>${words}</bdi></button> `)}</p>`;
}

/** How the pictures were found and how fast: on narrow pages, at the end of the line. */
export function Pace() {
  const told = answer.value;
  if (!narrow.value || busy.value || !told || hits.value.length === 0) return null;
  return html`<p class="pace quiet">${stageOf(told)} <${Speed} timings=${told.timings_ms} /></p>`;
}

function stageOf({ stage }) {
  const stages = { text: "by the words", guides: "by words and guides", picture: "by pictures" };
  return isComposed(asked.value) ? "by all parts together" : stages[stage] ?? "";
}

/** What else is to be said of the answer: on narrow pages it unfolds, for pictures come first. */
function Notes({ told }) {
  const notes = notesOf(told);
  const wait = indexingWords() && html`<p class="note">${indexingWords()} Not all can be found yet.</p>`;
  const corrected = told.corrected_query && html`<p>Searched for “<bdi>${told.corrected_query}</bdi>”.</p>`;
  if (!narrow.value) return html`<div class="notes">${corrected}${wait}<${Warnings} notes=${notes} /></div>`;
  if (!corrected && !wait && !notes.length) return null;
  return html`<div class="notes"><${Folded} label=${corrected ? "Corrected" : "Note"}>${corrected}${wait}<${Warnings} notes=${notes} /><//></div>`;
}

/** How long it took, as seen here; the stages of the service unfold below. */
function Speed({ timings }) {
  const stages = Object.entries(timings ?? {});
  const [first, whole] = [firstMs.value, wholeMs.value];
  const told = whole !== null && whole - first > 10 ? `${first} ms, whole in ${whole} ms` : `${first} ms`;
  if (first === null || isBrowsing(asked.value)) return null;
  if (!stages.length) return html`<span class="quiet">in ${told}</span>`;
  return html`<details class="timings"><summary>in ${told}</summary>
    <dl>${stages.map(([name, ms]) => html`<div key=${name}><dt>${name}</dt><dd>${ms.toFixed(1)} ms</dd></div>`)}</dl></details>`;
}

/** What stands in place of results. */
export function Instead() {
  if (phase.value === "idle") return html`<${Welcome} />`;
  if (phase.value === "failed") return html`<${Failure} />`;
  if (phase.value === "loading" && hits.value.length === 0) return html`<${Skeleton} />`;
  if (phase.value === "done" && hits.value.length === 0) return html`<${Nothing} />`;
  return null;
}

/** A banner while the service is out of reach. */
export function Connection() {
  if (phase.value === "failed" && problem.value?.offline) return null; // what stands in place of results says so
  if (!online.value) return html`<p class="banner" role="status">The service does not answer. The page asks again every few seconds.</p>`;
  if (broken.value) return html`<p class="banner" role="status">The connection broke. The answer is being taken up again …</p>`;
  return null;
}

function Skeleton() {
  const widths = Array.from({ length: 48 }, (_, at) => [3, 2, 4, 3, 2, 3, 4, 2][at % 8]);
  return html`<div class="skeleton" aria-hidden="true">${widths.map((grow, at) => html`<span key=${at} style=${{ flexGrow: grow }}></span>`)}</div>`;
}

function Nothing() {
  const filtered = isFiltered(asked.value);
  const wait = indexingWords();
  return html`
    <section class="instead" role="status">
      <h2>No pictures</h2>
      <p>${pictures.value === 0 ? !wait && "There are no pictures here yet." : filtered ? "No picture passes these filters." : `Nothing was found for ${spoken(asked.value)}.`}</p>
      ${wait && html`<p aria-live="off">${wait} Not all can be found yet.</p>
        <button type="button" class="button" onClick=${() => ask(asked.value, { step: false, address: false })}>Search again</button>`}
      ${pictures.value === 0 && !wait && html`<a class="button" href="./">Begin with a folder</a>`}
      ${filtered && html`<button type="button" class="button" onClick=${() => ask({ ...asked.value, filters: {} })}>${isBrowsing(asked.value) ? "Remove the filters" : "Search without filters"}</button>`}
      ${isComposed(asked.value) && asked.value.text && html`<button type="button" class="button" onClick=${() => askWords(asked.value.text)}>Search by the words alone</button>`}
    </section>`;
}
