// Sets of a query (`match` of the request) as the page shows them: what each says, and the sets without one of them.

const LISTS = ["all", "any", "none"];

/** Return whether something in the sets ranks pictures: words, or an indexed picture. */
export function ranks(sets) {
  if (!sets) return false;
  return sets.words !== undefined || sets.like !== undefined || LISTS.some((name) => (sets[name] ?? []).some(ranks));
}

/** Return the members that hold together, each of which can be taken away; what does not hold is one member each. */
export function members(sets) {
  if (!sets) return [];
  const together = Array.isArray(sets.all) ? sets.all : [sets];
  return together.flatMap((member) => (Array.isArray(member?.none) ? member.none.map((one) => ({ none: [one] })) : [member]));
}

/** Return the sets without a member; null if none is left. */
export function without(sets, member) {
  const left = members(sets).filter((other) => JSON.stringify(other) !== JSON.stringify(member));
  return left.length > 1 ? { all: left } : left[0] ?? null;
}

/** Return in words what each member asks for. */
export function saidSets(sets) {
  return members(sets).map(saidMember);
}

/** Return in words what a member asks for: “a dog” or “a cat”; not tagged blurry; in the folder 2024/summer. */
export function saidMember(member) {
  const [[name, value] = ["", null]] = Object.entries(member ?? {});
  if (name === "all") return listed(value, " and ");
  if (name === "any") return listed(value, " or ");
  if (name === "none") return `not ${listed(value, ", nor ")}`;
  if (name === "words") return `“${value}”`;
  if (name === "like") return "like a picture";
  if (name === "images") return `${value.length} ${value.length === 1 ? "picture" : "pictures"} of a set`;
  if (name === "filters") return saidFilters(value);
  return `${name.replaceAll("_", " ")} ${value}`;
}

function listed(parts, between) {
  const said = (Array.isArray(parts) ? parts : []).map((part) => (LISTS.some((name) => part?.[name]) ? `(${saidMember(part)})` : saidMember(part)));
  return said.join(between);
}

function saidFilters({ corpora = [], roots = [], path_prefix: folder, taken_from: from, taken_to: before }) {
  const places = [...corpora, ...roots].map((name) => `in ${name}`);
  if (folder) places.push(`in the folder ${folder}`);
  if (from) places.push(`since ${from.slice(0, 10)}`);
  if (before) places.push(`before ${before.slice(0, 10)}`);
  return places.join(", ") || "anywhere";
}
