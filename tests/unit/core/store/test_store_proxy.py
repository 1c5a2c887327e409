"""A store behind pipes passes errors on, gives up owners that are gone or silent, and never mixes up answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError, StoreError, UnknownNameError
from lodestone.store.base import PointBatch, VectorQuery, VectorStore
from lodestone.store.factory import open_store
from lodestone.store.proxy.client import StoreProxy
from lodestone.store.proxy.host import METHODS, StoreHost
from lodestone_schemas.collections import CollectionSpec

IDS = [f"00000000-0000-0000-0000-{number:012d}" for number in range(40)]
VECTORS = np.eye(40, 8, dtype=np.float32) + 0.5


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[VectorStore]:
    with closing(open_store("edge", root=tmp_path / "store", lock_timeout=0)) as store:
        store.create(CollectionSpec("photos", 8))
        store.upsert("photos", PointBatch(IDS, VECTORS, [{"corpus": "a"}] * len(IDS)))
        yield store


def hosted(store: VectorStore, *, pipes: int = 1, timeout_s: float = 30.0) -> StoreProxy:
    pairs = [Pipe() for _ in range(pipes)]
    StoreHost(store, [own for own, _ in pairs]).start()
    return StoreProxy([other for _, other in pairs], timeout_s=timeout_s)


@pytest.fixture
def silent() -> Iterator[tuple[StoreProxy, Connection]]:
    """A store whose owner has not answered yet, and the owner's end of its pipe."""
    own, other = Pipe()
    with own, closing(StoreProxy([other], timeout_s=0.2)) as proxy:
        yield proxy, own


def test_errors_of_the_store_are_raised_as_they_are(owned: VectorStore) -> None:
    with closing(hosted(owned)) as proxy:
        with pytest.raises(UnknownNameError, match="nowhere"):
            proxy.info("nowhere")
        with pytest.raises(InvalidRequestError, match="the collection takes") as raised:
            proxy.search("photos", [VectorQuery(np.ones(3, np.float32))])
        with pytest.raises(InvalidRequestError) as own:
            owned.search("photos", [VectorQuery(np.ones(3, np.float32))])
        assert (raised.value.message, raised.value.hint) == (own.value.message, own.value.hint)
        assert proxy.count("photos") == 40, "the pipe is used again"


def test_whatever_else_goes_wrong_there_is_an_error_of_the_store(owned: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned, "info", lambda _name: 1 // 0)
    with closing(hosted(owned)) as proxy, pytest.raises(StoreError, match="ZeroDivisionError"):
        proxy.info("photos")


def test_only_methods_of_a_store_are_called(owned: VectorStore) -> None:
    own, other = Pipe()
    StoreHost(owned, [own]).start()
    with other:
        for method in ("close", "__init__", "_require_owned", "patient"):
            assert method not in METHODS
            other.send((method, (), {}))
            fine, error = other.recv()
            assert not fine
            assert isinstance(error, StoreError)
    assert owned.count("photos") == 40


def test_closing_it_leaves_the_store_open(owned: VectorStore) -> None:
    proxy = hosted(owned)
    proxy.close()
    assert owned.count("photos") == 40
    with pytest.raises(StoreError, match="is closed"):
        proxy.count("photos")


def test_pages_that_nobody_reads_are_not_taken_for_the_next_answer(owned: VectorStore) -> None:
    with closing(hosted(owned)) as proxy:
        pages = proxy.scroll("photos", batch_size=7)
        assert list(next(pages).ids) == IDS[:7]
        pages.close()  # type: ignore[attr-defined]
        assert proxy.count("photos") == 40
        assert [one for page in proxy.scroll("photos", batch_size=7) for one in page.ids] == IDS
        with pytest.raises(UnknownNameError):
            list(proxy.scroll("nowhere"))
        assert proxy.collections() == ["photos"]


def test_an_owner_that_has_ended_is_told(silent: tuple[StoreProxy, Connection]) -> None:
    proxy, own = silent
    own.close()
    for _ in range(2):
        with pytest.raises(StoreError, match="is gone") as raised:
            proxy.ping()
        assert "service.log" in raised.value.hint


def test_a_late_answer_is_not_taken_for_that_of_the_next_call(silent: tuple[StoreProxy, Connection]) -> None:
    proxy, own = silent
    with pytest.raises(StoreError, match="does not answer"):
        proxy.count("photos")
    with pytest.raises((EOFError, OSError)):  # noqa: PT012 - whichever notices first that the pipe is closed
        own.recv()
        own.send((True, 40))
        own.recv()
    with pytest.raises(StoreError, match="is gone"):
        proxy.collections()


def test_a_write_may_take_longer_than_a_read(silent: tuple[StoreProxy, Connection]) -> None:
    proxy, own = silent
    late = threading.Timer(0.6, lambda: own.send((True, None)))
    late.start()
    proxy.build("photos")
    late.join()


def test_calls_of_several_threads_get_their_own_answers(owned: VectorStore) -> None:
    wrong: list[int] = []
    with closing(hosted(owned, pipes=2)) as proxy:

        def ask(row: int) -> None:
            for _ in range(20):
                (found,) = proxy.search("photos", [VectorQuery(VECTORS[row], limit=8, exact=True)])
                (expected,) = owned.search("photos", [VectorQuery(VECTORS[row], limit=8, exact=True)])
                if found.ids != expected.ids:
                    wrong.append(row)

        threads = [threading.Thread(target=ask, args=(row,)) for row in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_broken_pipe_is_told_and_not_used_again_and_the_others_are(owned: VectorStore) -> None:
    pairs = [Pipe() for _ in range(3)]
    StoreHost(owned, [own for own, _ in pairs[1:]]).start()
    told: list[int] = []
    with closing(StoreProxy([other for _, other in reversed(pairs)], timeout_s=0.2, broken=lambda: told.append(1))) as proxy:
        with pytest.raises(StoreError, match="does not answer"):
            proxy.count("photos")  # by the pipe that nobody serves
        assert told == [1]
        for _ in range(6):
            assert proxy.count("photos") == 40


def test_a_page_that_cannot_be_read_or_sent_is_an_error_and_the_pipe_goes_on(
    owned: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(hosted(owned)) as proxy:
        first, scroll = next(owned.scroll("photos")), owned.scroll

        def half(*_: object, **__: object) -> Iterator[PointBatch]:
            yield first
            raise OSError("the disk is away")

        monkeypatch.setattr(owned, "scroll", half)
        with pytest.raises(StoreError, match="the disk is away"):
            list(proxy.scroll("photos"))
        monkeypatch.setattr(owned, "scroll", lambda *_, **__: iter([lambda: None]))
        with pytest.raises(StoreError, match="pickle"):
            list(proxy.scroll("photos"))
        monkeypatch.setattr(owned, "scroll", scroll)
        assert len(list(proxy.scroll("photos", batch_size=10))) == 4
        monkeypatch.setattr(owned, "info", lambda _name: lambda: None)
        with pytest.raises(StoreError, match="pickle"):
            proxy.info("photos")
        assert proxy.count("photos") == 40
