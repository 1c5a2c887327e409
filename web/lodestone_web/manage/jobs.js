// Background indexing: what goes on, what waits, and what ended badly.
import { html, useEffect, useRef } from "../html.js";
import { Act, announce } from "./acting.js";
import { ask } from "./api.js";
import { Badge, Progress, count } from "./wording.js";

const REASONS = { added: "a folder was added", asked: "somebody asked for it", watched: "files changed", repair: "something was missing" };

export function Jobs({ jobs, after }) {
  const shown = jobs.filter((job) => job.state !== "done" && job.state !== "cancelled");
  const before = useRef(new Map());
  useEffect(() => {
    for (const job of jobs) {
      const last = before.current.get(job.job_id);
      if (last && last !== job.state) announce(`Indexing ${job.corpus}: ${job.state}.`);
      before.current.set(job.job_id, job.state);
    }
  }, [jobs]);
  if (!shown.length) return null;
  return html`
    <section class="card" aria-label="Indexing">
      <h2>Indexing</h2>
      <ul class="rows">${shown.map((job) => html`<${Job} key=${job.job_id} job=${job} after=${after} />`)}</ul>
    </section>`;
}

function Job({ job, after }) {
  const open = job.state === "running" || job.state === "waiting";
  const cancel = () => ask(`/v1/jobs/${encodeURIComponent(job.job_id)}`, { method: "DELETE" });
  return html`
    <li>
      <div class="head">
        <h3><bdi>${job.corpus}</bdi> <${Badge} state=${job.state} /></h3>
        ${open && html`<${Act} kind="small" label=${`Stop indexing ${job.corpus}`} work=${cancel} done="It stops. What is finished is kept." after=${after}>Stop<//>`}
      </div>
      <p class="quiet">${REASONS[job.reason] ?? job.reason}${job.stage && `, ${job.stage}`}${job.total > 0 && `: ${job.done.toLocaleString("en")} of ${count(job.total, "picture")}`}</p>
      ${job.state === "running" && html`<${Progress} label=${`Indexing ${job.corpus}`} done=${job.done} total=${job.total} />`}
      ${job.error && html`<p class="note">${job.error}</p>`}
    </li>`;
}
