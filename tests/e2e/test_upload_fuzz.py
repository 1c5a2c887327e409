"""No damaged upload brings the service down, gets a defect for an answer, or costs more memory than allowed.

Real pictures of every kind of the web are cut, flipped, spliced and lied about, in a seeded way, and sent through the whole app
of a real home. `LODESTONE_FUZZ` says how many; 300 by default.
"""

from __future__ import annotations

import io
import os
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from PIL import Image
from tests.support.home import settings_for
from tests.support.pictures import animated_bytes, encoded, jpeg_bytes, photo, write_photos

from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.query.contracts import Encoder, Pixels, Vectors
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services

COUNT: Final = int(os.environ.get("LODESTONE_FUZZ", "300"))
SEED: Final = 5
ALLOWED: Final = {200: set(), 413: {"image_too_large", "body_too_large"}, 422: {"bad_image"}}
MOST_DECODED_MB: Final = 64
_PAGE_KB: Final = os.sysconf("SC_PAGE_SIZE") / 1024

Mutation = Callable[[bytes, random.Random], bytes]


def heic() -> bytes:
    import pillow_heif

    buffer = io.BytesIO()
    pillow_heif.from_pillow(photo()).save(buffer, format="HEIF", quality=80)
    return buffer.getvalue()


def wholes() -> dict[str, bytes]:
    """A good picture of each kind."""
    exif = Image.Exif()
    exif[0x010E] = "described " * 20
    return {
        "jpeg": jpeg_bytes(exif=exif),
        "progressive": jpeg_bytes(progressive=True),
        "png": encoded(photo(), "PNG"),
        "palette": encoded(photo().quantize(16), "PNG"),
        "webp": encoded(photo(), "WEBP"),
        "lossless": encoded(photo(), "WEBP", lossless=True),
        "gif": encoded(photo(), "GIF"),
        "animated": animated_bytes("GIF"),
        "heic": heic(),
        "avif": encoded(photo(), "AVIF"),
        "tiff": encoded(photo(), "TIFF", compression="tiff_lzw"),
    }


def flipped(data: bytes, dice: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(dice.choice((1, 2, 8, 64))):
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
    return bytes(broken)


def flipped_in_head(data: bytes, dice: random.Random) -> bytes:
    """Where lengths, sizes and types stand."""
    broken = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        broken[dice.randrange(min(200, len(broken)))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return bytes(broken)


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def without_a_piece(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + data[start + dice.randint(1, 400) :]


def with_a_piece_twice(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    piece = data[start : start + dice.randint(1, 400)]
    return data[:start] + piece * dice.randint(2, 40) + data[start:]


def with_noise(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(data))
    return data[:start] + dice.randbytes(dice.randint(1, 2_000)) + data[start:]


def overstated(data: bytes, dice: random.Random) -> bytes:
    """A large number put where a size may stand, in either order of bytes."""
    broken = bytearray(data)
    at = dice.randrange(max(1, min(300, len(broken) - 4)))
    number = dice.choice((0xFFFFFFFF, 0x7FFFFFFF, 0xFFFF, 100_000, 65_500, 0))
    broken[at : at + 4] = struct.pack(dice.choice("<>") + "I", number)
    return bytes(broken)


def sized_png(data: bytes, dice: random.Random) -> bytes:
    """A sound header that promises more pixels than there are."""
    width, height = (dice.choice((0, 1, 5_000, 20_000, 65_535, 2**31 - 1)) for _ in range(2))
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, dice.choice((1, 8, 16)), dice.choice((0, 2, 3, 6)), 0, 0, 0)
    rest = b"IDAT" + zlib.compress(bytes(dice.randrange(1, 5_000)))
    chunks = b"".join(
        struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in (header, rest, b"IEND")
    )
    return b"\x89PNG\r\n\x1a\n" + chunks


def pretending(data: bytes, dice: random.Random) -> bytes:
    """The beginning of one kind before the rest of another."""
    return data[: dice.randint(2, 64)] + dice.choice(sorted(wholes_of_all.values()))[dice.randint(2, 64) :]


def not_a_picture(data: bytes, dice: random.Random) -> bytes:
    return dice.choice(
        (
            b"",
            b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
            b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]><svg>&y;</svg>",
            b"%PDF-1.7\n",
            b"PK\x03\x04" + data[:500],
            dice.randbytes(dice.randint(1, 5_000)),
            data[:16] * 400,
        )
    )


MUTATIONS: Final[tuple[Mutation, ...]] = (
    flipped, flipped_in_head, cut, without_a_piece, with_a_piece_twice, with_noise, overstated, sized_png, pretending,
    not_a_picture,
)  # fmt: skip
wholes_of_all: Final = wholes()


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KB / 1024


class Eyes:
    """Looks at one picture in `every`, and thinks that all others look like the last one: what is tried here comes before."""

    def __init__(self, inner: Encoder, every: int) -> None:
        self._inner = inner
        self._every = every
        self._asked = 0
        self._last: Mapping[str, Vectors] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed_pictures(self, pictures: Sequence[Pixels], **how: Any) -> Mapping[str, Vectors]:
        if self._asked % self._every == 0:
            self._last = await self._inner.embed_pictures(pictures, **how)
        self._asked += 1
        return self._last


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::UserWarning")
async def test_damaged_uploads_are_answered_and_cost_no_memory(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 4)
    settings = settings_for(tmp_path, max_decoded_mb=MOST_DECODED_MB)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="photos"))
    services = home_services(settings)
    app = create_app(services, settings=settings.serve, token="secret")
    await services.session.open()
    answers: Counter[tuple[str, int]] = Counter()
    dice = random.Random(SEED)
    kinds = sorted(wholes_of_all)
    most = 0.0
    try:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", timeout=120) as http:

            async def send(data: bytes) -> httpx.Response:
                return await http.post("/v1/search/image", files={"image": ("a", data)}, data={"options": '{"limit": 1}'})

            for kind in kinds:  # all of them are good as they are, and everything is loaded
                whole = await send(wholes_of_all[kind])
                assert whole.status_code == 200, (kind, whole.text)
            engine = services.session.live.answering.engine
            retrieval = engine._pipeline.retrieval
            retrieval._sources = replace(retrieval._sources, encoder=Eyes(engine.encoder, 20))  # type: ignore[arg-type]
            before = resident_mb()
            for number in range(COUNT):
                kind = kinds[number % len(kinds)]
                mutation = MUTATIONS[dice.randrange(len(MUTATIONS))]
                data = mutation(wholes_of_all[kind], dice)
                answer = await send(data)
                label = f"{number}: {mutation.__name__} of {kind}"
                assert answer.status_code in ALLOWED, (label, answer.text)
                if answer.status_code != 200:
                    problem = answer.json()
                    assert problem["code"] in ALLOWED[answer.status_code] | ({"invalid_request"} if not data else set()), label
                    assert not any(inside in answer.text for inside in (str(tmp_path), "site-packages", "Traceback")), label
                answers[mutation.__name__, answer.status_code] += 1
                most = max(most, resident_mb())
            assert (await send(wholes_of_all["jpeg"])).status_code == 200
    finally:
        await services.session.close()
    print(f"{COUNT} damaged pictures: {dict(Counter(status for _, status in answers.elements()))}, {most - before:+.0f} MB")
    refused = sum(count for (_, status), count in answers.items() if status != 200)
    assert refused > COUNT // 4, answers  # else these are no damages
    # One picture at a time: what the largest may unfold to, and a little for caches that fill.
    assert most - before < MOST_DECODED_MB + 150, f"{most - before:.0f} MB more than before"
