// The list of runs, newest first: how far those are that go on, and what became of the others.
import { html, useEffect, useMemo, useState } from "../html.js";
import { withParams } from "../engine/lists.js";
import { Act, announce } from "./acting.js";
import { ask, changes, whole } from "./api.js";
import { Jobs } from "./jobs.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { filter, link, route } from "./router.js";
import { summary } from "./summary.js";
import { Badge, Progress, When, between, count, lasting } from "./wording.js";

const STATES = ["running", "done", "failed", "interrupted", "cancelled"];
const LIVE_MS = 2000;
const CALM_MS = 10000;
const PAGE = 25;

export function Runs() {
  const { corpus = "", state = "" } = route.value.params;
  const shown = useMemo(() => ({ older: null, last: null }), [corpus, state, changes.value]); // the runs behind the first page, and its last one
  const from = useLoaded(load, [corpus, state], (data) => (data.runs.some((run) => run.state === "running") || data.open ? LIVE_MS : CALM_MS));
  return html`
    <h1 tabindex="-1">Runs</h1>
    <p class="quiet">Each time pictures are indexed or something is learnt, that is a run.</p>
    <${Filters} corpus=${corpus} state=${state} />
    <${Loaded} from=${from}>${(data) => html`
      <${Jobs} jobs=${data.jobs} after=${from.refresh} />
      ${data.runs.length === 0 && html`<${Empty} title="No runs">${corpus || state ? "No run is like that." : "Nothing was indexed yet."}<//>`}
      <ul class="cards">${data.runs.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>
      ${data.older.length > 0 && html`<ul class="cards">${data.older.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>`}
      ${data.cursor && html`<p class="more"><${Act} work=${() => showOlder(data.cursor)} after=${from.refresh}>Show older runs<//></p>`}`}
    <//>`;

  function pageOf(cursor, options) {
    return ask(withParams("/v1/runs", { limit: PAGE, corpus, state, cursor }), options);
  }

  async function load(signal) {
    const [page, { jobs }] = await Promise.all([pageOf(null, { signal }), ask("/v1/jobs", { signal })]);
    const last = page.runs.at(-1)?.run_id;
    const pushed = shown.older && shown.last !== last ? await pushedOff(page, signal) : [];
    const older = joined(pushed, shown.older?.runs ?? []);
    if (shown.older) shown.older = { ...shown.older, runs: older };
    shown.last = last;
    return {
      runs: page.runs,
      older: joined(page.runs, older).slice(page.runs.length),
      cursor: shown.older ? shown.older.cursor : page.next_cursor,
      jobs,
      open: jobs.some((job) => job.state === "running" || job.state === "waiting"),
    };
  }

  /** Return the runs that new ones have pushed off the first page, and that are not among the older ones yet. */
  async function pushedOff(first, signal) {
    const known = new Set(shown.older.runs.map((run) => run.run_id));
    const pushed = [];
    for (let last = first; last.next_cursor && !known.has(last.runs.at(-1)?.run_id);) {
      last = await pageOf(last.next_cursor, { signal });
      pushed.push(...last.runs.filter((run) => !known.has(run.run_id)));
    }
    return pushed;
  }

  async function showOlder(cursor) {
    const page = await pageOf(cursor);
    shown.older = { runs: joined(shown.older?.runs ?? [], page.runs), cursor: page.next_cursor };
    announce(`${count(page.runs.length, "older run")} below.`);
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

/** Return two lists of runs as one, without those of the second that are in the first. */
function joined(runs, others) {
  const known = new Set(runs.map((run) => run.run_id));
  return [...runs, ...others.filter((run) => !known.has(run.run_id))];
}

function Row({ run }) {
  const { progress } = run;
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
      ${run.state !== "running" && summary(run) && html`<p class="quiet">${summary(run)}</p>`}
      ${run.error && html`<p class="note">${run.error}</p>`}
    </li>`;
}
