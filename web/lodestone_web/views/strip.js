// The strip of guides: what the engine drew, or took from the indexed pictures, used or rejected, each a picture to search by.
import { html, signal } from "../html.js";
import { request } from "../engine/http.js";
import { addFiles, askSimilar } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { standIns } from "../query/explanations.js";
import { answer, asked, busy, guides, toast } from "../query/store.js";
import { narrow } from "./narrow.js";

const unfolded = signal(false); // on narrow pages, where pictures come first

/** The button that unfolds the strip on narrow pages. */
export function StripButton() {
  const shown = guides.value;
  if (!narrow.value || !shown.length) return null;
  const [title] = titlesOf(shown.some((guide) => !isTaken(guide)), shown.some(isTaken));
  return html`
    <button type="button" class="button quiet" aria-expanded=${unfolded.value ? "true" : "false"} aria-controls="strip"
      onClick=${() => { unfolded.value = !unfolded.value; }}>${title} (${shown.length})</button>`;
}

export function Strip() {
  const shown = guides.value;
  if (!shown.length || (narrow.value && !unfolded.value)) return null;
  const drawn = shown.some((guide) => !isTaken(guide)); // pictures of the collection are the same with any seed
  const [title, label] = titlesOf(drawn, shown.some(isTaken));
  const used = shown.filter((guide) => guide.status === "used").length;
  return html`
    <section class="strip" id="strip" aria-label=${label}>
      <h2>${title} <span class="quiet">${used} of ${shown.length} used</span>
        ${drawn && !busy.value && html`<button type="button" class="link" onClick=${() => ask({ ...asked.value, seed: asked.value.seed + 1, withoutGuides: [] }, { step: false })}>Draw again</button>`}
      </h2>
      <ul>${shown.map((guide) => html`<${Guide} key=${guide.guide_id} guide=${guide} />`)}</ul>
    </section>`;
}

/** Return whether a guide is an indexed picture that fits the words, and nothing that was drawn. */
function isTaken({ engine, provenance }) {
  return engine === "exemplar" || provenance.image_id !== undefined; // settings may give the engine another name
}

/** Return the title of the strip, and what it is for those who do not see it. */
function titlesOf(drawn, taken) {
  if (!taken) return ["Imagined", "What the engine imagined"];
  if (!drawn) return ["From your pictures", "Your pictures that guide the search"];
  return ["Imagined, and from your pictures", "What the engine imagined, and your pictures that guide the search"];
}

function Guide({ guide }) {
  const standIn = guide.picture || busy.value ? null : standIns(answer.value?.query_id).get(guide.guide_id);
  const picture = guide.picture ?? standIn?.thumbnail;
  const told = guide.provenance.caption ?? guide.provenance.prompt ?? guide.engine;
  const left = asked.value.withoutGuides.includes(guide.guide_id);
  const status = left ? "left out" : { used: "", rejected: "unlike the others, not used", dropped: "not needed or too late" }[guide.status];
  const label = [`Search by ${guide.guide_id}`, told, standIn ? "the nearest picture stands for it" : "", status].filter(Boolean).join(": ");
  return html`
    <li class=${`guide ${left ? "rejected" : guide.status}`}>
      <button type="button" disabled=${!picture} title=${[told, status].filter(Boolean).join(". ")} aria-label=${label} onClick=${() => searchBy(guide, standIn)}>
        ${picture ? html`<img src=${picture.replace(/^\//, "")} alt="" decoding="async" />` : html`<span class="vector" aria-hidden="true">…</span>`}
        ${standIn && html`<span class="badge">nearest</span>`}
        <span class="weight" aria-hidden="true"><span style=${{ width: `${Math.round(100 * Math.min(1, Math.max(0, guide.weight)))}%` }}></span></span>
      </button>
      <button type="button" class="leave" disabled=${busy.value} title=${left ? "Use it again" : "Leave it out"}
        aria-label=${`${left ? "Use" : "Leave out"} ${guide.guide_id}`} onClick=${() => toggle(guide.guide_id)}>${left ? "+" : "×"}</button>
    </li>`;
}

/** Ask again without a guide, or with it again; the seed stays, so the others do too. */
function toggle(id) {
  const { withoutGuides: ids } = asked.value;
  return ask({ ...asked.value, withoutGuides: ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id] }, { step: false });
}

async function searchBy(guide, standIn) {
  const indexed = guide.provenance.image_id ?? standIn?.image_id;
  if (indexed) return askSimilar({ image_id: indexed, thumbnail: guide.picture ?? standIn.thumbnail, uri: "" });
  try {
    const drawn = await (await request(guide.picture)).blob();
    return await addFiles([new File([drawn], guide.guide_id, { type: drawn.type })]);
  } catch (error) {
    toast.value = error.message;
    return undefined;
  }
}
