// Sets of a query (`match` of the request): what each says, and the sets without one of them.

const BETWEEN = { all: " and ", any: " or ", none: ", not " };

/** Return whether words or a picture in the sets rank pictures. */
export function ranks(sets) {
  return sets !== null && (sets.words ?? sets.like ?? Object.keys(BETWEEN).some((name) => sets[name]?.some(ranks))) !== false;
}

/** Return the members that hold together, one each for what does not hold. */
export function members(sets) {
  return !sets ? [] : (sets.all ?? [sets]).flatMap((member) => member.none?.map((one) => ({ none: [one] })) ?? [member]);
}

/** Return the sets without a member. */
export function without(sets, member) {
  const left = members(sets).filter((other) => JSON.stringify(other) !== JSON.stringify(member));
  return left.length > 1 ? { all: left } : left[0] ?? null;
}

/** Return in words what a member asks for. */
export function saidMember(member) {
  const [[name, value]] = Object.entries(member);
  if (BETWEEN[name]) return `${name === "none" ? "not " : ""}(${value.map(saidMember).join(BETWEEN[name])})`;
  if (name === "words") return `“${value}”`;
  if (name === "like") return "like a picture";
  if (name === "filters") return saidFilters(value);
  return `${name.replaceAll("_", " ")} ${value}`;
}

/** Return what filters ask for: in photos, in the folder 2024/summer, since 2024-01-01. */
export function saidFilters({ corpora = [], roots = [], path_prefix: folder, taken_from: from, taken_to: before, where = [] }) {
  return [
    ...[...corpora, ...roots].map((name) => `in ${name}`),
    folder && `in the folder ${folder}`, from && `since ${from.slice(0, 10)}`, before && `before ${before.slice(0, 10)}`,
    ...(Array.isArray(where) ? where.map((text) => text.replace("=", " ")) : Object.entries(where).map(([name, values]) => `${name} ${values.join(" or ")}`)),
  ].filter(Boolean).join(", ");
}
