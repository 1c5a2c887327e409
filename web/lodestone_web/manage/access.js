// What is missing to do or see something, and how to get it: a key with a scope, or the token of this machine's user.
import { html, useState } from "../html.js";
import { toldOf } from "../engine/http.js";
import { signIn, signedIn, unlock } from "./api.js";

const ALLOWS = {
  search: "look at pictures, corpora and runs",
  feedback: "judge answers and tag pictures",
  index: "add, index and remove folders, and stop runs",
  admin: "manage keys",
};

/** Say which scope is missing. A service that asks for no keys wants the token of its own machine instead. */
export function Access({ problem, onDone }) {
  const keyless = problem.status === 401;
  return html`
    <section class="card access" role="alert">
      <h2>${keyless ? "Only this machine's user may do this" : html`Your key lacks the scope <code>${problem.scope}</code>`}</h2>
      <p>The scope <code>${problem.scope}</code> allows to ${ALLOWS[problem.scope] ?? "do this"}.
        ${keyless && ` Without keys, anybody on the service's machine may search, and its own user alone may do this.`}</p>
      ${keyless
        ? html`<${Secret} label="Token of this home" button="Unlock this tab" give=${unlock} onDone=${onDone}
            about=${html`<code>lodestone serve --open</code> unlocks the tab that it opens, without a token. The token is the member <code>token</code> of <code>service.json</code> in the home's folder, which only its owner can read. It stays in this tab, and nothing keeps it.`} />
            <p class="quiet">Or use the <code>lodestone</code> command there, or switch keys on (<code>serve.auth.keys</code>).</p>`
        : html`<${Secret} label="Another key" button="Use this key" give=${signIn} onDone=${onDone}
            about=${html`Whoever runs the service makes one: <code>lodestone keys create NAME <span class="whole">--scope ${problem.scope}</span></code>`} />`}
    </section>`;
}

/** The page of a service that asks for a key. */
export function SignIn() {
  return html`
    <section class="card access">
      <h1 tabindex="-1">This service asks for a key</h1>
      <p>Give it once. This browser then has a session of seven days, which scripts and other sites cannot use.</p>
      <${Secret} label="API key or token" button="Open" give=${signIn} about=${html`Whoever runs the service makes one: <code>lodestone keys create "my browser" <span class="whole">--scope admin</span></code>`} />
    </section>`;
}

function Secret({ label, button, about, give, onDone = () => undefined }) {
  const [text, setText] = useState("");
  const [refused, setRefused] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    setRefused("");
    try {
      await give(text);
      onDone();
    } catch (error) {
      setRefused(error.scope && !signedIn.value ? "This is not the token of the service that runs." : toldOf(error));
    }
  };
  return html`
    <form class="secret" onSubmit=${submit}>
      <label>${label}<input type="password" autocomplete="off" required value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <button class="button primary">${button}</button>
      <p class="note" role="alert" hidden=${!refused}>${refused}</p>
      <p class="quiet">${about}</p>
    </form>`;
}
