"""Uploaded pictures of one search: bounded together, and decoded within the query's deadline."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from lodestone.access.caller import LOCAL_CALLER
from lodestone.errors import DeadlineExceededError, ImageTooLargeError
from lodestone.imaging.decode import DecodedImage
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.services.search import SearchUseCases
from lodestone_schemas.api import SearchRequest


class Reached(Exception):
    """Raised where all pictures were decoded."""


class Decoder:
    """Gives pictures of fixed sizes, and keeps until when it may wait."""

    def __init__(self, *sizes: tuple[int, int], took: float = 0.0) -> None:
        self._sizes = list(sizes)
        self._took = took
        self.untils: list[float] = []

    def decode_with_facts(self, _data: bytes, *, until: float, **_: int) -> DecodedImage:
        self.untils.append(until)
        time.sleep(self._took)
        size = self._sizes.pop(0)
        return DecodedImage(Image.new("RGB", size), *size, "PNG")


async def _search(decoder: Decoder, count: int, *, context: RequestContext = NOW, deadline_ms: int | None = None) -> None:
    settings = SimpleNamespace(compositions={}, query=SimpleNamespace(deadline_ms=10_000))
    session: Any = SimpleNamespace(runtime=SimpleNamespace(decode_with_facts=decoder.decode_with_facts, settings=settings))
    use_cases = SearchUseCases(session, pictures=SimpleNamespace())  # type: ignore[arg-type]

    async def reached(*_: object) -> None:
        raise Reached

    use_cases._composed = SimpleNamespace(query_of=reached)  # type: ignore[assignment]
    request = SearchRequest(query="a boat", deadline_ms=deadline_ms)
    await use_cases.by_picture(b"1", request, LOCAL_CALLER, context=context, more=[b"more"] * (count - 1))


async def test_pictures_of_one_request_are_bounded_together() -> None:
    most = (8_192, 4_096)  # 128 MB
    with pytest.raises(Reached):
        await _search(Decoder(most, most), 2)
    decoder = Decoder(most, most, (1, 1), (1, 1))
    with pytest.raises(ImageTooLargeError, match="one request may take 256 MB") as caught:
        await _search(decoder, 4)
    assert caught.value.status == 413
    assert caught.value.hint
    assert len(decoder.untils) == 3  # the fourth is not decoded any more


async def test_decoding_ends_with_the_deadline_of_the_query() -> None:
    decoder = Decoder((1, 1), (1, 1), took=0.06)
    with pytest.raises(DeadlineExceededError, match="1 of 2 pictures"):
        await _search(decoder, 2, deadline_ms=50)
    assert len(decoder.untils) == 1


async def test_waiting_for_room_ends_with_the_deadline_of_the_query() -> None:
    arrived = time.monotonic() - 1
    decoder = Decoder((1, 1))
    with pytest.raises(Reached):
        await _search(decoder, 1, context=RequestContext(arrived=arrived, way_back=0.25))
    assert decoder.untils == [pytest.approx(arrived + 10 - 0.25)]
    decoder = Decoder((1, 1))
    with pytest.raises(Reached):
        await _search(decoder, 1, context=RequestContext(arrived=arrived), deadline_ms=5_000)
    assert decoder.untils == [pytest.approx(arrived + 5)]
