// Parts and sets as chips, and the steps that can be undone.
import { html, useRef, useState } from "../html.js";
import { compositions } from "../query/access.js";
import { addPart, undo } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { changed, isBrowsing, isComposed, keyOf, namedParts, spoken, withoutPart } from "../query/draft.js";
import { excess, MOST_CHARS } from "../query/limits.js";
import { members, saidMember, without } from "../query/sets.js";
import { answer, asked, cropping, hits, steps } from "../query/store.js";
import { Filters } from "./filters.js";
import { Folded } from "./folded.js";
import { Undo } from "./icons.js";
import { TooLong } from "./limited.js";
import { narrow } from "./narrow.js";
import { PartPicture } from "./region.js";
import { StripButton } from "./strip.js";
import { WordsOnly } from "./wordsonly.js";

const STEPS_SHOWN = 5;
const labels = { like: ["like this", "like this region"], upload: ["your picture", "your picture’s region"], unlike: ["unlike this"] };

export function Chips() {
  const draft = asked.value;
  const parts = namedParts(draft);
  const shares = new Map((answer.value?.parts ?? []).map((part) => [part.name, part.weight]));
  const refined = steps.value.length > 0 && [draft, steps.value.at(-1)].some(isComposed);
  return html`
    <section class="chips" aria-label="Parts of the query">
      ${refined && html`<${Steps} />`}
      ${draft.sets && html`<ul role="list" aria-label="Sets">${members(draft.sets).map((member) => html`<${SetChip} key=${JSON.stringify(member)} member=${member} />`)}</ul>`}
      ${isComposed(draft) && html`<ul role="list">${parts.map((part) => html`<${Chip} key=${keyOf(part)} part=${part} share=${shares.get(part.name)} />`)}</ul>`}
      <div class="tools">${parts.length > 0 && html`<${Without} />`}<${Filters} /><${Copies} /><${StripButton} /><${Composition} />${narrow.value && !isBrowsing(draft) && html`<${WordsOnly} />`}</div>
    </section>`;
}

/** Whether copies are shown one by one. */
function Copies() {
  const shown = asked.value.copies;
  const left = hits.value.reduce((sum, hit) => sum + hit.copies, 0);
  if (!shown && !left) return null;
  const text = shown ? "Copies together" : `Show ${left.toLocaleString("en")} ${left === 1 ? "copy" : "copies"}`;
  return html`<button type="button" class="button quiet" onClick=${() => ask({ ...asked.value, copies: !shown }, { step: false })}>${text}</button>`;
}

/** The choice between compositions, which say by what parts are compared; shown where there are several. */
function Composition() {
  const chosen = asked.value.composition;
  const names = [...new Set([...compositions.value, ...(chosen ? [chosen] : [])])]; // an address may name one that is gone
  if (names.length < 2) return null;
  return html`
    <label class="composition">Compare by
      <select value=${chosen} onChange=${(event) => ask({ ...asked.value, composition: event.target.value })}>
        ${names.map((name) => html`<option key=${name} value=${name === "default" ? "" : name}>${name}</option>`)}
      </select></label>`;
}

function Without() {
  const [text, setText] = useState("");
  const field = useRef(null);
  const tooLong = excess(text, MOST_CHARS) > 0;
  const add = (event) => {
    event.preventDefault();
    const words = text.trim();
    if (words && !tooLong && addPart(asked.value, { kind: "without", text: words })) setText("");
  };
  return html`
    <form class="without" onSubmit=${add}>
      <input ref=${field} value=${text} placeholder="but without …" aria-label="What the picture should not show"
        aria-invalid=${tooLong ? "true" : undefined} aria-describedby="without-limit" onInput=${(event) => setText(event.target.value)} />
      <button class="button quiet" disabled=${!text.trim() || tooLong}>Leave out</button>
      <${TooLong} id="without-limit" text=${text} most=${MOST_CHARS} shorten=${(words) => { setText(words); field.current.focus(); }} />
    </form>`;
}

let weighed = null; // {draft, name} of the weight that was changed last: a slider that is moved on is one step

function Chip({ part, share: given }) {
  const draft = asked.value;
  const current = draft.weights[part.name] ?? given;
  const share = given ?? (draft.weights[part.name] === 0 ? 0 : undefined); // the engine leaves out what has no weight
  const weigh = (event) => {
    const shares = Object.fromEntries((answer.value?.parts ?? []).map((other) => [other.name, Number(other.weight.toFixed(2))]));
    const step = weighed?.draft !== draft || weighed.name !== part.name;
    weighed = { draft: { ...draft, weights: { ...shares, ...draft.weights, [part.name]: Number(event.target.value) } }, name: part.name };
    ask(weighed.draft, { step, address: step ? true : "replace" });
  };
  const remove = () => ask(withoutPart(draft, part));
  const avoid = part.kind === "without" || part.kind === "unlike";
  const label = part.text ?? labels[part.kind][part.region ? 1 : 0];
  const shown = part.kind !== "words" && part.kind !== "without" && html`<${PartPicture} part=${part} />`;
  return html`
    <li class=${`chip ${avoid ? "avoid" : ""}`}>
      ${shown && avoid ? shown : shown && html`
        <button type="button" class="draw" title="Search by a region of it" aria-label=${`Draw a region of ${part.name}`}
          onClick=${() => { cropping.value = { part }; }}>${shown}</button>`}
      <span class="label">${avoid && part.text ? "without " : ""}<bdi>${label}</bdi></span>
      ${current !== undefined && html`
        <input type="range" min="0" max="1" step="0.05" value=${current} onChange=${weigh}
          aria-label=${`Weight of ${part.name}`} aria-valuetext=${share === undefined ? undefined : `${Math.round(share * 100)} %`} />
        <span class="share">${share === undefined ? "" : `${Math.round(share * 100)} %`}</span>`}
      <button type="button" class="close" aria-label=${`Remove ${part.name}: ${label}`} onClick=${remove}>×</button>
    </li>`;
}

function SetChip({ member }) {
  const label = saidMember(member);
  const remove = () => ask({ ...asked.value, sets: without(asked.value.sets, member) });
  return html`
    <li class=${`chip ${member.none ? "avoid" : ""}`}>
      <span class="label"><bdi title=${label}>${label}</bdi></span>
      <button type="button" class="close" aria-label=${`Remove: ${label}`} onClick=${remove}>×</button>
    </li>`;
}

function Steps() {
  const all = [...steps.value, asked.value];
  const begin = Math.max(0, all.length - STEPS_SHOWN);
  const told = (at) => (at === begin ? spoken(all[at]) : changed(all[at - 1], all[at]));
  const list = html`
    <ol>${steps.value.slice(begin).map((step, at) => html`
      <li key=${begin + at}><button type="button" class="link" title=${spoken(step)} onClick=${() => undo(begin + at)}><bdi>${told(begin + at)}</bdi></button></li>`)}
      <li aria-current="step"><bdi>${told(all.length - 1)}</bdi></li></ol>`;
  return html`
    <nav class="steps" aria-label="Steps of this search">
      <button type="button" class="button quiet" onClick=${() => undo()}><${Undo} /> Undo</button>
      ${narrow.value ? html`<${Folded} label=${`${all.length - begin} steps`}>${list}<//>` : list}
    </nav>`;
}
