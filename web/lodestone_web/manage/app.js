// The management pages as a whole: header, the list of pages, and the one that the address names.
import { html, useEffect, useRef } from "../html.js";
import { ThemeButton } from "../views/themebutton.js";
import { SignIn } from "./access.js";
import { Overlays, Toast, attempt } from "./acting.js";
import { locked, signOut, signedIn, token } from "./api.js";
import { Corpora } from "./corpora.js";
import { Keys } from "./keys.js";
import { Models } from "./models.js";
import { link, route } from "./router.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";
import { Settings } from "./settings.js";
import { Tags } from "./tags.js";
import { Trust } from "./trust.js";

const PAGES = {
  corpora: ["Corpora", Corpora],
  runs: ["Runs", Runs],
  tags: ["Tags", Tags],
  trust: ["Trust", Trust],
  models: ["Models", Models],
  keys: ["Keys", Keys],
  settings: ["Settings", Settings],
};

export function App() {
  const { page, id } = route.value;
  const [name, View] = Object.hasOwn(PAGES, page) ? PAGES[page] : ["Not here", Missing];
  const first = useRef(true);
  useEffect(() => {
    document.title = `${name} · Lodestone`;
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on phones
    if (first.current) first.current = false;
    else document.querySelector("main h1")?.focus();
  }, [page, id, locked.value]);
  return html`
    <a class="skip" href="#content" onClick=${toContent}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="./"><img src="docs/assets/icon.svg" alt="" width="28" height="28" /><span>Lodestone</span></a>
      <nav class="tabs" aria-label="Manage">
        ${Object.entries(PAGES).map(([key, [label]]) => html`<a key=${key} href=${link(key)} aria-current=${key === page ? "page" : undefined}>${label}</a>`)}
      </nav>
      <nav class="aside" aria-label="Page">
        <a class="link" href="./">Search</a>
        <a class="link" href="docs">API</a>
        ${(signedIn.value || token.value) && html`<button type="button" class="link" onClick=${() => attempt(signOut)}>${token.value ? "Lock" : "Sign out"}</button>`}
        <${ThemeButton} />
      </nav>
      <${Toast} />
    </header>
    <main id="content" tabindex="-1" data-page=${page}>
      ${locked.value ? html`<${SignIn} />` : page === "runs" && id ? html`<${Run} key=${id} id=${id} />` : html`<${View} />`}
    </main>
    <${Overlays} />`;
}

function toContent(event) {
  event.preventDefault(); // the address names the page
  document.getElementById("content").focus();
}

function Missing() {
  return html`<h1 tabindex="-1">There is no such page</h1><p><a href=${link("corpora")}>Corpora</a> is one.</p>`;
}
