// A writer of zip archives without compression (APPNOTE 6.3.10): pictures are compressed already.
//
// The archive is a blob made of the blobs that are put into it, so browsers keep large ones on disk. There is no zip64: an
// archive has less than 4 GiB and 65,535 files, and callers bound it further.

const UTF8_NAMES = 0x0800;
const VERSION = 20;
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069<>:"|?*]/g; // or refused by Windows
const DEVICE = /^(con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$)(?= *(?:\.|$))/i; // "con .jpg" is the console too
const MOST_PART = 240; // bytes of a file's or folder's name: file systems take 255, and a number may be added
const MOST_PATH = 3_800; // bytes; systems take about 4,000, and the archive 65,535
const LONGEST_ENDING = 16;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** Return the CRC-32 of a blob, which is read in pieces. */
export async function crc32(blob) {
  let crc = 0xffffffff;
  const reader = blob.stream().getReader();
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
    for (let at = 0; at < value.length; at += 1) crc = (crc >>> 8) ^ TABLE[(crc ^ value[at]) & 0xff];
  }
  return (crc ^ 0xffffffff) >>> 0;
}

export class ZipWriter {
  #parts = [];
  #entries = [];
  #names = new Set();
  #size = 0;

  /** Bytes so far. */
  get size() {
    return this.#size;
  }

  /** Add a file under a name, which gets a number where it is taken. */
  async add(name, blob, modified = new Date()) {
    const encoded = new TextEncoder().encode(this.#free(safeName(name)));
    const facts = [VERSION, UTF8_NAMES, 0, ...dosTime(modified)];
    const sizes = [await crc32(blob), blob.size, blob.size];
    this.#entries.push({ encoded, facts, sizes, offset: this.#size });
    this.#put(fields([4, 0x04034b50], ...facts.map((fact) => [2, fact]), ...sizes.map((size) => [4, size]), [2, encoded.length], [2, 0]));
    this.#put(encoded);
    this.#put(blob);
  }

  /** Return the archive. */
  finish() {
    const begin = this.#size;
    for (const { encoded, facts, sizes, offset } of this.#entries) {
      this.#put(fields(
        [4, 0x02014b50], [2, VERSION], ...facts.map((fact) => [2, fact]), ...sizes.map((size) => [4, size]),
        [2, encoded.length], [2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, offset],
      ));
      this.#put(encoded);
    }
    const count = this.#entries.length;
    this.#put(fields([4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, this.#size - begin], [4, begin], [2, 0]));
    return new Blob(this.#parts, { type: "application/zip" });
  }

  #put(part) {
    this.#parts.push(part);
    this.#size += part.size ?? part.length;
  }

  #free(name) {
    const dot = name.lastIndexOf(".") > name.lastIndexOf("/") + 1 ? name.lastIndexOf(".") : name.length;
    let free = name;
    for (let number = 2; this.#names.has(free.toLowerCase()); number += 1) free = `${name.slice(0, dot)} (${number})${name.slice(dot)}`;
    this.#names.add(free.toLowerCase()); // some file systems do not tell capitals from small letters
    return free;
  }
}

/** Return as much of a text as fits into that many bytes of UTF-8, in whole characters. */
function cut(text, bytes) {
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(bytes)).read);
}

/** Return a name of at most `MOST_PART` bytes; a long one keeps its ending. */
function shortened(part) {
  if (bytesOf(part) <= MOST_PART) return part;
  const dot = part.lastIndexOf(".");
  const ending = dot > 0 && part.length - dot <= LONGEST_ENDING ? part.slice(dot) : "";
  return cut(part.slice(0, part.length - ending.length), MOST_PART - bytesOf(ending)) + ending;
}

function bytesOf(text) {
  return new TextEncoder().encode(text).length;
}

/**
 * Return a path that stays inside the folder that it is unpacked in, on any system. Windows leaves dots and spaces at the end
 * of a name out, so `.. ` would be the folder above, and keeps some names for devices. Names that are too long are cut, and a
 * path that is too long loses its first folders.
 */
export function safeName(name) {
  const clean = (part) => shortened(part.replace(HIDDEN, "_")).replace(/[. ]+$/, "");
  const parts = name.split(/[\\/]/).map(clean).filter(Boolean).map((part) => part.replace(DEVICE, "_$&")).slice(-MOST_PATH / 2);
  while (parts.length > 1 && bytesOf(parts.join("/")) > MOST_PATH) parts.shift();
  return parts.join("/") || "unnamed";
}

function dosTime(date) {
  const year = Math.min(2107, Math.max(1980, date.getFullYear()));
  return [
    (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1),
    ((year - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate(),
  ];
}

/** Return `[bytes, number]` pairs as bytes, least significant first. */
function fields(...pairs) {
  const bytes = new Uint8Array(pairs.reduce((sum, [length]) => sum + length, 0));
  let at = 0;
  for (const [length, number] of pairs) {
    for (let byte = 0; byte < length; byte += 1) bytes[at + byte] = Math.floor(number / 2 ** (8 * byte)) & 0xff;
    at += length;
  }
  return bytes;
}
