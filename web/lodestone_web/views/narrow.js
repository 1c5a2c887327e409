// Whether the page is as narrow as on a phone: some parts then stand elsewhere, or unfold.
import { signal } from "../html.js";

const query = matchMedia("(max-width: 720px)"); // the same as in the styles

export const narrow = signal(query.matches);

query.addEventListener("change", () => { narrow.value = query.matches; });
