// Generators and models: which there are, whether they answer, and under which licence they come.
import { html } from "../html.js";
import { ask } from "./api.js";
import { cardOf } from "./cards.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { Badge, Facts, bytes, count } from "./wording.js";

const CALM_MS = 15000;
const KINDS = {
  space: ["Spaces", "Where words and pictures are compared."],
  text_encoder: ["Text encoders", "They make vectors of words."],
  backbone: ["Image models", "They look at each picture once, when it is indexed."],
};
const BREAKERS = { closed: "answers", half_open: "is tried again", open: "is left alone" };

export function Models() {
  const from = useLoaded(load, [], () => CALM_MS);
  return html`
    <h1 tabindex="-1">Models</h1>
    <p class="quiet">The profile of the settings chooses them. To exchange one while people search, use <code>lodestone models swap</code>.</p>
    <${Loaded} from=${from}>${({ engines, cache, models }) => html`
      <h2>Generators</h2>
      <p class="quiet">They imagine a query: what they draw or take is searched by as well.</p>
      ${engines.length === 0 && html`<${Empty} title="No generators">Queries are answered by their words alone.<//>`}
      <ul class="cards pairs">${engines.map((engine) => html`<${Engine} key=${engine.name} engine=${engine} />`)}</ul>
      <${Cache} cache=${cache} />
      ${Object.entries(KINDS).map(([kind, [title, about]]) => html`
        <h2 key=${kind}>${title}</h2><p class="quiet">${about}</p>
        <ul class="cards pairs">${models.filter((model) => model.kind === kind).map((model) => html`<${Model} key=${model.id} model=${model} />`)}</ul>`)}`}
    <//>`;
}

async function load(signal) {
  const [{ engines, cache }, { data }] = await Promise.all([ask("/v1/generators", { signal }), ask("/v1/models", { signal })]);
  return { engines, cache, models: data };
}

function Engine({ engine }) {
  const state = engine.enabled ? engine.breaker : "off";
  return html`
    <li class="card">
      <h3><bdi>${engine.name}</bdi> <${Badge} state=${state}>${engine.enabled ? BREAKERS[engine.breaker] : "off"}<//></h3>
      <${Card} model=${{ kind: "generator", name: engine.name }} />
      <${Facts} of=${[
        ["Kind", engine.kind], ["Version", html`<code>${engine.version}</code>`], ["Turn", engine.priority], ["Cost of a picture", engine.cost || "none"],
        ["Time allowed", `${engine.timeout_s} s`], ["Guides since the start", engine.guides.toLocaleString("en")], ["Failures since the start", engine.failures.toLocaleString("en")],
      ]} />
      ${engine.last_error && html`<p class="note">Last error: ${engine.last_error}</p>`}
    </li>`;
}

function Cache({ cache }) {
  if (!cache.limit_bytes) return null;
  return html`<p class="quiet">Guides that are kept: ${count(cache.entries, "picture")}, ${bytes(cache.bytes)} of ${bytes(cache.limit_bytes)}.${cache.hits + cache.misses > 0 && ` ${Math.round(100 * cache.hit_rate)} % of those that were wanted were there.`}</p>`;
}

function Model({ model }) {
  return html`
    <li class="card">
      <h3><bdi>${model.name}</bdi></h3>
      <${Card} model=${model} />
      <${Facts} of=${[
        ["Version", html`<code>${model.version}</code>`], ["Dimensions", model.dim], ["Takes", model.takes.join(", ")], ["Collection", model.collection && html`<code>${model.collection}</code>`],
      ]} />
    </li>`;
}

function Card({ model }) {
  const { about, licence, limited } = cardOf(model);
  return html`${about && html`<p>${about}</p>`}<p class=${limited ? "note" : "quiet"}>Licence: ${licence}</p>`;
}
