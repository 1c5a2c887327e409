// What is inside a directory: patterns of what is left out, and folders that become directories of their own.
import { html, useState } from "../html.js";
import { Act } from "./acting.js";
import { ask } from "./api.js";

const WITH_FOLDERS = ["folder", "object"]; // kinds of directories; tables and archives have no folders

export function Inside({ directory, path, after }) {
  const { name, exclude } = directory;
  if (!WITH_FOLDERS.includes(directory.kind)) return null;
  const leaveOut = (patterns) => async () => {
    await ask(path, { method: "PATCH", body: { exclude: patterns } });
    await ask(`${path}/index`, { method: "POST" });
  };
  return html`
    <details class="inside">
      <summary>Folders inside${exclude.length > 0 && html` <span class="quiet">${exclude.length.toLocaleString("en")} left out</span>`}</summary>
      ${exclude.length > 0 && html`<ul aria-label=${`Left out of ${name}`}>${exclude.map((pattern) => html`
        <li key=${pattern}><code><bdi>${pattern}</bdi></code> <${Act} kind="small" label=${`Index ${pattern} of ${name} again`} after=${after}
          work=${leaveOut(exclude.filter((one) => one !== pattern))} done=${`${pattern} is indexed again.`}>Index it again<//></li>`)}</ul>`}
      <${Asking} label=${`Leave out of ${name}`} placeholder="/2018/drafts/ or *.png" after=${after} work=${(pattern) => leaveOut([...new Set([...exclude, pattern])])()}
        done=${(pattern) => `${pattern} is left out.`} action="Leave out" text="A folder, or a pattern as in a .gitignore. Its pictures, their tags and captions are forgotten by the run that begins then. The files themselves stay." />
      <${Asking} label=${`Folder of ${name} to list by itself`} placeholder="2018/summer" after=${after} work=${(folder) => ask(`${path}/split`, { method: "POST", body: { folder } })}
        done=${(folder) => `${folder} is listed by itself.`} action="List by itself" text="It can then be hidden, watched and removed alone. Its pictures keep their tags and captions." />
    </details>`;
}

/** A field, what it is for, and a button that does something with what is written. */
function Asking({ label, placeholder, text, action, work, done, after }) {
  const [written, setWritten] = useState("");
  const finished = async () => { setWritten(""); await after(); };
  return html`
    <form onSubmit=${(event) => { event.preventDefault(); event.target.querySelector("button").click(); }}>
      <label>${label}<input required value=${written} placeholder=${placeholder} spellcheck="false" autocomplete="off" onInput=${(event) => setWritten(event.target.value)} /></label>
      ${written.trim() ? html`<${Act} work=${() => work(written.trim())} done=${done(written.trim())} after=${finished}>${action}<//>` : html`<button type="button" class="button" disabled>${action}</button>`}
      <p class="quiet">${text}</p>
    </form>`;
}
