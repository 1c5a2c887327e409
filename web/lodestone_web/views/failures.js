// Problems in words for people who search, by the code of the service; its own words unfold.
import { html, useRef } from "../html.js";
import { filesOf } from "../engine/uploads.js";
import { addFiles } from "../query/actions.js";
import { ask } from "../query/asking.js";
import { isPrivate } from "../query/draft.js";
import { asked, hits, problem } from "../query/store.js";

const PICTURES = {
  bad_image: ["This picture cannot be read", "The file may be damaged, or of a kind that cannot be read here."],
  image_too_large: ["This picture is too large", "It has more pixels or bytes than can be searched with."],
};
const OTHERS = {
  rate_limited: ["Too many searches at once", "Wait a moment, and try again."],
  overloaded: ["Too many searches at once", "Wait a moment, and try again."],
  deadline_exceeded: ["This took too long", "Try again, or ask for less."],
  unknown_name: ["This place is not here any more", "A collection or folder of the filters is unknown."],
  not_found: ["A picture of this search is not here any more", "Remove it from the search, and try again."],
};

/** Return `{title, text, ofPicture}` of a problem in plain words. */
export function plainFailure({ code, offline, status }, withUpload) {
  if (offline) return { title: "The service is out of reach", text: "The page asks again every few seconds, and goes on by itself.", ofPicture: false };
  const ofPicture = withUpload && (Object.hasOwn(PICTURES, code) || status === 413 || status === 415);
  const [title, text] = (ofPicture ? PICTURES[status === 413 ? "image_too_large" : code] ?? PICTURES.bad_image : OTHERS[code]) ?? ["This could not be answered", ""];
  return { title, text, ofPicture };
}

/** What stands in place of results that did not come, and what to do about it. */
export function Failure() {
  const { message, hint, code, offline, status } = problem.value;
  const draft = asked.value;
  const { title, text, ofPicture } = plainFailure(problem.value, isPrivate(draft));
  const passing = !ofPicture && (status < 400 || status >= 500 || status === 429); // the same question may be answered later
  return html`
    <section class="instead error" role="alert">
      ${ofPicture && html`<div class="broken" aria-hidden="true"></div>`}
      <h2>${title}</h2>
      <p>${text || message}</p>
      ${hits.value.length > 0 && html`<p class="quiet">The pictures below are what came before.</p>`}
      <p class="buttons">
        ${ofPicture && html`<${OtherPicture} />
          ${draft.text.trim() && html`<button type="button" class="button" onClick=${() => ask(withoutUploads(draft), { step: false })}>Search by the words alone</button>`}`}
        ${passing && html`<button type="button" class="button primary" onClick=${() => ask(draft, { step: false, address: false })}>Try again</button>`}
      </p>
      ${!offline && html`
        <details class="technical"><summary>Details</summary>
          <p>${message}</p>${hint && html`<p>Hint: ${hint}</p>`}${code && html`<p><code>${code}</code></p>`}</details>`}
    </section>`;
}

/** A button that takes another picture in the place of those that were sent. */
function OtherPicture() {
  const field = useRef(null);
  const choose = (event) => {
    const files = filesOf(event.target);
    event.target.value = "";
    if (files.length) addFiles(files, withoutUploads(asked.value));
  };
  return html`
    <button type="button" class="button primary" onClick=${() => field.current.click()}>Try another picture</button>
    <input ref=${field} class="hidden" type="file" accept="image/*" tabindex="-1" aria-hidden="true" onChange=${choose} />`;
}

function withoutUploads(draft) {
  return { ...draft, parts: draft.parts.filter((part) => part.kind !== "upload"), weights: {} };
}
