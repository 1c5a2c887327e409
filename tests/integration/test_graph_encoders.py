"""A replica of Encoders gives the vectors that one process would, of the versions that were asked for and of no others."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import structlog
from tests.support.home import settings_for
from tests.support.pictures import photo

from lodestone.errors import ServiceUnavailableError
from lodestone.query.encoder import LocalEncoder
from lodestone_serve.graph.encoders import KEPT, Encoders
from lodestone_serve.graph.replicas import Host, known
from lodestone_serve.inference.shared_passes import SharedEncoder

TEXTS = ["a cat", "two dogs on a beach", "the colour blue"]


@pytest.fixture(scope="module", autouse=True)
def _own_logs() -> Iterator[None]:
    """A replica takes over its process's logs; this process has other tests."""
    logger = logging.getLogger("lodestone")
    before = logger.handlers, logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    return Encoders(Host(known(settings_for(tmp_path_factory.mktemp("encoders")))), batch=2)


@pytest.fixture(scope="module")
def local(encoders: Encoders) -> LocalEncoder:
    runtime = encoders._runtime
    return runtime.local_encoder(runtime.projections())


@pytest.fixture(scope="module")
def collections(local: LocalEncoder) -> dict[str, str]:
    return dict(local.collections)


def pixels(count: int) -> list[np.ndarray]:
    return [np.asarray(photo(seed=seed)) for seed in range(count)]


async def test_words_and_pictures_get_the_vectors_of_one_process(
    encoders: Encoders, local: LocalEncoder, collections: dict[str, str]
) -> None:
    texts, expected = await encoders.encode_texts(TEXTS, collections), local.encode(TEXTS)
    assert texts.encoded.keys() == expected.encoded.keys()
    for there, here in ((texts.encoded, expected.encoded), (texts.projected, expected.projected)):
        for name, rows in here.items():
            np.testing.assert_allclose(there[name], rows, atol=1e-5)
    pictures = await encoders.embed_pictures(pixels(3), collections)
    assert pictures.keys() == set(collections.values())
    for name, rows in local.embed(pixels(3)).items():
        np.testing.assert_allclose(pictures[name], rows, atol=1e-4)


async def test_concurrent_calls_share_a_pass_and_each_gets_its_own_rows(
    encoders: Encoders, local: LocalEncoder, collections: dict[str, str]
) -> None:
    encoders.reconfigure({"batch": 16})
    passes: list[int] = []
    (versions,) = [found for key, found in encoders._loaded.items() if key == frozenset(collections.items())]
    versions._texts._observe = passes.append
    answers = await asyncio.gather(*(encoders.encode_texts([text], collections) for text in TEXTS * 4))
    assert sum(passes) == 12
    assert len(passes) < 12
    expected = local.encode(TEXTS * 4)
    for number, answer in enumerate(answers):
        for name, rows in expected.projected.items():
            np.testing.assert_allclose(answer.projected[name][0], rows[number], atol=1e-4)


async def test_what_comes_too_late_is_refused(encoders: Encoders, collections: dict[str, str]) -> None:
    with pytest.raises(TimeoutError):
        await encoders.encode_texts(["a cat"], collections, until=time.time() - 1)


async def test_vectors_of_a_version_that_is_not_known_here_are_refused(encoders: Encoders, collections: dict[str, str]) -> None:
    wrong = {**collections, "labels": "labels-of-another-time"}
    for _ in range(2):  # looked for again: it may have been learnt meanwhile
        with pytest.raises(ServiceUnavailableError, match="labels-of-another-time"):
            await encoders.encode_texts(["a cat"], wrong)


async def test_other_versions_are_loaded_when_they_are_asked_for_and_few_are_kept(
    encoders: Encoders, collections: dict[str, str]
) -> None:
    for spaces in (["labels"], ["bridge"]):
        some = {space: collections[space] for space in spaces}
        found = await encoders.encode_texts(["a cat"], some)
        assert set(found.projected) <= set(some.values())
        await encoders.load(some)
    assert len(encoders._loaded) == KEPT


async def test_a_version_that_loads_longer_than_a_query_may_take_is_loaded_once_and_there_for_a_later_one(
    encoders: Encoders, collections: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, original, loads, slow = {"labels": collections["labels"]}, encoders._load_named, [], threading.Event()

    def load(named: dict[str, str]) -> SharedEncoder:
        loads.append(named)
        slow.wait(180)
        return original(named)

    await encoders.load(collections)
    encoders._loaded.pop(frozenset(some.items()), None)
    monkeypatch.setattr(encoders, "_load_named", load)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await encoders.encode_texts(["a cat"], some)
    await encoders.encode_texts(["a cat"], collections)  # others do not wait for it
    slow.set()
    await encoders.encode_texts(["a cat"], some)
    assert loads == [some]


def test_a_replica_that_cannot_start_leaves_the_reason(tmp_path: Path) -> None:
    note = tmp_path / "failure.json"
    settings = settings_for(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "home.json").write_text('{"format": 99, "written_by": "9.9"}', "utf8")
    with pytest.raises(Exception, match="has format 99"):
        Encoders(Host(known(settings), failure_file=note))
    assert '"home_too_new"' in note.read_text("utf8")
