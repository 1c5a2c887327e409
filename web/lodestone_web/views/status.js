// The state of the search in words: timings, confidence, warnings, and what to do where there is nothing or an error.
import { html } from "../html.js";
import { addPart, askWords } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { isComposed, isFiltered, spoken } from "../query/draft.js";
import { answer, asked, broken, busy, firstMs, hits, online, phase, pictures, problem, wholeMs } from "../query/store.js";
import { Welcome } from "./welcome.js";

/** The line above the results. */
export function Status() {
  const told = answer.value;
  if (phase.value === "idle" || !told || hits.value.length === 0) return null;
  const stages = { text: "by the words", guides: "by words and guides", picture: "by pictures" };
  const stage = isComposed(asked.value) ? "by all parts together" : stages[told.stage] ?? "";
  return html`
    <div class="status">
      <p><b>${told.next_offset ? "The best " : ""}${hits.value.length} ${hits.value.length === 1 ? "picture" : "pictures"}</b>${" "}${stage}
        ${busy.value ? html` <span class="working">still looking …</span>` : html` <${Speed} timings=${told.timings_ms} />`}</p>
      <div class="notes">
      ${told.corrected_query && html`<p>Searched for “<bdi>${told.corrected_query}</bdi>”.</p>`}
      ${told.probably_nothing && html`<p class="note">Probably none of these shows it: confidence ${Math.round(100 * (told.confidence ?? 0))} %.</p>`}
      ${told.dropped.length > 0 && html`<p class="note">Left out to answer in time: ${told.dropped.join(", ")}.</p>`}
      ${told.warnings.map((warning) => html`<p class="note" key=${warning}>${warning}</p>`)}
      ${(told.notes ?? []).map((note) => html`<${Wish} note=${note} key=${note.code + note.phrase} />`)}
      </div>
    </div>`;
}

/** What the words ask for that words cannot do, and a button that does it. */
function Wish({ note }) {
  const draft = { ...asked.value, text: note.query || asked.value.text };
  if (note.code === "dates_by_filter") {
    const days = [note.taken_from && `since ${note.taken_from}`, note.taken_to && `before ${note.taken_to}`].filter(Boolean).join(", ");
    const filters = { ...asked.value.filters, taken_from: note.taken_from ?? undefined, taken_to: note.taken_to ?? undefined };
    return html`<p class="note">Words know no dates: “<bdi>${note.phrase}</bdi>”. ${" "}
      <button type="button" class="link" onClick=${() => ask({ ...draft, filters })}>Only pictures taken ${days}</button></p>`;
  }
  if (note.code !== "leave_out_by_option") return html`<p class="note">${note.message}.</p>`; // of a newer service
  return html`<p class="note">Words leave nothing out: “<bdi>${note.phrase}</bdi>”. ${" "}
    ${note.without.map((words) => html`
      <button type="button" class="link" key=${words} onClick=${() => addPart(draft, { kind: "without", text: words })}>Leave out <bdi>${words}</bdi></button> `)}</p>`;
}

/** How long it took, as seen here; the stages of the service unfold below. */
function Speed({ timings }) {
  const stages = Object.entries(timings ?? {});
  const [first, whole] = [firstMs.value, wholeMs.value];
  const told = whole !== null && whole - first > 10 ? `${first} ms, whole in ${whole} ms` : `${first} ms`;
  if (first === null) return null;
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
  return html`
    <section class="instead" role="status">
      <h2>No pictures</h2>
      <p>${pictures.value === 0 ? html`Nothing is indexed yet. Run <code>lodestone index FOLDER</code> on the service's machine.`
    : filtered ? "No indexed picture passes these filters."
    : `Nothing was found for ${spoken(asked.value)}.`}</p>
      ${filtered && html`<button type="button" class="button" onClick=${() => ask({ ...asked.value, filters: {} })}>Search without filters</button>`}
      ${isComposed(asked.value) && asked.value.text && html`<button type="button" class="button" onClick=${() => askWords(asked.value.text)}>Search by the words alone</button>`}
    </section>`;
}

function Failure() {
  const { message, hint, code, offline, status } = problem.value;
  const passing = status < 400 || status >= 500 || status === 429; // the same question may be answered later
  return html`
    <section class="instead error" role="alert">
      <h2>${offline ? "The service is out of reach" : "This could not be answered"}</h2>
      <p>${message}${offline && " The page asks again every few seconds, and goes on by itself."}</p>
      ${hint && html`<p class="quiet">Hint: ${hint}</p>`}
      ${hits.value.length > 0 && html`<p class="quiet">The pictures below are what came before.</p>`}
      ${passing && html`<button type="button" class="button primary" onClick=${() => ask(asked.value, { step: false, address: false })}>Try again</button>`}
      ${code && !offline && html`<p class="quiet"><code>${code}</code></p>`}
    </section>`;
}
