// Corpora and their directories: what is indexed, what is being indexed, and how to change it.
import { html, useState } from "../html.js";
import { Act, Confirmed, Switch, attempt, say } from "./acting.js";
import { ask, whole } from "./api.js";
import { Inside } from "./inside.js";
import { Jobs } from "./jobs.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { link } from "./router.js";
import { Badge, Facts, When, count } from "./wording.js";

const LIVE_MS = 2000;
const CALM_MS = 15000;

export function Corpora() {
  const from = useLoaded(load, [], (data) => (data.jobs.some(isOpen) || data.directories.some((one) => one.indexing) ? LIVE_MS : CALM_MS));
  return html`
    <h1 tabindex="-1">Corpora</h1>
    <p class="quiet">A corpus holds the pictures of some folders under one name. Lodestone never changes the pictures themselves.</p>
    <${Loaded} from=${from}>${(data) => html`
      <${Adder} corpora=${data.corpora} after=${from.refresh} open=${data.corpora.length === 0} />
      <${Jobs} jobs=${data.jobs} after=${from.refresh} />
      ${data.corpora.length === 0 && html`<${Empty} title="Nothing is indexed yet">Add a folder above, or run <code>lodestone index FOLDER</code> on the service's machine.<//>`}
      ${data.corpora.map((corpus) => html`<${Corpus} key=${corpus.corpus_id} corpus=${corpus} data=${data} after=${from.refresh} />`)}`}
    <//>`;
}

async function load(signal) {
  // States first: what is counted after a run was seen to be done holds all of its pictures.
  const [jobs, runs] = await Promise.all([ask("/v1/jobs", { signal }), ask("/v1/runs?limit=200", { signal })]);
  const [corpora, directories] = await Promise.all([
    whole("/v1/corpora", "corpora", { signal }), whole("/v1/directories", "directories", { signal }),
  ]);
  return { corpora, directories, jobs: jobs.jobs, runs: runs.runs };
}

function isOpen(job) {
  return job.state === "waiting" || job.state === "running";
}

function Corpus({ corpus, data, after }) {
  const directories = data.directories.filter((one) => one.corpus === corpus.name);
  const run = data.runs.find((one) => one.corpus === corpus.name);
  const indexAll = () => Promise.all(directories.map((one) => index(one)));
  const path = `/v1/corpora/${encodeURIComponent(corpus.name)}`;
  const gone = () => ask(path, { method: "DELETE" });
  const rename = async (name) => {
    const { notes } = await ask(path, { method: "PATCH", body: { name } });
    say([`The corpus ${corpus.name} is called ${name} now.`, ...notes].join(" "));
  };
  return html`
    <section class="card" aria-label=${`Corpus ${corpus.name}`}>
      <div class="head">
        <h2><bdi>${corpus.name}</bdi></h2>
        <div class="buttons">
          ${directories.length > 1 && html`<${Act} work=${indexAll} done="Indexing begins." after=${after} label=${`Index ${corpus.name} now`}>Index now<//>`}
          <a class="button" href=${`./?${new URLSearchParams({ corpus: corpus.name })}`} aria-label=${`Search in ${corpus.name}`}>Search in it</a>
          <${Confirmed} label=${`Rename ${corpus.name}`} title="Rename this corpus?" action="Rename it" field="New name" work=${rename} after=${after}
            text=${`“${corpus.name}” gets another name. Its pictures, tags and captions stay. Keys that name it name it by the new name. Addresses of searches in it have to be changed.`}>Rename …<//>
          <${Confirmed} kind="danger" label=${`Remove ${corpus.name}`} title="Remove this corpus?" action="Remove it" typed=${corpus.name} work=${gone}
            done=${`The corpus ${corpus.name} was removed.`} after=${after}
            text=${`Its ${count(corpus.images, "picture")} will not be found any more. Vectors, thumbnails, tags and captions are deleted. The files themselves stay, and so do backups.`}>Remove …<//>
        </div>
      </div>
      <${Facts} of=${[
        ["Pictures", corpus.images.toLocaleString("en")],
        ["Files that failed", corpus.failures ? html`${corpus.failures.toLocaleString("en")} ${run && html`<a href=${link("runs", run.run_id)}>Why?</a>`}` : "none"],
        ["Last run", run ? html`<a href=${link("runs", run.run_id)}><${When} at=${run.started_at} /></a> <${Badge} state=${run.state} />` : "none"],
        ["Since", html`<${When} at=${corpus.created_at} />`],
      ]} />
      <ul class="rows">${directories.map((one) => html`<${Directory} key=${one.directory_id} directory=${one} after=${after} />`)}</ul>
    </section>`;
}

function Directory({ directory, after }) {
  const { name, corpus } = directory;
  const path = `/v1/directories/${encodeURIComponent(directory.directory_id)}`;
  const change = (member) => (on) => ask(path, { method: "PATCH", body: { [member]: on } });
  return html`
    <li>
      <div class="head">
        <h3><bdi>${name}</bdi> <span class="quiet">${directory.kind}</span> ${directory.indexing && html`<${Badge} state="running">indexing</>`}</h3>
        <div class="buttons">
          <${Act} kind="small" label=${`Index ${name} now`} work=${() => index(directory)} done="Indexing begins." after=${after}>Index now<//>
          <${Confirmed} kind="small danger" label=${`Remove ${name}`} title="Remove this folder?" action="Remove it" work=${() => ask(path, { method: "DELETE" })}
            done=${`The folder ${name} was removed.`} after=${after}
            text=${`${count(directory.images, "picture")} of “${name}” in “${corpus}” will not be found any more. Vectors, thumbnails, tags and captions are deleted. The files themselves stay, and so do backups.`}>Remove …<//>
        </div>
      </div>
      <${Facts} of=${[
        ["Pictures", directory.images.toLocaleString("en")],
        ["Waiting", directory.waiting ? directory.waiting.toLocaleString("en") : ""],
        ["Failed", directory.failed ? directory.failed.toLocaleString("en") : ""],
        ["Looked through", html`<${When} at=${directory.scanned_at} />`],
      ]} />
      <p class="switches">
        <${Switch} on=${directory.enabled} label=${`Pictures of ${name} are found`} change=${change("enabled")} after=${after}>Found by searches<//>
        <${Switch} on=${directory.watched} label=${`${name} is watched`} change=${change("watched")} after=${after}>Indexed when files change<//>
      </p>
      <${Inside} directory=${directory} path=${path} after=${after} />
    </li>`;
}

function index(directory) {
  return ask(`/v1/directories/${encodeURIComponent(directory.directory_id)}/index`, { method: "POST" });
}

function Adder({ corpora, after, open }) {
  const [path, setPath] = useState("");
  const [corpus, setCorpus] = useState(corpora[0]?.name ?? "default");
  const [watch, setWatch] = useState(false);
  const add = async (event) => {
    event.preventDefault();
    let answer = null;
    const body = { path: path.trim(), corpus: corpus.trim(), watch };
    if (!(await attempt(async () => { answer = await ask("/v1/directories", { method: "POST", body }); }))) return;
    setPath("");
    say(`${answer.directory.name} was added. ${answer.job ? "Indexing begins." : ""}`);
    await after();
  };
  return html`
    <details class="card adder" open=${open}>
      <summary>Add a folder</summary>
      <form onSubmit=${add}>
        <label class="wide">Folder on the service's machine<input required placeholder="/home/ada/Pictures" value=${path} spellcheck="false" onInput=${(event) => setPath(event.target.value)} /></label>
        <label>Corpus<input required list="corpora" value=${corpus} onInput=${(event) => setCorpus(event.target.value)} /></label>
        <datalist id="corpora">${corpora.map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
        <label class="switch"><input type="checkbox" checked=${watch} onChange=${(event) => setWatch(event.target.checked)} />Index it again when its files change</label>
        <button class="button primary">Add and index</button>
      </form>
    </details>`;
}
