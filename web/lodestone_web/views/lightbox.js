// One picture, large: moves by keyboard, zoom, what is known about it, why it is here, and what to do next with it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { may } from "../query/access.js";
import { addPicture, askLikeBut, askSimilar, loadMore } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { isBrowsing } from "../query/draft.js";
import { excess, MOST_CHARS } from "../query/limits.js";
import { closePicture, openPicture } from "../query/opening.js";
import { answer, asked, cropping, hits, judged, lone, moreProblem, opened, phase } from "../query/store.js";
import { Facts } from "./facts.js";
import { More, Thumbs } from "./grid.js";
import { TooLong } from "./limited.js";
import { DialogNotices } from "./notices.js";
import { fitting } from "./shown.js";
import { Why } from "./why.js";
import { Zoom } from "./zoom.js";

const AHEAD = 10; // pictures before the last one at which further ones are fetched

export function Lightbox() {
  const dialog = useRef(null);
  const index = hits.value.findIndex((other) => other.image_id === opened.value);
  const hit = hits.value[index] ?? (opened.value !== null && lone.value?.image_id === opened.value ? lone.value : undefined);

  useLayoutEffect(() => {
    if (hit && !dialog.current.open) dialog.current.showModal();
    if (!hit && dialog.current.open) dialog.current.close();
    if (hit && !dialog.current.contains(document.activeElement)) dialog.current.focus(); // what had it may be gone
  }, [hit]);

  useEffect(() => {
    if (index >= 0 && index >= hits.value.length - AHEAD && !moreProblem.value) loadMore();
  }, [hit, hits.value.length, phase.value]);

  const move = (step) => {
    const next = index < 0 ? undefined : hits.value[index + step];
    if (next) openPicture(next.image_id);
  };
  const onKeyDown = (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); move(step); }
  };
  return html`
    <dialog class="lightbox" ref=${dialog} tabindex="-1" aria-label="Picture" onKeyDown=${onKeyDown} onClose=${() => { if (opened.value !== null) closePicture(); }}
      onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
      ${hit && html`<${Shown} key=${hit.image_id} hit=${hit} index=${index} move=${move} close=${() => dialog.current.close()} />`}
      ${hit && cropping.value === null && html`<${DialogNotices} />`}
    </dialog>`;
}

function Shown({ hit, index, move, close }) {
  const alone = index < 0;
  const [whole, setWhole] = useState("loading");
  const path = `v1/images/${encodeURIComponent(hit.image_id)}`;
  const description = hit.captions[0] || hit.uri.split("/").pop();
  return html`
    <div class="stage">
      <${Zoom} move=${move}>
        <img class="preview" src=${hit.thumbnail.replace(/^\//, "")} alt="" style=${fitting(hit)} draggable=${false} hidden=${whole === "shown"} />
        ${whole !== "damaged" && html`<img class="whole" src=${`${path}/content`} alt=${description} width=${hit.width} height=${hit.height} style=${fitting(hit)} draggable=${false}
          hidden=${whole !== "shown"} onLoad=${() => setWhole("shown")} onError=${() => setWhole("damaged")} />`}
      <//>
      ${whole === "damaged" && html`<p class="note" role="status">The original cannot be shown here. This is its thumbnail.</p>`}
      <button type="button" class="move back" aria-label="Previous picture" aria-disabled=${index <= 0 ? "true" : "false"} onClick=${() => move(-1)}>‹</button>
      <button type="button" class="move on" aria-label="Next picture" aria-disabled=${alone || index === hits.value.length - 1 ? "true" : "false"} onClick=${() => move(1)}>›</button>
    </div>
    <aside class="facts">
      <header>
        <h2>${alone ? "One picture" : `${index + 1} of ${hits.value.length}`}</h2>
        <button type="button" class="close" aria-label="Close" onClick=${close}>×</button>
      </header>
      ${!alone && index === hits.value.length - 1 && html`<${More} />`}
      <p class="caption" dir="auto">${hit.captions[0]}</p>
      <${Next} hit=${hit} path=${path} />
      ${hit.copies > 0 && html`<p class="quiet">${hit.copies === 1 ? "One copy of it is" : `${hit.copies} copies of it are`} left out.${" "}
        <button type="button" class="link" onClick=${() => ask({ ...asked.value, copies: true }, { step: false })}>Show all copies</button></p>`}
      ${asked.value.text.trim() && !alone && may("feedback") && html`<p class="judge"><span>Right for “<bdi>${asked.value.text.trim()}</bdi>”?</span>
        <${Thumbs} hit=${hit} verdict=${judged.value.get(hit.image_id)} description=${description} /></p>`}
      <${Facts} hit=${hit} path=${path} />
      ${!alone && !isBrowsing(asked.value) && html`<${Why} hit=${hit} queryId=${hit.query_id ?? answer.value?.query_id} />`}
    </aside>`;
}

function Next({ hit, path }) {
  const [words, setWords] = useState("");
  const field = useRef(null);
  const tooLong = excess(words, MOST_CHARS) > 0;
  const but = (event) => {
    event.preventDefault();
    if (words.trim() && !tooLong) askLikeBut(hit, words.trim());
  };
  return html`
    <div class="next">
      <button type="button" class="button primary" onClick=${() => askSimilar(hit)}>Similar</button>
      <button type="button" class="button" onClick=${() => addPicture(hit)}>Add to query</button>
      <button type="button" class="button" onClick=${() => addPicture(hit, "unlike")}>Less like this</button>
      <button type="button" class="button" onClick=${() => { cropping.value = { hit }; }}>Search a region</button>
      <a class="button" href=${`${path}/content`} target="_blank" rel="noopener">Original</a>
      <a class="button" href=${`${path}/content`} download=${hit.uri.split("/").pop()}>Download</a>
    </div>
    <form class="but" onSubmit=${but}>
      <input ref=${field} value=${words} placeholder="like this, but … at night" aria-label="Like this picture, but"
        aria-invalid=${tooLong ? "true" : undefined} aria-describedby="but-limit" onInput=${(event) => setWords(event.target.value)} />
      <button class="button" disabled=${!words.trim() || tooLong}>Search</button>
      <${TooLong} id="but-limit" text=${words} most=${MOST_CHARS} shorten=${(text) => { setWords(text); field.current.focus(); }} />
    </form>`;
}
