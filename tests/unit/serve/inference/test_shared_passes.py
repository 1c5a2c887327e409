"""Queries share model passes, and nobody pays for those who have left."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from lodestone.query.contracts import EncodedTexts, Pixels, Vectors
from lodestone_serve.inference.shared_passes import Passes, SharedEncoder

ONE = Passes(parallel=1, pictures=16, text_threads=None)


class Models:
    """Encodes a text to its length and a picture to its mean; `go` holds every pass."""

    collections: Mapping[str, str] = {"labels": "labels-1"}

    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.go = threading.Event()
        self.go.set()

    async def warm_up(self) -> None:
        return

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        self.passes.append(list(texts))
        assert self.go.wait(180)
        rows = np.array([[len(text)] for text in texts], np.float32)
        return EncodedTexts({"words": rows}, {"labels-1": rows * 2})

    def embed(self, pictures: Sequence[Pixels]) -> dict[str, Vectors]:
        return {"labels-1": np.array([[picture.mean()] for picture in pictures], np.float32)}

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        return self.encode(texts)


@pytest.fixture
def models() -> Models:
    return Models()


async def test_what_arrives_during_a_pass_shares_the_next(models: Models) -> None:
    seen: list[int] = []
    shared = SharedEncoder(models, passes=ONE, observe=seen.append)  # type: ignore[arg-type]
    models.go.clear()
    asked = [asyncio.create_task(shared.encode_texts(["x" * number])) for number in range(1, 8)]
    while not models.passes:
        await asyncio.sleep(0.002)
    models.go.set()
    answers = await asyncio.gather(*asked)
    assert [float(answer.encoded["words"][0, 0]) for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
    assert [float(answer.projected["labels-1"][0, 0]) for answer in answers] == [2, 4, 6, 8, 10, 12, 14]
    assert len(seen) <= 2
    assert sum(seen) == 7
    empty = await shared.encode_texts([])
    assert len(empty.encoded["words"]) == 0


async def test_who_left_or_is_late_takes_part_in_no_later_pass(models: Models) -> None:
    shared = SharedEncoder(models, passes=ONE)  # type: ignore[arg-type]
    models.go.clear()
    first = asyncio.create_task(shared.encode_texts(["first"]))
    while not models.passes:
        await asyncio.sleep(0.002)
    left = asyncio.create_task(shared.encode_texts(["left"]))
    late = asyncio.create_task(shared.encode_texts(["late"], deadline=time.monotonic() + 0.01))
    stays = asyncio.create_task(shared.encode_texts(["stays"], deadline=time.monotonic() + 60))
    await asyncio.sleep(0.03)
    left.cancel()
    await asyncio.wait([left])
    models.go.set()
    await asyncio.gather(first, stays)
    with pytest.raises(TimeoutError):
        await late
    assert models.passes == [["first"], ["stays"]]


async def test_pictures_are_embedded_in_their_order(models: Models) -> None:
    shared = SharedEncoder(models)  # type: ignore[arg-type]
    pictures = [np.full((2, 2, 3), value, np.uint8) for value in (3, 1, 2)]
    found = await asyncio.gather(*(shared.embed_pictures([picture]) for picture in pictures))
    assert [float(one["labels-1"][0, 0]) for one in found] == [3, 1, 2]
    assert shared.collections == {"labels": "labels-1"}


async def test_on_a_cpu_each_picture_has_a_pass_and_on_a_gpu_they_share_them(models: Models) -> None:
    pictures = [np.full((2, 2, 3), value, np.uint8) for value in (3, 1, 2)]
    sizes: dict[str, list[int]] = {}
    for where, passes in (("cpu", Passes(2, 1, 1)), ("gpu", Passes(1, 16, None))):
        seen = sizes.setdefault(where, [])
        shared = SharedEncoder(models, passes=passes, observe_pictures=seen.append)  # type: ignore[arg-type]
        shared.limit(8)
        await asyncio.gather(*(shared.embed_pictures([picture]) for picture in pictures))
    assert sizes == {"cpu": [1, 1, 1], "gpu": [3]}


@pytest.mark.parametrize(("arrive", "passes"), [(3, [3]), (5, [4, 1]), (12, [6, 6])])
async def test_few_texts_share_a_pass_although_a_core_is_free(models: Models, arrive: int, passes: list[int]) -> None:
    shared = SharedEncoder(models, passes=Passes(2, 1, 1))  # type: ignore[arg-type]
    models.go.clear()
    asked = [asyncio.create_task(shared.encode_texts(["x" * number])) for number in range(1, 1 + arrive)]
    while len(models.passes) < len(passes):
        await asyncio.sleep(0.002)
    models.go.set()
    answers = await asyncio.gather(*asked)
    assert sorted(map(len, models.passes), reverse=True) == passes
    assert [float(answer.encoded["words"][0, 0]) for answer in answers] == [*range(1, 1 + arrive)]


def test_the_threads_that_models_may_use_bound_the_passes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone_serve.inference.shared_passes.gpus", lambda: 0)
    assert Passes.here(threads=3) == Passes(parallel=3, pictures=1, text_threads=1)
    monkeypatch.setattr("lodestone_serve.inference.shared_passes.gpus", lambda: 1)
    assert Passes.here(threads=3).parallel == 1
