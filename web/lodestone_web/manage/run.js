// One run: its progress while it goes on, what it did, and the files that failed in it.
import { html, useEffect, useRef, useState } from "../html.js";
import { withParams } from "../engine/lists.js";
import { Act, Confirmed, announce } from "./acting.js";
import { ask, whole } from "./api.js";
import { Loaded, useLoaded } from "./loading.js";
import { link } from "./router.js";
import { summary } from "./summary.js";
import { Badge, Facts, Progress, Table, When, between, bytes, count, lasting } from "./wording.js";

const LIVE_MS = 1500;
const SILENT_S = 60;
const FAILURES = 50;

export function Run({ id }) {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  const from = useLoaded((signal) => ask(path, { signal }), [id], (run) => (run.state === "running" ? LIVE_MS : 0));
  useSpoken(from.data);
  return html`
    <p class="back"><a class="link" href=${link("runs")}>All runs</a></p>
    <h1 tabindex="-1">Run <code>${id.slice(0, 8)}</code></h1>
    <${Loaded} from=${from}>${(run) => html`
      <section class="card" aria-label="The run">
        <div class="head">
          <h2>${run.kind}${run.corpus && html` <bdi>${run.corpus}</bdi>`} <${Badge} state=${run.state} /></h2>
          <div class="buttons">
            ${run.state === "running" && !run.cancel_requested && html`
              <${Confirmed} title="Stop this run?" action="Stop it" work=${() => ask(`${path}/cancel`, { method: "POST" })} done="It stops within seconds." after=${from.refresh}
                text="What is finished is kept, and the next run goes on from there.">Stop …<//>`}
            ${run.state !== "running" && run.failures > 0 && html`<${Retry} run=${run} />`}
          </div>
        </div>
        ${run.cancel_requested && run.state === "running" && html`<p class="note">It was asked to stop.</p>`}
        ${run.error && html`<p class="note">${run.error}</p>`}
        ${run.state === "running" ? html`<${Live} run=${run} />` : html`<p>${summary(run)}</p>`}
        <${Facts} of=${[
          ["Began", html`<${When} at=${run.started_at} />`],
          [run.finished_at ? "Took" : "For", lasting(between(run.started_at, run.finished_at))],
          ...Object.entries(run.counts).filter(([, value]) => typeof value === "number" && value > 0).map(([name, value]) => [name.replaceAll("_", " "), value.toLocaleString("en")]),
        ]} />
        <${Stages} progress=${run.progress} />
      </section>
      <${Failures} key=${run.state} path=${path} total=${run.failures} />`}
    <//>`;
}

/** Read out what changes: the state, the stage, each quarter. */
function useSpoken(run) {
  const last = useRef("");
  useEffect(() => {
    if (!run) return;
    const { progress } = run;
    const quarter = progress?.total ? Math.floor((4 * progress.done) / progress.total) * 25 : 0;
    const text = run.state === "running" ? `${progress?.stage ?? run.stage}${quarter ? `, ${quarter} percent` : ""}` : `The run is ${run.state}.`;
    if (last.current && last.current !== text) announce(text);
    last.current = text;
  }, [run]);
}

function Live({ run }) {
  const { progress } = run;
  const silent = run.heartbeat_at ? between(run.heartbeat_at) : 0;
  if (silent > SILENT_S) return html`<p class="note">Nothing was heard of it for ${lasting(silent)}. Its process may have ended.</p>`;
  if (!progress) return html`<${Progress} label="The run goes on" total=${0} />`;
  return html`
    <p>${progress.stage} <span class="quiet">${progress.detail}</span></p>
    <${Progress} label=${`Progress of ${progress.stage}`} done=${progress.done} total=${progress.total} />
    <p class="quiet">${[
      progress.total ? `${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}` : "",
      progress.rate ? `${progress.rate.toFixed(progress.rate < 10 ? 1 : 0)} a second` : "",
      progress.seconds_left != null ? `about ${lasting(progress.seconds_left)} left` : "",
      progress.limited_by ? `limited by ${progress.limited_by}` : "",
    ].filter(Boolean).join(", ")}</p>`;
}

function Stages({ progress }) {
  if (!progress?.stages.length) return null;
  const percent = (share) => `${Math.round(100 * share)} %`;
  return html`
    <details><summary>Stages of embedding</summary>
      <${Table} label="Stages of embedding" head=${["Stage", "Pictures", "A second", "Busy", "Waiting"]}
        rows=${progress.stages.map((one) => ({ key: one.stage, cells: [one.stage, one.pictures.toLocaleString("en"), one.rate.toFixed(1), percent(one.busy), one.waiting] }))} />
      ${progress.gpus.map((gpu) => html`<p key=${gpu.gpu} class="quiet">GPU ${gpu.gpu}: ${percent(gpu.busy)} busy, ${bytes(gpu.memory_used)} of ${bytes(gpu.memory_size)}</p>`)}
    </details>`;
}

/** Try the files again that failed: a new run over the directories of the corpus that have some. */
function Retry({ run }) {
  const retry = async () => {
    const all = await whole("/v1/directories", "directories");
    const failing = all.filter((one) => one.corpus === run.corpus && one.failed > 0);
    for (const one of failing) await ask(`/v1/directories/${encodeURIComponent(one.directory_id)}/index?retry_failed=true`, { method: "POST" });
    if (!failing.length) throw new Error("No folder of this corpus has files that failed: nothing is left to try.");
    location.hash = link("runs");
  };
  return html`<${Act} kind="primary" work=${retry} done="The files that failed are tried again, in a new run.">Try failed files again<//>`;
}

function Failures({ path, total }) {
  const [cursors, setCursors] = useState([""]); // of the pages up to the one that is shown
  const from = useLoaded((signal) => ask(withParams(`${path}/failures`, { limit: FAILURES, cursor: cursors.at(-1) }), { signal }), [path, cursors.at(-1)]);
  if (total === 0) return html`<p class="quiet">No file failed in it.</p>`;
  const begin = (cursors.length - 1) * FAILURES;
  return html`
    <section class="card failures" aria-label="Failures">
      <h2>${count(total ?? 0, "file")} failed</h2>
      <${Loaded} from=${from}>${(page) => html`
        <${Table} label="Files that failed" head=${["File", "Why", "Code"]} empty="They are gone, or a later run could use them."
          rows=${page.failures.map((one) => ({ key: `${one.root} ${one.uri} ${one.code}`, cells: [html`<bdi>${one.root}/${one.uri}</bdi>`, one.message, html`<code>${one.code}</code>`] }))} />
        ${(cursors.length > 1 || page.next_cursor) && html`
          <nav class="pages" aria-label="Pages of failures">
            <button type="button" class="button small" disabled=${cursors.length === 1} onClick=${() => setCursors(cursors.slice(0, -1))}>Previous</button>
            <span>${begin + 1} to ${begin + page.failures.length} of ${total.toLocaleString("en")}</span>
            <button type="button" class="button small" disabled=${!page.next_cursor} onClick=${() => setCursors([...cursors, page.next_cursor])}>Next</button>
          </nav>`}`}
      <//>
    </section>`;
}
