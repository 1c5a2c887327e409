// The beginning of the management pages: shows them in the theme that was chosen.
import { html, render } from "../html.js";
import { applyTheme } from "../views/theme.js";
import { App } from "./app.js";

applyTheme();
render(html`<${App} />`, document.getElementById("app"));
