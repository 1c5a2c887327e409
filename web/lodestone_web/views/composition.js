// The choice between compositions, which say by what the parts of a query are compared; shown where the settings have several.
import { html } from "../html.js";
import { ask } from "../query/asking.js";
import { asked, compositions } from "../query/store.js";

export function Composition() {
  const chosen = asked.value.composition;
  const names = [...new Set([...compositions.value, ...(chosen ? [chosen] : [])])]; // an address may name one that is gone
  if (names.length < 2) return null;
  return html`
    <label class="composition">Compare by
      <select value=${chosen} onChange=${(event) => ask({ ...asked.value, composition: event.target.value })}>
        ${names.map((name) => html`<option key=${name} value=${name === "default" ? "" : name}>${name}</option>`)}
      </select></label>`;
}
