// Why a picture is here: the shares of its score, by guide or part, and by space.
import { html, useState } from "../html.js";
import { explanationOf } from "../query/explanations.js";
import { busy, guides } from "../query/store.js";

const MOST = 8;

export function Why({ hit, queryId }) {
  const [open, setOpen] = useState(false);
  const explanation = open && !busy.value ? explanationOf(queryId) : null;
  const explained = explanation?.hits.find((other) => other.image_id === hit.image_id);
  return html`
    <details class="why" onToggle=${(event) => setOpen(event.target.open)}><summary>Why is it here?</summary>
      ${explained ? html`<${Parts} explained=${explained} explanation=${explanation} />` : html`
        <p class="quiet">${explanation ? "The record of this query does not reach this picture." : "The record of this query is being read, or is not kept."}</p>`}
    </details>`;
}

function Parts({ explained, explanation }) {
  const sums = new Map();
  for (const part of explained.parts) {
    const key = `${part.guide}\n${part.space}`;
    const before = sums.get(key) ?? { part: 0, weight: 0 };
    sums.set(key, { ...part, part: before.part + part.part, weight: before.weight + part.weight });
  }
  const parts = [...sums.values()].sort((a, b) => Math.abs(b.part) - Math.abs(a.part));
  const largest = Math.max(1e-9, ...parts.map((part) => Math.abs(part.part)));
  const rest = parts.slice(MOST);
  const restSum = rest.reduce((sum, part) => sum + part.part, 0);
  return html`
    <p>Rank ${explained.rank}. The shares sum to the score.</p>
    <table>
      <thead><tr><th scope="col">Compared with</th><th scope="col">In</th><th scope="col">Like it</th><th scope="col">Weight</th><th scope="col">Share</th></tr></thead>
      <tbody>
        ${parts.slice(0, MOST).map((part) => html`
          <tr key=${part.guide + part.space}>
            <th scope="row"><${Source} name=${part.guide} explanation=${explanation} /></th>
            <td>${part.space}</td><td>${part.score.toFixed(2)}</td><td>${Math.round(100 * part.weight)} %</td>
            <td class="amount">${part.part.toFixed(3)}<span class=${`bar ${part.part < 0 ? "minus" : ""}`} style=${{ width: `${Math.round((48 * Math.abs(part.part)) / largest)}px` }} aria-hidden="true"></span></td>
          </tr>`)}
        ${rest.length > 0 && html`<tr><th scope="row">${rest.length} more</th><td></td><td></td><td></td><td>${restSum.toFixed(3)}</td></tr>`}
      </tbody>
      <tfoot><tr><th scope="row">Score</th><td></td><td></td><td></td><td>${explained.score.toFixed(3)}</td></tr></tfoot>
    </table>`;
}

function Source({ name, explanation }) {
  if (name === "text") return html`the words “<bdi>${explanation.text}</bdi>”`;
  const part = explanation.parts.find((other) => other.name === name);
  if (part?.text) return html`${part.avoid && "without "}“<bdi>${part.text}</bdi>”`;
  if (part) return html`${part.image_id && html`<img src=${`v1/images/${part.image_id}/thumbnail`} alt="" />`} ${part.avoid ? "unlike this" : "this picture"}`;
  const guide = [...guides.value, ...explanation.guides].find((other) => other.guide_id === name);
  if (!guide) return html`${name}`;
  return html`${guide.picture && html`<img src=${guide.picture.replace(/^\//, "")} alt="" />`} <span title=${name}>${guide.provenance.caption ?? name}</span>`;
}
