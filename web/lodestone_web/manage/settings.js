// The state of the service and how it is set up, to look at; settings are changed in lodestone.toml.
import { html } from "../html.js";
import { ask, signedIn, token } from "./api.js";
import { Loaded, useLoaded } from "./loading.js";
import { Badge, Facts, Table, When } from "./wording.js";

const CALM_MS = 10000;

export function Settings() {
  const from = useLoaded((signal) => ask("/v1/status", { signal }), [], () => CALM_MS);
  return html`
    <h1 tabindex="-1">Settings</h1>
    <p class="quiet">Settings stand in <code>lodestone.toml</code> in the home's folder. <code>lodestone config show</code> lists all of them with their sources.</p>
    <${Loaded} from=${from}>${(status) => html`
      <section class="card" aria-label="The service">
        <h2>The service <${Badge} state=${status.ready ? "ok" : "not answering"}>${status.ready ? "ready" : "not ready"}<//></h2>
        <${Facts} of=${[
          ["Version", status.version], ["Profile", status.profile], ["Runs since", html`<${When} at=${status.started_at} />`],
          ["Pictures that can be found", status.images.toLocaleString("en")],
          ["You", token.value ? "this machine's user, in this tab" : signedIn.value ? "signed in with a key" : "nobody in particular: no key is asked for"],
        ]} />
        <${Table} label="Parts of the service" head=${["Part", "State", "Answered in", ""]}
          rows=${Object.entries(status.checks).map(([name, check]) => ({
            key: name, cells: [name, html`<${Badge} state=${check.ok ? "ok" : "not answering"} />`, `${check.milliseconds.toFixed(1)} ms`, check.detail],
          }))} />
        ${Object.entries(status.idle).map(([part, why]) => html`<p class="note" key=${part}>${part} is switched on, and does nothing here: ${why}</p>`)}
      </section>`}
    <//>`;
}
