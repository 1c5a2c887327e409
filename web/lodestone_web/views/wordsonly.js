// The switch for words only: without guides, which takes less time.
import { html } from "../html.js";
import { askWritten } from "../query/actions.js";
import { draft } from "../query/store.js";

export function WordsOnly() {
  return html`
    <label class="switch" title="Without pictures that guide the search: faster"><input type="checkbox" role="switch" checked=${draft.value.wordsOnly}
      onChange=${(event) => askWritten({ wordsOnly: event.target.checked }, { step: false })} />
      <span>Words only</span></label>`;
}
