// The beginning of an empty home: a form that adds a folder, and how far it is indexed.
import { html, useEffect, useState } from "../html.js";
import { getJson, postJson, toldOf } from "../engine/http.js";
import { passHeaders } from "../engine/unlocked.js";
import { reread } from "../query/collection.js";
import { may } from "../query/access.js";
import { indexingWords } from "./indexing.js";

const POLL_MS = 1500;

export function AddFolder() {
  const [path, setPath] = useState("");
  const [trouble, setTrouble] = useState("");
  const [job, setJob] = useState(null);
  const [told, setTold] = useState("");

  useEffect(() => {
    if (!job) return undefined;
    let stopped = false;
    let timer = 0;
    const look = async () => {
      try {
        const { jobs } = await getJson("/v1/jobs", { headers: passHeaders() });
        const mine = jobs.find((one) => one.job_id === job);
        if (stopped) return;
        if (mine && (mine.state === "waiting" || mine.state === "running")) setTold(progressOf(mine));
        else {
          setTrouble(mine?.error || "No picture was found in this folder. Manage, under Runs, says what happened.");
          setJob(null);
        }
        await reread(); // pictures that are there take this form's place
      } catch (error) {
        if (!stopped) setTold(error.offline ? "The service does not answer." : error.message);
      }
      if (!stopped) timer = setTimeout(look, POLL_MS);
    };
    look();
    return () => { stopped = true; clearTimeout(timer); };
  }, [job]);

  const add = async (event) => {
    event.preventDefault();
    setTrouble("");
    try {
      const answer = await postJson("/v1/directories", { path: path.trim() }, { headers: passHeaders() });
      setTold("Looking through the folder …");
      setJob(answer.job?.job_id ?? null);
    } catch (error) {
      setTrouble(toldOf(error));
    }
  };

  if (!may("index")) {
    return html`
      <section class="addfolder"><h1>Add a folder</h1>
        <p>There are no pictures here yet. ${indexingWords() || "Whoever looks after this service adds a folder of pictures."}</p>
        <p><a class="button primary" href="manage">Add a folder</a></p></section>`;
  }
  return html`
    <section class="addfolder"><h1>Add a folder</h1>
      <p>There are no pictures here yet. Name a folder of this machine: its pictures are indexed, and never changed.</p>
      <form onSubmit=${add}>
        <label>Folder<input required placeholder="/home/ada/Pictures" value=${path} spellcheck="false" autocomplete="off" disabled=${job !== null} onInput=${(event) => setPath(event.target.value)} /></label>
        <button class="button primary" disabled=${job !== null}>Add a folder</button>
      </form>
      <p role="status">${job === null ? indexingWords() : told}</p>
      ${trouble && html`<p class="note" role="alert">${trouble}</p>`}
      <p class="quiet"><a href="manage">Manage</a> has buckets, several folders, and folders that are watched.</p></section>`;
}

function progressOf({ state, done, total }) {
  if (state === "waiting") return "Waiting for its turn …";
  if (!total) return "Looking through the folder …";
  return `Indexing: ${done.toLocaleString("en")} of ${total.toLocaleString("en")} (${Math.floor((100 * done) / total)} %)`;
}
