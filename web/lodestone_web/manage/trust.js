// Trust that was learnt: how much each space counts for each kind of query.
import { html } from "../html.js";
import { ask } from "./api.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { Badge, When, count } from "./wording.js";

const EVENTS = 200;
const WIDTH = 120; // of a curve, in its own units
const HEIGHT = 24;
const NAMELESS = /^topic-[0-9a-f]{8}$/;

export function Trust() {
  const from = useLoaded(load);
  return html`
    <h1 tabindex="-1">Trust</h1>
    <p class="quiet">Thumbs on results teach which space is right for which kind of query. The line in the middle is 1, which is neutral.</p>
    <${Loaded} from=${from}>${({ topics, events }) => html`
      ${topics.length === 0 && html`<${Empty} title="Nothing is learnt yet"><a href="./">Search</a>, and say with the thumbs which pictures are right.<//>`}
      ${topics.map((topic) => html`<${Topic} key=${topic.topic} topic=${topic} events=${events.filter((event) => event.topic === topic.topic)} />`)}`}
    <//>`;
}

async function load(signal) {
  const [{ topics }, { events }] = await Promise.all([ask("/v1/trust", { signal }), ask(`/v1/trust/events?limit=${EVENTS}`, { signal }).catch(withoutHistory)]);
  return { topics, events };
}

/** The history is for those who see everybody's queries; the weights are for everybody. */
function withoutHistory(problem) {
  if (problem.status !== 403) throw problem;
  return { events: [] };
}

function Topic({ topic, events }) {
  const weights = Object.entries(topic.weights).sort(([, one], [, other]) => other - one);
  return html`
    <section class="card" aria-label=${`Topic ${topic.topic}`}>
      <div class="head"><h2 title=${topic.topic}><bdi>${nameOf(topic)}</bdi></h2><p class="quiet">${count(topic.queries, "query", "queries")}</p></div>
      ${topic.words.length > 0 && html`<p class="words">${topic.words.map((words) => html`<q key=${words}><bdi>${words}</bdi></q> `)}</p>`}
      <ul class="bars">${weights.map(([space, weight]) => html`
        <li key=${space}><span>${space}</span><${Weight} weight=${weight} /><b>${weight.toFixed(3)}</b><${Curve} values=${past(events, space)} /></li>`)}</ul>
      ${events.length > 0 && html`<details><summary>${count(events.length, "change")}</summary>
        <ol class="rows">${events.map((event) => html`<${Change} key=${event.event_id} event=${event} />`)}</ol></details>`}
    </section>`;
}

/** Return what people call a topic; one that nobody named is called by words that were asked. */
function nameOf({ topic, words }) {
  return NAMELESS.test(topic) && words.length ? `Searches like “${words[0]}”` : topic;
}

/** A bar from the middle, which is 1: to the left end, 0, or to the right end, 2 and more. */
function Weight({ weight }) {
  const end = Math.min(100, 50 * weight);
  const style = { insetInlineStart: `${Math.min(50, end)}%`, inlineSize: `${Math.abs(end - 50)}%` };
  return html`<span class="bar" aria-hidden="true"><span style=${style}></span></span>`;
}

/** Return a space's weights over the events, oldest first. */
function past(events, space) {
  const given = events.filter((event) => event.after[space] !== undefined).reverse();
  return given.length ? [given[0].before[space] ?? 1, ...given.map((event) => event.after[space])] : [];
}

/** Weights over time, on the scale of the bars: 1 is the line in the middle. The list of changes says the same in words. */
function Curve({ values }) {
  if (values.length < 2) return html`<span></span>`;
  const step = WIDTH / (values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(HEIGHT * (1 - Math.min(2, value) / 2)).toFixed(2)}`).join(" ");
  return html`
    <svg class="curve" viewBox=${`0 -1 ${WIDTH} ${HEIGHT + 2}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
      <path d=${`M0 ${HEIGHT / 2}H${WIDTH}`} /><polyline points=${points} />
    </svg>`;
}

function Change({ event }) {
  const moved = Object.keys(event.after).filter((space) => event.after[space] !== event.before[space]);
  return html`
    <li><p><${Badge} state=${event.kind} /> <${When} at=${event.created_at} />: ${
      moved.map((space) => `${space} ${(event.before[space] ?? 1).toFixed(3)} → ${event.after[space].toFixed(3)}`).join(", ") || "nothing had to change"}</p></li>`;
}
