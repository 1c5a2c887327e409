"""Do concurrent texts share one pass of the encoder, and does everybody get their own vectors?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lodestone.language.base import TextEncoder
from lodestone_serve.batching import BatchingTextEncoder


class SlowEncoder(TextEncoder):
    """Gives each text a vector of its length; waits for `go` in every pass and records what a pass was given."""

    name = "slow"
    dim = 2

    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    @property
    def version(self) -> str:
        return "v1"

    def warm_up(self, *, threads: int = 0) -> None:
        self.threads = threads

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.passes.append(list(texts))
        self.entered.release()
        assert self.go.acquire(timeout=10)
        if "bad" in texts:
            raise ValueError("bad text")
        return np.array([[len(text), 0] for text in texts], np.float32).reshape(-1, 2)


def start(pool: ThreadPoolExecutor, encoder: BatchingTextEncoder, texts: list[list[str]]) -> list:
    """Start one call; when the encoder is at work on it, start the others and wait until they queue."""
    inner: SlowEncoder = encoder._inner  # type: ignore[assignment]
    futures = [pool.submit(encoder.encode, texts[0])]
    assert inner.entered.acquire(timeout=10)
    for some in texts[1:]:
        before = len(encoder._queue)
        futures.append(pool.submit(encoder.encode, some))
        while len(encoder._queue) == before:
            pass
    return futures


@pytest.fixture
def pool():
    with ThreadPoolExecutor(16) as executor:
        yield executor


def test_texts_that_arrive_during_a_pass_share_the_next_one(pool: ThreadPoolExecutor) -> None:
    inner, seen = SlowEncoder(), []
    encoder = BatchingTextEncoder(inner, observe=seen.append)
    futures = start(pool, encoder, [["a"], ["bb", "ccc"], ["dddd"], ["eeeee"]])
    inner.go.release(2)
    results = [future.result(10) for future in futures]
    assert inner.passes == [["a"], ["bb", "ccc", "dddd", "eeeee"]]
    assert [row[:, 0].tolist() for row in results] == [[1.0], [2.0, 3.0], [4.0], [5.0]]
    assert seen == [1, 4]


def test_a_lone_text_is_encoded_at_once(pool: ThreadPoolExecutor) -> None:
    inner = SlowEncoder()
    inner.go.release()
    assert BatchingTextEncoder(inner).encode(["abc"]).tolist() == [[3.0, 0.0]]
    assert inner.passes == [["abc"]]


def test_a_failed_pass_fails_those_in_it_and_nobody_else(pool: ThreadPoolExecutor) -> None:
    inner = SlowEncoder()
    encoder = BatchingTextEncoder(inner, max_batch=2)
    futures = start(pool, encoder, [["a"], ["bad"], ["b"], ["c"]])
    inner.go.release(3)
    assert futures[0].result(10).tolist() == [[1.0, 0.0]]
    for future in futures[1:3]:
        with pytest.raises(ValueError, match="bad text"):
            future.result(10)
    assert futures[3].result(10).tolist() == [[1.0, 0.0]]


def test_a_pass_holds_no_more_than_the_batch_limit_unless_one_call_does(pool: ThreadPoolExecutor) -> None:
    inner = SlowEncoder()
    encoder = BatchingTextEncoder(inner, max_batch=2)
    futures = start(pool, encoder, [["a"], ["b"] * 5, ["c"], ["d"]])
    inner.go.release(3)
    for future in futures:
        future.result(10)
    assert [len(texts) for texts in inner.passes] == [1, 5, 2]


def test_it_is_the_inner_encoder_to_everybody_else() -> None:
    inner = SlowEncoder()
    inner.go.release()
    encoder = BatchingTextEncoder(inner)
    encoder.warm_up(threads=3)
    assert (encoder.name, encoder.dim, encoder.version, inner.threads) == ("slow", 2, "v1", 3)
    assert encoder.encode([]).shape == (0, 2)
