// Selected pictures: the mark on each tile, and the bar that exports them.
import { html } from "../html.js";
import { archive, saveArchive, saveCsv, saveJson, saveNames, stopArchive } from "../query/export.js";
import { clearSelection, selectAll, selected, toggle } from "../query/selection.js";
import { access } from "../query/access.js";
import { hits } from "../query/store.js";

const FORMATS = {
  JSON: [saveJson, "Facts and captions, for programs"],
  CSV: [saveCsv, "Facts and captions, for spreadsheets"],
  Zip: [saveArchive, "The originals, in their folders"],
};

export function Check({ hit, description }) {
  return html`
    <input type="checkbox" class="check" aria-label=${`Select: ${description}`} checked=${selected.value.has(hit.image_id)}
      onClick=${(event) => toggle(hit, { range: event.shiftKey })} />`;
}

export function SelectionBar() {
  const chosen = [...selected.value.values()];
  const rest = hits.value.some((hit) => !selected.value.has(hit.image_id));
  if (!chosen.length && !archive.value) return null;
  const exports = access.value?.paths
    ? { Paths: [saveNames, "Absolute paths, each in a line"], ...FORMATS }
    : { Names: [saveNames, "The indexed folder and the path inside it, each in a line"], ...FORMATS };
  const making = archive.value && !archive.value.message;
  return html`
    <section class="selection" aria-label="Selection">
      ${chosen.length > 0 && html`
        <p role="status"><b>${chosen.length.toLocaleString("en")}</b> selected</p>
        <div class="exports" role="group" aria-label="Save the selection as">
          ${Object.entries(exports).map(([name, [run, title]]) => html`
            <button type="button" class="button" key=${name} title=${title} disabled=${name === "Zip" && making} onClick=${() => run(chosen)}>${name}</button>`)}
        </div>
        ${rest && html`<button type="button" class="link" onClick=${selectAll}>Select all ${hits.value.length.toLocaleString("en")}</button>`}
        <button type="button" class="link" onClick=${clearSelection}>Clear</button>`}
      ${archive.value && html`<${Progress} />`}
    </section>`;
}

function Progress() {
  const { done, count, bytes, failures, message, failed } = archive.value;
  const size = `${(bytes / 2 ** 20).toFixed(1)} MB`;
  return html`
    <div class="archive" role=${failed ? "alert" : "status"}>
      ${message ? html`<p class="note">${message}</p>` : html`
        <label>Fetching originals: ${done} of ${count}, ${size} <progress value=${done} max=${count}></progress></label>`}
      ${failures.length > 0 && html`<details><summary>${failures.length} failed</summary><ul>${failures.map((line) => html`<li key=${line}><bdi>${line}</bdi></li>`)}</ul></details>`}
      <button type="button" class="link" onClick=${stopArchive}>${message ? "Close" : "Stop"}</button>
    </div>`;
}
