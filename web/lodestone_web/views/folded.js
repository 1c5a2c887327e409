// A part of the line above the pictures that unfolds at the lower edge of a narrow page, where pictures come first.
import { html, useEffect, useRef, useState } from "../html.js";

/** A button with a `label`; `children` show until a press elsewhere, Escape, or a press of one of their buttons. */
export function Folded({ label, children }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    const elsewhere = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", elsewhere);
    return () => removeEventListener("pointerdown", elsewhere);
  }, [open]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation();
    setOpen(false);
    box.current.querySelector("button").focus();
  };
  const pressed = (event) => { if (event.target.closest("button")) setOpen(false); };
  return html`
    <div class="folded" ref=${box} onKeyDown=${onKeyDown}>
      <button type="button" class="button small" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${label}</button>
      ${open && html`<div class="sheet" onClick=${pressed}>${children}</div>`}
    </div>`;
}
