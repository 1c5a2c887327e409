// Requests to the service, and its problems (RFC 9457) as errors.

export class Problem extends Error {
  /** An answer that is no success, or none at all (status 0). */
  constructor(status, { code = "", detail = "", hint = "", scope = "" } = {}) {
    super(detail || `The service answered with status ${status}.`);
    Object.assign(this, { status, code, hint, scope }); // scope: what the key lacks
  }

  /** Whether the service could not be reached. */
  get offline() {
    return this.status === 0;
  }
}

/** Send a request to the service; paths are relative, so that a prefix in front of the service is kept. */
export async function request(path, { headers = {}, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(path.replace(/^\//, ""), { credentials: "same-origin", headers, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "offline", detail: "The service does not answer." });
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

/** Ask for JSON. */
export async function getJson(path, options) {
  return (await request(path, options)).json();
}

/** Send JSON, and read JSON. */
export async function postJson(path, body, options = {}) {
  const headers = { "Content-Type": "application/json", ...options.headers };
  return (await request(path, { ...options, method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Return what an error says and what to do about it, in one line. */
export function toldOf({ message, hint }) {
  return hint ? `${message}${/[.!?]$/.test(message) ? "" : " –"} ${hint}` : message;
}

async function problemOf(answer) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // A proxy in front may answer with something else.
  }
  return new Problem(answer.status, told);
}
