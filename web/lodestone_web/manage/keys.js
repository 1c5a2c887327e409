// API keys: who may use the service, and for what. A new key's secret is shown once.
import { html, useRef, useState } from "../html.js";
import { withParams } from "../engine/lists.js";
import { Act, Confirmed, Dialog, attempt } from "./acting.js";
import { ask } from "./api.js";
import { Empty, Loaded, useLoaded } from "./loading.js";
import { Badge, Facts, When } from "./wording.js";

const PAGE = 50;
const SCOPES = {
  search: "search, look at pictures, corpora and runs",
  feedback: "judge answers, tag pictures",
  index: "add, index and remove folders, stop runs",
  admin: "all of these, and keys",
};
const LIFETIMES = { "": "never", 7: "in a week", 30: "in a month", 90: "in three months", 365: "in a year" };
const OVERLAPS = { 0: "at once", 3600: "in an hour", 86400: "in a day", 604800: "in a week" };
const DAY_MS = 86_400_000;

export function Keys() {
  const [offset, setOffset] = useState(0);
  const [made, setMade] = useState(null);
  const from = useLoaded((signal) => ask(withParams("/v1/keys", { limit: PAGE, offset }), { signal }), [offset]);
  const take = async (created) => { setMade(created); await from.refresh(); };
  return html`
    <h1 tabindex="-1">Keys</h1>
    <p class="quiet">Whoever holds a key may use the service for what its scopes say. Keys count where <code>serve.auth.keys</code> is set.</p>
    <${Loaded} from=${from}>${(page) => html`
      <${Maker} take=${take} />
      ${page.keys.length === 0 && html`<${Empty} title="No keys">Make one above.<//>`}
      <ul class="cards">${page.keys.map((key) => html`<${Key} key=${key.key_id} given=${key} take=${take} after=${from.refresh} />`)}</ul>
      ${(offset > 0 || page.next_offset) && html`<nav class="pages" aria-label="Pages of keys">
        <button type="button" class="button small" disabled=${offset === 0} onClick=${() => setOffset(Math.max(0, offset - PAGE))}>Newer</button>
        <button type="button" class="button small" disabled=${!page.next_offset} onClick=${() => setOffset(page.next_offset)}>Older</button></nav>`}`}
    <//>
    ${made && html`<${Secret} made=${made} onClose=${() => setMade(null)} />`}`;
}

function Maker({ take }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(["search"]);
  const [corpora, setCorpora] = useState("");
  const [days, setDays] = useState("90");
  const [rate, setRate] = useState("");
  const toggle = (scope) => setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  const make = async (event) => {
    event.preventDefault();
    const names = corpora.split(",").map((one) => one.trim()).filter(Boolean);
    const body = {
      name: name.trim(), scopes, rate: rate.trim() || null, corpora: names.length ? names : null,
      expires_at: days ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : null,
    };
    let created = null;
    if (!(await attempt(async () => { created = await ask("/v1/keys", { method: "POST", body }); }))) return;
    setName("");
    await take(created);
  };
  return html`
    <details class="card adder">
      <summary>Make a key</summary>
      <form onSubmit=${make}>
        <label class="wide">What it is for<input required placeholder="photo app" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
        <fieldset class="wide"><legend>Scopes</legend>${Object.entries(SCOPES).map(([scope, allows]) => html`
          <label key=${scope} class="switch"><input type="checkbox" checked=${scopes.includes(scope)} onChange=${() => toggle(scope)} /><span><b>${scope}</b> <span class="quiet">${allows}</span></span></label>`)}</fieldset>
        <label>Corpora (empty: all)<input value=${corpora} placeholder="holidays, work" onInput=${(event) => setCorpora(event.target.value)} /></label>
        <label>Expires<select value=${days} onChange=${(event) => setDays(event.target.value)}>${Object.entries(LIFETIMES).sort(([one], [other]) => one - other).map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select></label>
        <label>Rate (empty: the service's)<input value=${rate} placeholder="600/minute" onInput=${(event) => setRate(event.target.value)} /></label>
        <button class="button primary" disabled=${scopes.length === 0}>Make the key</button>
      </form>
    </details>`;
}

function stateOf(key) {
  if (key.revoked_at) return "revoked";
  return key.expires_at && new Date(key.expires_at) < new Date() ? "expired" : "valid";
}

function Key({ given, take, after }) {
  const [overlap, setOverlap] = useState("3600");
  const path = `/v1/keys/${encodeURIComponent(given.key_id)}`;
  const state = stateOf(given);
  const rotate = async () => take(await ask(`${path}/rotate`, { method: "POST", body: { overlap_s: Number(overlap) } }));
  return html`
    <li class="card" aria-label=${`Key ${given.name}`}>
      <div class="head">
        <h2><bdi>${given.name}</bdi> <${Badge} state=${state} /></h2>
        ${state === "valid" && html`<div class="buttons">
          <label class="inline">Old one ends <select value=${overlap} onChange=${(event) => setOverlap(event.target.value)}>${Object.entries(OVERLAPS).map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select></label>
          <${Act} kind="small" label=${`Rotate ${given.name}`} work=${rotate}>Rotate<//>
          <${Confirmed} kind="small danger" label=${`Revoke ${given.name}`} title="Revoke this key?" action="Revoke it" work=${() => ask(path, { method: "DELETE" })}
            done=${`The key ${given.name} is revoked.`} after=${after} text=${`Whoever holds “${given.name}” is refused within five seconds. This cannot be taken back.`}>Revoke …<//>
        </div>`}
      </div>
      <${Facts} of=${[
        ["Id", html`<code>${given.key_id}</code>`], ["Scopes", given.scopes.join(", ")], ["Corpora", given.corpora ? given.corpora.join(", ") : "all"], ["Rate", given.rate],
        ["Made", html`<${When} at=${given.created_at} />`], ["Last used", html`<${When} at=${given.last_used_at} />`],
        [state === "expired" ? "Expired" : "Expires", html`<${When} at=${given.expires_at} />`], ["Revoked", given.revoked_at && html`<${When} at=${given.revoked_at} />`],
      ]} />
    </li>`;
}

/** The one time that a secret is shown. It leaves the page with this window. */
function Secret({ made, onClose }) {
  const field = useRef(null);
  const [said, setSaid] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made.secret);
      setSaid("The key is in the clipboard.");
    } catch {
      field.current.select();
      setSaid("The browser does not let this page copy. The key is selected: press Ctrl+C.");
    }
  };
  return html`
    <${Dialog} title="The new key" onClose=${onClose} closeable=${false}>
      <p>Copy it now. It is not shown again: the service keeps only its digest.</p>
      <label class="field-label">Key “${made.key.name}”<input ref=${field} class="secret-text" readonly value=${made.secret} onFocus=${(event) => event.target.select()} /></label>
      <p role="status">${said}</p>
      <p class="buttons"><button type="button" class="button primary" onClick=${copy}>Copy</button><button type="button" class="button" onClick=${onClose}>I have kept it</button></p>
    <//>`;
}
