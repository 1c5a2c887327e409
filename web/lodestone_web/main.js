// The search page's beginning: shows the application, and asks for what the address says.
import { effect, html, render } from "./html.js";
import { unlockByAddress } from "./engine/unlocked.js";
import { arrived } from "./query/addresses.js";
import { begin, openAddress } from "./query/asking.js";
import { isAsking, spoken } from "./query/draft.js";
import { asked, toast } from "./query/store.js";
import { App } from "./views/app.js";
import { applyTheme } from "./views/theme.js";

applyTheme();
effect(() => { document.title = isAsking(asked.value) ? `${spoken(asked.value)} – Lodestone` : "Lodestone"; });
addEventListener("popstate", () => { if (!arrived()) openAddress(); });
render(html`<${App} />`, document.getElementById("app"));
unlockByAddress().catch((error) => { toast.value = error.message; }).finally(begin);
