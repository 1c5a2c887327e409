// The list of runs, newest first: how far those are that go on, and what became of the others.
import { html, useEffect, useState } from "../html.js";
import { Act, announce } from "./acting.js";
import { ask, changes, whole, withParams } from "./api.js";
import { Jobs } from "./jobs.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { filter, link, route } from "./router.js";
import { Badge, Progress, When, between, count, lasting } from "./wording.js";

const STATES = ["running", "done", "failed", "interrupted", "cancelled"];
const LIVE_MS = 2000;
const CALM_MS = 10000;
const PAGE = 25;

export function Runs() {
  const { corpus = "", state = "" } = route.value.params;
  const from = useLoaded(load, [corpus, state], (data) => (data.runs.some((run) => run.state === "running") || data.open ? LIVE_MS : CALM_MS));
  return html`
    <h1 tabindex="-1">Runs</h1>
    <p class="quiet">Each time pictures are indexed or something is learnt, that is a run.</p>
    <${Filters} corpus=${corpus} state=${state} />
    <${Loaded} from=${from}>${(data) => html`
      <${Jobs} jobs=${data.jobs} after=${from.refresh} />
      ${data.runs.length === 0 && html`<${Empty} title="No runs">${corpus || state ? "No run is like that." : "Nothing was indexed yet."}<//>`}
      <ul class="cards">${data.runs.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>
      <${Older} key=${`${corpus} ${state} ${changes.value}`} cursor=${data.cursor} params=${{ corpus, state }} />`}
    <//>`;

  async function load(signal) {
    const [page, { jobs }] = await Promise.all([ask(withParams("/v1/runs", { limit: PAGE, corpus, state }), { signal }), ask("/v1/jobs", { signal })]);
    return { runs: page.runs, cursor: page.next_cursor, jobs, open: jobs.some((job) => job.state === "running" || job.state === "waiting") };
  }
}

function Filters({ corpus, state }) {
  const [names, setNames] = useState([]);
  useEffect(() => {
    whole("/v1/corpora", "corpora").then((found) => setNames(found.map((one) => one.name)), () => undefined); // the list below says why
  }, [changes.value]);
  return html`
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Corpus<select value=${corpus} onChange=${(event) => filter({ corpus: event.target.value })}>
        <option value="">all</option>${[...new Set([...names, ...(corpus ? [corpus] : [])])].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <label>State<select value=${state} onChange=${(event) => filter({ state: event.target.value })}>
        <option value="">any</option>${STATES.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
    </form>`;
}

/** Runs behind the first page; they have ended, and stay as they are. */
function Older({ cursor, params }) {
  const [more, setMore] = useState({ runs: [], cursor: null, asked: false });
  const next = more.asked ? more.cursor : cursor;
  const load = async () => {
    const page = await ask(withParams("/v1/runs", { limit: PAGE, cursor: next, ...params }));
    setMore({ runs: [...more.runs, ...page.runs], cursor: page.next_cursor, asked: true });
    announce(`${count(page.runs.length, "older run")} below.`);
  };
  return html`
    ${more.runs.length > 0 && html`<ul class="cards">${more.runs.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>`}
    ${next && html`<p class="more"><${Act} work=${load}>Show older runs<//></p>`}`;
}

function Row({ run }) {
  const { progress, counts } = run;
  return html`
    <li class="card">
      <div class="head">
        <h2><a href=${link("runs", run.run_id)}>${run.kind}${run.corpus && html` <bdi>${run.corpus}</bdi>`}</a> <${Badge} state=${run.state} /></h2>
        <p class="quiet"><${When} at=${run.started_at} />, ${run.finished_at ? `took ${lasting(between(run.started_at, run.finished_at))}` : `for ${lasting(between(run.started_at))}`}</p>
      </div>
      ${run.state === "running" && progress && html`
        <p>${progress.stage} ${progress.detail && html`<span class="quiet">${progress.detail}</span>`} ${progress.total > 0 && `${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}`}
          ${progress.seconds_left != null && html`<span class="quiet">, about ${lasting(progress.seconds_left)} left</span>`}</p>
        <${Progress} label=${`Progress of ${progress.stage}`} done=${progress.done} total=${progress.total} />`}
      ${run.state !== "running" && html`<p class="quiet">${summary(run)}</p>`}
      ${run.error && html`<p class="note">${run.error}</p>`}
    </li>`;
}

/** Return what a run did, in words. */
export function summary({ kind, counts }) {
  const told = [
    [counts.embedded, "picture embedded", "pictures embedded"],
    [counts.changed, "file changed", "files changed"],
    [counts.deleted, "file gone", "files gone"],
    [counts.failed, "file failed", "files failed"],
  ].filter(([number]) => number > 0);
  return told.map(([number, one, many]) => count(number, one, many)).join(", ") || (kind === "index" ? "Nothing had to be done." : "");
}
