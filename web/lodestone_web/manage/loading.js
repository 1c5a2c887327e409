// What a page shows of a request: its progress, its answer, its problem. Answers that change are asked for again.
import { html, useEffect, useRef, useState } from "../html.js";
import { changes } from "./api.js";
import { Access } from "./access.js";

const OFFLINE_MS = 3000;
const TROUBLE_MS = 10000; // too many requests, a catalog that does not answer: it may pass
const HIDDEN_MS = 1000;

/**
 * Ask when the page opens and when `deps` change, and again after `every(answer)` milliseconds (0: not again).
 *
 * @returns {{data, problem, refresh}} the newest answer, what went wrong since, and how to ask at once
 */
export function useLoaded(load, deps = [], every = () => 0) {
  const [state, setState] = useState({ data: null, problem: null });
  const again = useRef(async () => undefined);
  useEffect(() => {
    const stop = new AbortController();
    let turn = 0;
    let timer = 0;
    const run = async () => {
      const mine = (turn += 1);
      clearTimeout(timer);
      let next;
      try {
        const data = await load(stop.signal);
        next = { data, problem: null };
      } catch (problem) {
        next = { problem };
      }
      if (stop.signal.aborted || mine !== turn) return;
      setState((before) => ({ data: before.data, ...next }));
      const wait = next.problem ? afterProblem(next.problem) : every(next.data);
      if (wait) timer = setTimeout(tick, wait);
    };
    const tick = () => {
      if (document.hidden) timer = setTimeout(tick, HIDDEN_MS);
      else run();
    };
    again.current = run;
    setState({ data: null, problem: null });
    run();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [...deps, changes.value]);
  return { ...state, refresh: () => again.current() };
}

function afterProblem({ offline, status }) {
  if (offline) return OFFLINE_MS;
  return status === 429 || status >= 500 ? TROUBLE_MS : 0;
}

/** Show `children(answer)`, or what stands in its place: lines while it loads, or why there is none. */
export function Loaded({ from, children }) {
  const { data, problem, refresh } = from;
  if (problem && !data) return html`<${Failure} problem=${problem} onRetry=${refresh} />`;
  if (!data) return html`<div class="lines" aria-hidden="true"><span></span><span></span><span></span></div><p class="hidden" role="status">Loading …</p>`;
  return html`
    ${problem && html`<p class="note" role="status">${problem.offline ? "The service does not answer. The page asks again every few seconds." : `Not up to date: ${problem.message}`}</p>`}
    ${children(data)}`;
}

/** Why something cannot be shown, and what to do about it. */
export function Failure({ problem, onRetry }) {
  if (problem.scope) return html`<${Access} problem=${problem} />`;
  return html`
    <section class="card error" role="alert">
      <h2>${problem.offline ? "The service is out of reach" : "This cannot be shown"}</h2>
      <p>${problem.message}</p>
      ${problem.hint && html`<p class="quiet">Hint: ${problem.hint}</p>`}
      <p><button type="button" class="button" onClick=${onRetry}>Try again</button> ${problem.code && html`<code class="quiet">${problem.code}</code>`}</p>
    </section>`;
}

/** A list without entries. */
export function Empty({ title, children }) {
  return html`<section class="card empty"><h2>${title}</h2><p class="quiet">${children}</p></section>`;
}
