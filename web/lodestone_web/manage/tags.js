// Tags of pictures: what searches and people left on them, to look through, confirm and remove.
import { html, useState } from "../html.js";
import { withParams } from "../engine/lists.js";
import { SOURCES } from "../engine/tags.js";
import { Act, Confirmed, announce } from "./acting.js";
import { ask, changes } from "./api.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { filter, link, route } from "./router.js";
import { Badge, When, count } from "./wording.js";

const PAGE = 48;
const TEXTS = 200;

export function Tags() {
  const { text = "", source = "" } = route.value.params;
  return html`
    <h1 tabindex="-1">Tags</h1>
    <p class="quiet">Words on pictures help later searches. Those that a search left may be wrong: confirm what is right, remove what is not.</p>
    <${Filters} key=${text} text=${text} source=${source} />
    ${text ? html`<${Pictures} key=${text} text=${text} source=${source} />` : html`<${Texts} source=${source} />`}`;
}

/** The texts of all tags with their numbers of pictures; each leads to its pictures. */
function Texts({ source }) {
  const from = useLoaded((signal) => ask(withParams("/v1/tags/texts", { limit: TEXTS, source }), { signal }), [source]);
  return html`
    <${Loaded} from=${from}>${({ texts }) => html`
      ${texts.length === 0 && html`<${Empty} title="No tags">${source ? "No tag is like that." : "Searches leave some where they are sure, and you can add tags to a large picture."}<//>`}
      <ul class="texts" aria-label="Tags">${texts.map((one) => html`
        <li key=${one.text}><a class="button" href=${link("tags", "", { text: one.text, source })}><bdi>${one.text}</bdi> <span class="quiet">${one.pictures.toLocaleString("en")}</span>
          <span class="hidden">${one.pictures === 1 ? "picture" : "pictures"}</span></a></li>`)}</ul>
      ${texts.length === TEXTS && html`<p class="quiet">These are on most pictures. Others are found by their text.</p>`}`}
    <//>`;
}

/** The pictures of one tag. */
function Pictures({ text, source }) {
  const from = useLoaded((signal) => ask(withParams("/v1/tags", { limit: PAGE, text, source }), { signal }), [text, source]);
  return html`
    <p class="back"><a class="link" href=${link("tags", "", { source })}>All tags</a></p>
    <${Loaded} from=${from}>${(page) => html`
      ${page.tags.length === 0 && html`<${Empty} title="No tags">No picture has this tag.<//>`}
      <ul class="tiles">${page.tags.map((tag) => html`<${Tag} key=${tag.tag_id} tag=${tag} after=${from.refresh} />`)}</ul>
      <${Older} key=${`${text} ${source} ${changes.value} ${page.next_cursor}`} cursor=${page.next_cursor} params=${{ text, source }} />`}
    <//>`;
}

function Filters({ text, source }) {
  const [words, setWords] = useState(text);
  const submit = (event) => { event.preventDefault(); filter({ text: words.trim() }); };
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <label>Text of the tag<input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      <label>Source<select value=${source} onChange=${(event) => filter({ source: event.target.value })}>
        <option value="">any</option>${Object.entries(SOURCES).map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select></label>
      <button class="button">Find</button>
    </form>`;
}

function Older({ cursor, params }) {
  const [more, setMore] = useState({ tags: [], cursor });
  const load = async () => {
    const page = await ask(withParams("/v1/tags", { limit: PAGE, cursor: more.cursor, ...params }));
    setMore({ tags: [...more.tags, ...page.tags], cursor: page.next_cursor });
    announce(`${count(page.tags.length, "older tag")} below.`);
  };
  const drop = (tag) => () => setMore({ ...more, tags: more.tags.filter((one) => one !== tag) });
  return html`
    ${more.tags.length > 0 && html`<ul class="tiles">${more.tags.map((tag) => html`<${Tag} key=${tag.tag_id} tag=${tag} after=${drop(tag)} />`)}</ul>`}
    ${more.cursor && html`<p class="more"><${Act} work=${load}>Show older tags<//></p>`}`;
}

function Tag({ tag, after }) {
  const [damaged, setDamaged] = useState(false);
  const remove = () => ask(`/v1/tags/${encodeURIComponent(tag.tag_id)}`, { method: "DELETE" });
  const confirm = async () => {
    await ask("/v1/tags", { method: "POST", body: { image_ids: [tag.image_id], text: tag.text } });
    await remove(); // the one by hand takes its place
  };
  return html`
    <li class="card tile-card">
      <a class="thumb" href=${`./?${new URLSearchParams({ like: tag.image_id })}`} aria-label=${`Pictures like the one tagged ${tag.text}`}>
        ${damaged ? html`<span class="quiet">no thumbnail</span>` : html`<img src=${`v1/images/${encodeURIComponent(tag.image_id)}/thumbnail`} alt="" loading="lazy" onError=${() => setDamaged(true)} />`}
      </a>
      <h2><bdi>${tag.text}</bdi></h2>
      <p class="quiet"><${Badge} state=${tag.source}>${SOURCES[tag.source] ?? tag.source}<//></p>
      <p class="quiet"><${When} at=${tag.created_at} />${tag.score != null && `, score ${tag.score.toFixed(2)}`}</p>
      <div class="buttons">
        ${tag.source !== "user" && html`<${Act} kind="small" label=${`Confirm ${tag.text}`} work=${confirm} done=${`“${tag.text}” is confirmed.`} after=${after}>Confirm<//>`}
        <${Confirmed} kind="small danger" label=${`Remove ${tag.text}`} title="Remove this tag?" action="Remove it" work=${remove} done=${`“${tag.text}” was removed.`} after=${after}
          text=${`“${tag.text}” will not help to find this picture any more.`}>Remove …<//>
      </div>
    </li>`;
}
