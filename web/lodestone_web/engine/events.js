// Server-sent events over fetch: parsed as they come, and resumed where the connection broke.
import { Problem, request } from "./http.js";

const ATTEMPTS = 4;
const PAUSE_MS = 400;
const BROKEN = "broken_stream";

/** Return a function that takes pieces of a stream and returns the whole events in them. */
export function eventParser() {
  let rest = "";
  return (text) => {
    rest += text.replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    return blocks.map(parsed).filter((event) => event.data !== "");
  };
}

function parsed(block) {
  const event = { id: "", type: "message", data: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at === 0) continue; // a comment keeps the connection open
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "id") event.id = value;
    if (name === "event") event.type = value;
    if (name === "data") event.data += (event.data ? "\n" : "") + value;
  }
  return event;
}

/** Search, and call `onEvent` with each event's message until `done`; a broken connection is taken up again. */
export async function streamSearch(body, { signal, onEvent, onBroken = () => {} }) {
  let last = "";
  let ended = false;
  const take = (event) => {
    last = event.id || last;
    const message = JSON.parse(event.data);
    if (message.type === "error") throw new Problem(message.problem.status ?? 500, message.problem);
    ended ||= message.type === "done";
    onEvent(message);
  };
  for (let attempt = 0; !ended; attempt += 1) {
    try {
      const answer = await (last ? resumed(last, signal) : begun(body, signal));
      if (answer.status === 204) return;
      await read(answer, take);
      if (!ended && attempt + 1 >= ATTEMPTS) throw broken();
    } catch (error) {
      if (error instanceof Problem && error.status === 404 && last !== "" && attempt + 1 < ATTEMPTS) {
        last = ""; // a service that began anew does not know the stream: ask from the start
        continue;
      }
      const lost = error instanceof Problem && error.offline && (error.code === BROKEN || last !== "");
      if (!lost || attempt + 1 >= ATTEMPTS) throw lost ? broken() : error;
      onBroken(attempt + 1);
    }
    if (!ended) await pause(PAUSE_MS * 2 ** attempt, signal);
  }
}

function begun(body, signal) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
  return request("/v1/search/stream", { method: "POST", headers, body: JSON.stringify(body), signal });
}

function resumed(last, signal) {
  const query = last.slice(0, last.lastIndexOf("."));
  return request(`/v1/search/stream/${query}`, { headers: { "Last-Event-ID": last, Accept: "text/event-stream" }, signal });
}

async function read(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = eventParser();
  for (;;) {
    const { value, done } = await reader.read().catch((error) => { throw error.name === "AbortError" ? error : broken(); });
    if (done) return;
    for (const event of parse(value)) take(event);
  }
}

function broken() {
  return new Problem(0, { code: BROKEN, detail: "The connection broke before the answer was whole." });
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    });
  });
}
