// How a picture is named in words: its camera, its date and folder, and the most that it is enlarged to.

const MOST_ENLARGED = 2; // times its own pixels
const OF_FIRMS = /[\s,.]+(corporation|corp|company|co|ltd|inc|gmbh|imaging|ag|electronics|optical|digital|camera)\b\.?/gi;

/** Return make and model as people say them: a model that begins with its maker is not told twice. */
export function cameraName(make, model) {
  const [maker, name] = [make, model].map((text) => (text ?? "").trim().replace(/\s+/g, " "));
  if (!maker || !name) return maker || name;
  const short = maker.replace(OF_FIRMS, "").trim() || maker;
  const first = (text) => text.split(/[\s-]/)[0].toLowerCase();
  const makers = short.toLowerCase().split(/[\s-]/);
  return makers.includes(first(name)) ? name : `${short} ${name}`;
}

/** Return the day that the clock showed where a picture was taken, or the month or year where no more is known; "" for nothing. */
export function dayOf(picture) {
  const { taken_at: taken, utc_offset_minutes: offset, taken_local: local } = picture;
  if (!local) return taken ? inWords(localTime(taken, offset), { dateStyle: "long" }) : "";
  const [year, month, day] = local.slice(0, 10).split("-");
  const whole = new Date(`${year}-${month ?? "01"}-${day ?? "01"}T00:00:00Z`);
  return inWords(whole, day ? { dateStyle: "long" } : month ? { year: "numeric", month: "long" } : { year: "numeric" });
}

/** Return day and time of day, as far as they are known. */
export function clockOf(picture) {
  const { taken_at: taken, utc_offset_minutes: offset, taken_local: local } = picture;
  if (local && !local.includes("T")) return dayOf(picture);
  const shown = local ? new Date(`${local.slice(0, 19)}Z`) : taken && localTime(taken, offset);
  return shown ? shown.toLocaleString(undefined, { dateStyle: "long", timeStyle: "short", timeZone: "UTC" }) : "";
}

/** Return a moment whose UTC is what the clock showed where a picture was taken. */
function localTime(taken, offset) {
  return new Date(Date.parse(taken) + 60_000 * (offset ?? 0));
}

function inWords(date, style) {
  return date.toLocaleDateString(undefined, { ...style, timeZone: "UTC" });
}

/** Return the folder of a picture, with the indexed folder that it lies in. */
export function folderOf({ root, uri }) {
  return [root, ...uri.split("/").slice(0, -1)].filter(Boolean).join("/");
}

/** Return date and folder, as a hint says them. */
export function hintOf(picture) {
  return [dayOf(picture), folderOf(picture)].filter(Boolean).join("\n");
}

/** Return the style that keeps a picture from being enlarged to more than it has pixels for; none where its size is unknown. */
export function fitting({ width, height }) {
  return width > 0 && height > 0 ? { maxWidth: `${MOST_ENLARGED * width}px`, maxHeight: `${MOST_ENLARGED * height}px` } : {};
}
