// What is said below a field whose text is longer than the service takes.
import { html } from "../html.js";
import { beginning, excess } from "../query/limits.js";

/** Count what is too much, and say how it can be sent: `shorten(text)` takes the beginning that fits. */
export function TooLong({ id, text, most, shorten }) {
  const more = excess(text, most);
  const count = (number) => number.toLocaleString("en");
  return html`<p class="limit note" id=${id} role="status">${more > 0 && html`
    ${count(most + more)} characters are ${count(more)} more than can be sent. Nothing is cut off.${" "}
    <button type="button" class="link" onClick=${() => shorten(beginning(text, most))}>Keep the first ${count(most)}</button>`}</p>`;
}
