// Which page the address names: `#/runs/ID?state=failed` is the page `runs`, of one run, with a filter.
import { signal } from "../html.js";

export const route = signal(read());

addEventListener("hashchange", () => { route.value = read(); });

/** Return the address of a page. */
export function link(page, id = "", params = {}) {
  const filled = Object.entries(params).filter(([, value]) => value !== "" && value != null);
  const query = filled.length ? `?${new URLSearchParams(filled)}` : "";
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${query}`;
}

/** Change the filters of the page that is shown; back goes to the ones before. */
export function filter(params) {
  const { page, id } = route.value;
  location.hash = link(page, id, { ...route.value.params, ...params });
}

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", id = ""] = path.split("/");
  return { page: page || "corpora", id: decoded(id), params: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
