// Whole lists of the service, which come in pages.

const PAGE = 200;
const LONGEST = 2000;

/** Return a whole list, page by page; `member` names it in each page, and `get(path)` asks for one. */
export async function wholeList(get, path, member) {
  const all = [];
  let cursor = null;
  do {
    const page = await get(withParams(path, { limit: PAGE, cursor }));
    all.push(...page[member]);
    cursor = page.next_cursor;
  } while (cursor && all.length < LONGEST);
  return all;
}

/** Return a path with parameters; those without a value are left out. */
export function withParams(path, params) {
  const filled = Object.entries(params).filter(([, value]) => value !== "" && value != null);
  return filled.length ? `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams(filled)}` : path;
}
