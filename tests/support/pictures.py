"""Pictures that the tests use: small real files of every format, written on the spot, and every kind of broken one.

Everything is seeded and written to the caller's folder. `write_every_format` and `write_bad_files` give whole sets by name.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms, ImageDraw

SIZE = (120, 80)

# Quadrants of the orientation pattern, upright: top left, top right, bottom left, bottom right.
RED, GREEN, BLUE, YELLOW = (230, 20, 20), (20, 200, 20), (20, 20, 230), (230, 220, 20)
QUADRANTS = (RED, GREEN, BLUE, YELLOW)

_ORIENTATION_TAG = 0x0112


def photo(size: tuple[int, int] = SIZE, *, seed: int = 0) -> Image.Image:
    """A picture with the statistics of a photo, roughly: smooth fields, a few shapes, a little grain. Mode "RGB"."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = (int(rng.integers(0, side)) for side in size)
        radius = int(rng.integers(1, max(2, min(size) // 4)))
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tuple(int(c) for c in rng.integers(0, 256, 3)))
    grain = rng.normal(0, 4, (size[1], size[0], 1))
    return Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8))


def write_photo(path: Path, *, size: tuple[int, int] = SIZE, seed: int = 0, **save: object) -> Path:
    """Write `photo` in the format of the path's extension (JPEG at quality 90 unless told otherwise)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"quality": 90, **save} if path.suffix.lower() in {".jpg", ".jpeg"} else save
    photo(size, seed=seed).save(path, **options)  # type: ignore[arg-type]
    return path


def write_photos(folder: Path, count: int, *, size: tuple[int, int] = SIZE) -> list[Path]:
    """Write `count` different JPEGs, 000000.jpg onwards."""
    return [write_photo(folder / f"{i:06}.jpg", size=size, seed=i) for i in range(count)]


def jpeg_bytes(size: tuple[int, int] = SIZE, *, seed: int = 0, quality: int = 90, **save: object) -> bytes:
    return encoded(photo(size, seed=seed), "JPEG", quality=quality, **save)


def encoded(image: Image.Image, format_name: str, **save: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_name, **save)  # type: ignore[arg-type]
    return buffer.getvalue()


def write_heic(path: Path, *, size: tuple[int, int] = SIZE, seed: int = 0) -> Path:
    import pillow_heif

    pillow_heif.from_pillow(photo(size, seed=seed)).save(path, format="HEIF", quality=90)
    return path


def gradient_16_bit(size: tuple[int, int] = (256, 64)) -> Image.Image:
    """Mode "I;16": from 0 on the left to 65535 on the right. Clipped to 8 bits it would be all but white."""
    row = np.linspace(0, 65535, size[0]).astype(np.uint16)
    return Image.fromarray(np.tile(row, (size[1], 1)))


def orientation_pattern(size: tuple[int, int] = (96, 64)) -> Image.Image:
    """Upright picture with one colour of `QUADRANTS` in each quadrant."""
    width, height = size
    image = Image.new("RGB", size)
    for i, colour in enumerate(QUADRANTS):
        image.paste(colour, (i % 2 * width // 2, i // 2 * height // 2, (i % 2 + 1) * width // 2, (i // 2 + 1) * height // 2))
    return image


def quadrants_of(image: Image.Image) -> list[tuple[int, int, int]]:
    """The nearest colour of `QUADRANTS` in the middle of each quadrant of an RGB picture."""
    width, height = image.size
    middles = [(width * x // 4, height * y // 4) for y in (1, 3) for x in (1, 3)]
    return [min(QUADRANTS, key=lambda c: sum(abs(a - b) for a, b in zip(c, image.getpixel(m), strict=True))) for m in middles]


def stored_for_orientation(upright: Image.Image, orientation: int) -> Image.Image:
    """The pixels a camera would store so that EXIF `orientation` makes them `upright`."""
    method = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }.get(orientation)
    return upright if method is None else upright.transpose(method)


def oriented_bytes(orientation: int, *, format_name: str = "JPEG") -> bytes:
    """`orientation_pattern`, stored turned, with the EXIF orientation that turns it back."""
    exif = Image.Exif()
    exif[_ORIENTATION_TAG] = orientation
    lossless = {"quality": 95} if format_name == "JPEG" else {"lossless": True} if format_name == "WEBP" else {}
    return encoded(stored_for_orientation(orientation_pattern(), orientation), format_name, exif=exif, **lossless)


def animated_bytes(format_name: str) -> bytes:
    """Three frames: red, green, blue."""
    frames = [Image.new("RGB", (40, 30), colour) for colour in (RED, GREEN, BLUE)]
    return encoded(frames[0], format_name, save_all=True, append_images=frames[1:], duration=100)


def cmyk_jpeg_bytes(*, profile: bytes | None = None) -> bytes:
    """A CMYK JPEG of a plain orange."""
    image = Image.new("RGB", (64, 48), (240, 140, 20)).convert("CMYK")
    return encoded(image, "JPEG", quality=95, **({"icc_profile": profile} if profile else {}))


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def wide_gamut_profile() -> bytes:
    """An RGB profile that is not sRGB: sRGB's own with red and blue exchanged, and another name of the same length."""
    profile = bytearray(srgb_profile())
    tags = {bytes(profile[i : i + 4]): i for i in range(132, 132 + 12 * int.from_bytes(profile[128:132], "big"), 12)}
    red, blue = tags[b"rXYZ"] + 4, tags[b"bXYZ"] + 4
    profile[red : red + 8], profile[blue : blue + 8] = profile[blue : blue + 8], profile[red : red + 8]
    return bytes(profile).replace("sRGB".encode("utf-16-be"), "wide".encode("utf-16-be")).replace(b"sRGB", b"wide")


def xmp_packet(*, description: str = "", body: str = "") -> bytes:
    """An XMP packet with a dc:description; `body` is further XML inside rdf:Description."""
    text = (
        f'<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{description}</rdf:li></rdf:Alt></dc:description>'
        if description
        else ""
    )
    return (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" '
        f'xmlns:exif="http://ns.adobe.com/exif/1.0/">{text}{body}</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
    ).encode()


def iptc_record(*captions: str, encoding: str = "utf-8", declared: bool = True) -> bytes:
    """An IPTC-IIM record of captions (2:120), declared as UTF-8 or not."""
    charset = b"\x1c\x01\x5a\x00\x03\x1b%G" if declared else b""
    sets = (
        b"\x1c\x02\x78" + len(text).to_bytes(2, "big") + text for text in (caption.encode(encoding) for caption in captions)
    )
    return charset + b"".join(sets)


def with_iptc(jpeg: bytes, record: bytes) -> bytes:
    """A JPEG with the record in its Photoshop segment (APP13)."""
    resource = b"8BIM\x04\x04\0\0" + len(record).to_bytes(4, "big") + record + b"\0" * (len(record) % 2)
    segment = b"Photoshop 3.0\0" + resource
    return jpeg[:2] + b"\xff\xed" + (len(segment) + 2).to_bytes(2, "big") + segment + jpeg[2:]


def huge_jpeg_bytes(side: int = 20_000) -> bytes:
    """A valid side x side baseline JPEG of about 1 MB, in milliseconds and without ever holding its pixels.

    One row of blocks, `side` x 16 pixels, is encoded with a restart marker at its end. Decoding starts afresh after a restart,
    so that row's data can be repeated, with the marker's number counting up modulo 8, and the height in the header changed.
    """
    ramp = Image.linear_gradient("L").rotate(90).resize((side, 16))
    one_row = encoded(Image.merge("RGB", (ramp, ramp, ramp)), "JPEG", quality=75, subsampling=2, restart_marker_rows=1)
    header_end = one_row.index(b"\xff\xda")
    header_end += 2 + int.from_bytes(one_row[header_end + 2 : header_end + 4], "big")
    header, data = bytearray(one_row[:header_end]), one_row[header_end:-2]
    height_at = header.index(b"\xff\xc0") + 5
    header[height_at : height_at + 2] = side.to_bytes(2, "big")
    rows = -(-side // 16)
    body = b"".join(data + bytes((0xFF, 0xD0 + i % 8)) for i in range(rows - 1)) + data
    return bytes(header) + body + b"\xff\xd9"


def huge_png_bytes(side: int = 20_000) -> bytes:
    """A valid side x side 8-bit RGB PNG (1.2 GB of pixels at 20,000) of about 1 MB, in about a second.

    A hundred rows are compressed once and closed with a full flush, behind which nothing refers back: the compressed piece can
    be repeated. Only the checksum runs over all the pixels.
    """
    import struct
    import zlib

    rows = 100
    piece = (b"\0" + bytes(range(200)) * (side * 3 // 200)) * rows
    compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)
    checksum = 1
    for _ in range(side // rows):
        checksum = zlib.adler32(piece, checksum)
    data = b"\x78\x01" + packed * (side // rows) + b"\x03\0" + checksum.to_bytes(4, "big")

    def chunk(name: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def dng_bytes(preview: bytes | None, *, orientation: int = 1, side: int = 64) -> bytes:
    """A minimal DNG: side x side uncompressed Bayer samples and, in a sub-directory, a JPEG preview."""
    short, long, byte, ascii_, srational = 3, 4, 1, 2, 10
    preview_width, preview_height = Image.open(io.BytesIO(preview)).size if preview else (0, 0)
    samples = np.random.default_rng(0).integers(200, 4000, (side, side), dtype=np.uint16).tobytes()
    matrix = b"".join(
        int(v).to_bytes(4, "little", signed=True) + (1).to_bytes(4, "little") for v in (1, 0, 0, 0, 1, 0, 0, 0, 1)
    )

    def ifd(entries: list[tuple[int, int, int, bytes]], start: int) -> bytes:
        entries = sorted(entries)
        extra_at = start + 2 + 12 * len(entries) + 4
        table, extra = len(entries).to_bytes(2, "little"), b""
        for tag, kind, count, value in entries:
            table += tag.to_bytes(2, "little") + kind.to_bytes(2, "little") + count.to_bytes(4, "little")
            if len(value) <= 4:
                table += value.ljust(4, b"\0")
            else:
                table += (extra_at + len(extra)).to_bytes(4, "little")
                extra += value + b"\0" * (len(value) % 2)
        return table + b"\0\0\0\0" + extra

    def number(kind: int, value: int) -> tuple[int, int, bytes]:
        return kind, 1, value.to_bytes(2 if kind == short else 4, "little")

    def directories(samples_at: int, preview_at: int, sub_at: int) -> tuple[bytes, bytes]:
        main = [
            (254, *number(long, 0)),
            (256, *number(long, side)),
            (257, *number(long, side)),
            (258, *number(short, 16)),
            (259, *number(short, 1)),
            (262, *number(short, 32803)),
            (271, ascii_, 9, b"Lodecamx\0"),
            (272, ascii_, 8, b"Model 1\0"),
            (273, *number(long, samples_at)),
            (274, *number(short, orientation)),
            (277, *number(short, 1)),
            (278, *number(long, side)),
            (279, *number(long, len(samples))),
            (33421, short, 2, b"\2\0\2\0"),
            (33422, byte, 4, b"\0\1\1\2"),
            (50706, byte, 4, b"\1\4\0\0"),
            (50707, byte, 4, b"\1\1\0\0"),
            (50708, ascii_, 8, b"Model 1\0"),
            (50717, *number(long, 4095)),
            (50721, srational, 9, matrix),
            (50778, *number(short, 21)),
        ]
        if preview:
            main.append((330, *number(long, sub_at)))
        sub = [
            (254, *number(long, 1)),
            (256, *number(long, preview_width)),
            (257, *number(long, preview_height)),
            (258, short, 3, b"\x08\0\x08\0\x08\0"),
            (259, *number(short, 7)),
            (262, *number(short, 6)),
            (273, *number(long, preview_at)),
            (277, *number(short, 3)),
            (278, *number(long, preview_height)),
            (279, *number(long, len(preview or b""))),
        ]
        return ifd(main, 8), ifd(sub, sub_at) if preview else b""

    first, second = directories(0, 0, 0)
    sub_at = 8 + len(first)
    samples_at = sub_at + len(second)
    first, second = directories(samples_at, samples_at + len(samples), sub_at)
    return b"II*\0\x08\0\0\0" + first + second + samples + (preview or b"")


def write_every_format(folder: Path) -> dict[str, Path]:
    """One good picture of each supported kind; keys say which."""
    folder.mkdir(parents=True, exist_ok=True)
    base = photo()
    float_tiff = Image.fromarray(np.asarray(base.convert("L"), dtype=np.float32) / 255)
    contents: dict[str, tuple[str, bytes]] = {
        "jpeg": ("plain.jpg", jpeg_bytes()),
        "jpeg_progressive": ("progressive.jpg", jpeg_bytes(progressive=True)),
        "jpeg_grey": ("grey.jpg", encoded(base.convert("L"), "JPEG")),
        "jpeg_cmyk": ("cmyk.jpg", cmyk_jpeg_bytes()),
        "png": ("plain.png", encoded(base, "PNG")),
        "png_palette": ("palette.png", encoded(base.quantize(16), "PNG")),
        "png_1_bit": ("bit.png", encoded(base.convert("1"), "PNG")),
        "png_16_bit": ("deep.png", encoded(gradient_16_bit(), "PNG")),
        "png_alpha": ("alpha.png", encoded(base.convert("RGBA"), "PNG")),
        "webp": ("plain.webp", encoded(base, "WEBP")),
        "webp_animated": ("animated.webp", animated_bytes("WEBP")),
        "gif": ("plain.gif", encoded(base, "GIF")),
        "gif_animated": ("animated.gif", animated_bytes("GIF")),
        "bmp": ("plain.bmp", encoded(base, "BMP")),
        "tiff": ("plain.tif", encoded(base, "TIFF")),
        "tiff_lzw": ("lzw.tiff", encoded(base, "TIFF", compression="tiff_lzw")),
        "tiff_16_bit": ("deep.tif", encoded(gradient_16_bit(), "TIFF")),
        "tiff_float": ("float.tif", encoded(float_tiff, "TIFF")),
        "tiff_cmyk": ("cmyk.tif", encoded(base.convert("CMYK"), "TIFF")),
        "avif": ("plain.avif", encoded(base, "AVIF")),
        "raw": ("plain.dng", dng_bytes(jpeg_bytes())),
        "one_pixel": ("pixel.png", encoded(Image.new("RGB", (1, 1), RED), "PNG")),
        "one_pixel_jpeg": ("pixel.jpg", encoded(Image.new("RGB", (1, 1), RED), "JPEG")),
        "thin": ("thin.png", encoded(Image.new("RGB", (1, 20_000), GREEN), "PNG")),
        "wrong_extension": ("really-a-png.jpg", encoded(base, "PNG")),
    }
    paths = {key: _write(folder / name, content) for key, (name, content) in contents.items()}
    paths["heic"] = write_heic(folder / "plain.heic")
    return paths


def write_bad_files(folder: Path, *, huge: bool = False) -> dict[str, tuple[Path, str]]:
    """Files that cannot be decoded, by kind: (path, the expected failure reason). `huge` adds the 20,000 x 20,000 PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = jpeg_bytes()
    bad: dict[str, tuple[Path, str]] = {
        "empty": (_write(folder / "empty.jpg", b""), "empty_file"),
        "text": (_write(folder / "text.jpg", b"this is no picture\n" * 20), "not_an_image"),
        "truncated_jpeg": (_write(folder / "truncated.jpg", whole[: len(whole) * 3 // 10]), "truncated"),
        "truncated_png": (_write(folder / "truncated.png", encoded(photo(), "PNG")[:5000]), "truncated"),
        "header_only": (_write(folder / "header.jpg", whole[:20]), "truncated"),
        "corrupt_png": (_write(folder / "corrupt.png", _with_flipped_byte(encoded(photo(), "PNG"), 60)), "corrupt"),
        "unsupported": (_write(folder / "drawing.png", b"\xff\x0a" + b"\0" * 40), "unsupported"),
        "missing": (folder / "was-here.jpg", "missing"),
        "raw_without_preview": (_write(folder / "bare.dng", dng_bytes(None)), "no_preview"),
    }
    if huge:
        bad["huge_png"] = (_write(folder / "huge.png", huge_png_bytes()), "too_large")
    return bad


STRANGE_NAMES = (
    "صورة جميلة.jpg",
    "תמונה.jpg",
    "照片.jpg",
    "🐈‍⬛ cat.jpg",
    "cafe\u0301.jpg",  # NFD
    "caf\u00e9.jpg",  # NFC: another file
    "line\nbreak.jpg",
    "\"quoted\" 'name'.jpg",
    "\u202eright-to-left.jpg",
    "bytes:pretender.jpg",
    "100%25.jpg",
    "a b\tc.jpg",
    "CAPITALS.JPG",
)
INVALID_UTF8_NAME = b"na\xefve-\xff\xfe.jpg"


def write_strange_names(folder: Path, *, invalid_utf8: bool = True) -> list[bytes]:
    """The same picture under names of many scripts, and under one that is not UTF-8; returns the names as bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [os.fsencode(name) for name in STRANGE_NAMES] + ([INVALID_UTF8_NAME] if invalid_utf8 else [])
    for i, name in enumerate(names):
        (folder / os.fsdecode(name)).write_bytes(jpeg_bytes(seed=i))
    return names


def write_symlink_loops(folder: Path) -> Path:
    """A folder with one picture and links to itself, its parent, each other and nowhere."""
    inner = folder / "inner"
    inner.mkdir(parents=True)
    write_photo(inner / "only.jpg")
    (inner / "self").symlink_to(inner, target_is_directory=True)
    (inner / "up").symlink_to(folder, target_is_directory=True)
    (folder / "again").symlink_to(inner, target_is_directory=True)
    (folder / "ping").symlink_to(folder / "pong")
    (folder / "pong").symlink_to(folder / "ping")
    (folder / "broken.jpg").symlink_to(folder / "nowhere.jpg")
    return folder


def flip_bytes(data: bytes, *, seed: int, count: int = 8, keep_head: int = 16) -> bytes:
    """`data` with `count` seeded bytes replaced, the first `keep_head` untouched."""
    rng = np.random.default_rng(seed)
    broken = bytearray(data)
    for position in rng.integers(min(keep_head, len(data) - 1), len(data), count):
        broken[position] = int(rng.integers(0, 256))
    return bytes(broken)


def _with_flipped_byte(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


Position = tuple[tuple[str, tuple[float, float, float]], tuple[str, tuple[float, float, float]]]
BERGEN: Position = (("N", (60.0, 23.0, 24.0)), ("E", (5.0, 19.0, 12.0)))
SYDNEY: Position = (("S", (33.0, 52.0, 12.0)), ("E", (151.0, 12.0, 36.0)))


def write_taken(
    path: Path, seed: int, *, size: tuple[int, int] = (64, 48), taken: str = "", at: Position | None = None, camera: str = ""
) -> None:
    """Write a photo whose EXIF data say what is given: a time as EXIF writes it, a position, a maker and model."""
    write_photo(path, seed=seed, size=size)
    facts = Image.Exif()
    if camera:
        facts[271], facts[272] = camera.partition(" ")[0], camera
    if taken:
        facts.get_ifd(0x8769)[0x9003] = taken
    if at is not None:
        (north, latitude), (east, longitude) = at
        facts.get_ifd(0x8825).update({1: north, 2: latitude, 3: east, 4: longitude})
    with Image.open(path) as photo:
        photo.save(path, exif=facts)
