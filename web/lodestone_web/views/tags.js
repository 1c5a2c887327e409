// Tags of the large picture, with what left them; whoever may, adds and removes some.
import { html, useEffect, useRef, useState } from "../html.js";
import { toldOf } from "../engine/http.js";
import { SOURCES } from "../engine/tags.js";
import { excess, MOST_TAG_CHARS } from "../query/limits.js";
import { may } from "../query/access.js";
import { announcement, answer } from "../query/store.js";
import { addTag, removeTags, tagsOf } from "../query/tagging.js";
import { TooLong } from "./limited.js";

export function Tags({ hit }) {
  const [rows, setRows] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const stop = useRef(null);
  const field = useRef(null);
  const told = (error) => setTrouble(toldOf(error));

  const load = async () => {
    stop.current?.abort();
    const mine = (stop.current = new AbortController());
    try {
      const found = await tagsOf(hit.image_id, mine.signal);
      if (!mine.signal.aborted) setRows(found);
    } catch (error) {
      if (!mine.signal.aborted) told(error);
    }
  };
  useEffect(() => { load(); }, [hit.image_id, answer.value?.query_id]); // a thumb may have left one, and the page has asked again
  useEffect(() => () => stop.current?.abort(), []);

  /** Change something, then show what the service has; returns whether it was done. */
  const change = async (work) => {
    if (busy) return false;
    setBusy(true);
    setTrouble("");
    try {
      announcement.value = await work();
      return true;
    } catch (error) {
      told(error);
      return false;
    } finally {
      await load();
      setBusy(false);
    }
  };
  const remove = (row) => change(async () => {
    await removeTags(row.tags);
    field.current?.focus(); // the button that was pressed goes
    return `The tag ${row.text} was removed.`;
  });
  const add = (text) => change(async () => `The tag ${await addTag(hit.image_id, text)} was added.`);

  return html`
    <section class="tagged" aria-label="Tags" aria-busy=${busy ? "true" : "false"}>
      <h3>Tags</h3>
      ${rows?.length > 0 && html`<ul>${rows.map((row) => html`<${Row} key=${row.text} row=${row} remove=${may("feedback") && remove} busy=${busy} />`)}</ul>`}
      ${rows?.length === 0 && html`<p class="quiet">None yet.</p>`}
      ${trouble && html`<p class="note" role="alert">${trouble}${" "}
        ${rows === null && html`<button type="button" class="link" onClick=${() => { setTrouble(""); load(); }}>Try again</button>`}</p>`}
      ${may("feedback") ? html`<${Adder} add=${add} busy=${busy} field=${field} />` : html`<p class="quiet">Your key shows them, and does not change them.</p>`}
    </section>`;
}

function Row({ row, remove, busy }) {
  const sources = [...new Set(row.tags.map((tag) => tag.source))].map((source) => SOURCES[source] ?? source);
  const dates = row.tags.map((tag) => `${SOURCES[tag.source] ?? tag.source}: ${new Date(tag.created_at).toLocaleString()}`);
  return html`
    <li><span class="text"><bdi>${row.text}</bdi> <span class="quiet" title=${dates.join("\n")}>${sources.join(", ")}</span></span>
      ${remove && html`<button type="button" class="close" aria-disabled=${busy ? "true" : "false"} aria-label=${`Remove the tag ${row.text}`} title="Remove" onClick=${() => remove(row)}>×</button>`}</li>`;
}

function Adder({ add, busy, field }) {
  const [text, setText] = useState("");
  const tooLong = excess(text, MOST_TAG_CHARS) > 0;
  const submit = async (event) => {
    event.preventDefault();
    if (text.trim() && !tooLong && (await add(text.trim()))) setText("");
  };
  return html`
    <form class="but" onSubmit=${submit}>
      <input ref=${field} value=${text} placeholder="add a tag" aria-label="Tag to add" autocomplete="off" dir="auto"
        aria-invalid=${tooLong ? "true" : undefined} aria-describedby="tag-limit" onInput=${(event) => setText(event.target.value)} />
      <button class="button" disabled=${!text.trim() || tooLong} aria-disabled=${busy ? "true" : "false"}>Add</button>
      <${TooLong} id="tag-limit" text=${text} most=${MOST_TAG_CHARS} shorten=${(words) => { setText(words); field.current.focus(); }} />
    </form>`;
}
