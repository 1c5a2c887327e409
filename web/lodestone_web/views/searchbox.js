// The search box: words, history, pictures to add, and the switch for words only.
import { html, useEffect, useRef, useState } from "../html.js";
import { filesOf } from "../engine/uploads.js";
import { addFiles, askWords, askWritten } from "../query/actions.js";
import { forget, history } from "../query/history.js";
import { excess, MOST_CHARS } from "../query/limits.js";
import { draft } from "../query/store.js";
import { Lens, Picture } from "./icons.js";
import { TooLong } from "./limited.js";
import { narrow } from "./narrow.js";
import { WordsOnly } from "./wordsonly.js";

const MOST_SHOWN = 8;

export function SearchBox() {
  const input = useRef(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const text = draft.value.text;
  const entries = history.value.filter((entry) => entry !== text && entry.toLowerCase().startsWith(text.toLowerCase())).slice(0, MOST_SHOWN);
  const shown = open && entries.length > 0;
  const tooLong = excess(text, MOST_CHARS) > 0;

  useEffect(() => {
    const focus = (event) => {
      const typing = event.target.closest?.("input, textarea, select, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.select();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);

  const close = () => { setOpen(false); setAt(-1); };
  const leave = (event) => { if (!event.relatedTarget?.closest?.(".past")) close(); };
  const submit = (event) => {
    event.preventDefault();
    close();
    if (at >= 0 && shown) askWords(entries[at]);
    else askWritten();
    if (!tooLong) input.current?.blur(); // the note below says what can be done
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || entries.length === 0) return;
    event.preventDefault();
    setOpen(true);
    setAt((at + step + entries.length + 1 + 1) % (entries.length + 1) - 1);
  };

  const write = (words) => { draft.value = { ...draft.value, text: words, withoutGuides: [] }; };
  const shorten = (words) => { write(words); input.current?.focus(); };

  return html`
    <form class="searchbox" role="search" onSubmit=${submit}>
      <div class="field">
        <input ref=${input} type="text" name="q" value=${text} autocomplete="off" spellcheck="false" dir="auto"
          enterkeyhint="search" placeholder="Describe a picture" aria-label="What the picture shows"
          role="combobox" aria-expanded=${shown ? "true" : "false"} aria-controls="history" aria-autocomplete="list"
          aria-activedescendant=${shown && at >= 0 ? `history-${at}` : undefined}
          aria-invalid=${tooLong ? "true" : undefined} aria-describedby="words-limit"
          onInput=${(event) => { write(event.target.value); setOpen(true); setAt(-1); }}
          onFocus=${() => setOpen(true)} onBlur=${leave} onKeyDown=${onKeyDown} />
        <label class="button quiet" title="Search with a picture of yours">
          <${Picture} /><span class="hidden">Add a picture</span>
          <input class="hidden" type="file" accept="image/*" multiple
            onChange=${(event) => { addFiles(filesOf(event.target)); event.target.value = ""; }} />
        </label>
        <button class="button primary"><${Lens} /><span class="word">Search</span></button>
        <div class="past" hidden=${!shown}>
          <ul class="history" id="history" role="listbox" aria-label="Earlier searches">
            ${shown && entries.map((entry, index) => html`
              <li key=${entry} id=${`history-${index}`} role="option" aria-selected=${index === at ? "true" : "false"}
                onMouseDown=${(event) => { event.preventDefault(); close(); askWords(entry); }}><bdi>${entry}</bdi></li>`)}
          </ul>
          <button type="button" class="link" onMouseDown=${(event) => event.preventDefault()} onBlur=${leave} onClick=${() => { forget(); close(); }}>Clear history</button>
        </div>
      </div>
      ${!narrow.value && html`<div class="switches"><${WordsOnly} /></div>`}
      <${TooLong} id="words-limit" text=${text} most=${MOST_CHARS} shorten=${shorten} />
    </form>`;
}
