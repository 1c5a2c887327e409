// The search page's beginning: shows the application, and asks for what the address says.
import { effect, html, render } from "./html.js";
import { begin, openAddress } from "./query/asking.js";
import { isEmpty, spoken } from "./query/draft.js";
import { asked } from "./query/store.js";
import { App } from "./views/app.js";
import { applyTheme } from "./views/theme.js";

applyTheme();
effect(() => { document.title = isEmpty(asked.value) ? "Lodestone" : `${spoken(asked.value)} – Lodestone`; });
addEventListener("popstate", () => openAddress());
render(html`<${App} />`, document.getElementById("app"));
begin();
