// Pictures of the user: read from files, made small enough to send, and shown as thumbnails.

const LONGEST_SIDE = 1024; // more than any model of the engine reads
const ENOUGH_BYTES = 400_000;
const TAIL_BYTES = 65_536; // among which the mark at the end of a whole picture is; cameras write a little behind it
const ENDS = [[[0xff, 0xd8, 0xff], [0xff, 0xd9]], [[0x89, 0x50, 0x4e, 0x47], [0x49, 0x45, 0x4e, 0x44]]]; // of JPEG and PNG: how a file begins, and its mark
export const MOST_BYTES = 60 * 2 ** 20;

/** Return the files that were dropped, pasted or chosen. */
export function filesOf(transfer) {
  return [...(transfer?.files ?? [])];
}

/**
 * Return `{blob, url, name}` of a file; large pictures are reduced. What the browser cannot read is sent as it is, also files
 * whose kind it does not know: the service reads HEIC and RAW. So are pictures that end early, which a browser shows in part
 * without a word: the service says how much of them there is.
 */
export async function prepared(file) {
  if (file.type && !file.type.startsWith("image/")) throw new TypeError(`“${file.name}” is not a picture.`);
  if (file.size > MOST_BYTES) {
    throw new RangeError(`“${file.name}” has ${Math.round(file.size / 2 ** 20)} MB. Pictures of up to 60 MB can be used.`);
  }
  const blob = file.size <= ENOUGH_BYTES || await endsEarly(file) ? file : await reduced(file).catch(() => file);
  return { blob, url: URL.createObjectURL(blob), name: file.name || "pasted picture" };
}

/** Whether a JPEG or a PNG lacks the mark at its end. */
async function endsEarly(file) {
  const bytesOf = async (part) => new Uint8Array(await part.arrayBuffer());
  const head = await bytesOf(file.slice(0, 4));
  const mark = ENDS.find(([start]) => start.every((byte, at) => head[at] === byte))?.[1];
  if (!mark) return false;
  const tail = await bytesOf(file.slice(-TAIL_BYTES));
  return !tail.some((_, from) => mark.every((byte, at) => tail[from + at] === byte));
}

/** Return a region {x, y, w, h} of a picture as a picture of its own. */
export function cutOut(blob, region) {
  return reduced(blob, region);
}

async function reduced(file, { x, y, w, h } = { x: 0, y: 0, w: 1, h: 1 }) {
  const whole = await createImageBitmap(file, { imageOrientation: "from-image" });
  const [left, top, width, height] = [x * whole.width, y * whole.height, w * whole.width, h * whole.height];
  const scale = Math.min(1, LONGEST_SIDE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").drawImage(whole, left, top, width, height, 0, 0, canvas.width, canvas.height);
  whole.close();
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/jpeg", 0.9);
  });
}
