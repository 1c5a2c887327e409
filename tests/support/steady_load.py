"""Two people who search a service over HTTP all the time, while something is changed behind it, and their rankings."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np

from lodestone_schemas.api import SearchResponse

TEXTS = ("coloured dots", "a red balloon", "something green on the left", "the night sky")
Ranking = tuple[tuple[str, float], ...]


@dataclass
class Load:
    """People who search all the time."""

    url: str
    answers: list[tuple[str, SearchResponse]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def ask(self, first: int) -> None:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            for text in itertools.islice(itertools.cycle(TEXTS), first, None):
                if self.over.wait(0.02):
                    return
                try:
                    answer = client.post("/v1/search", json={"query": text, "guides": 0, "limit": 10, "deadline_ms": 30_000})
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                if answer.status_code == 200:
                    self.answers.append((text, SearchResponse.model_validate_json(answer.content)))
                else:
                    self.failures.append(answer.text)

    def more(self, count: int = 4) -> None:
        """Return after some more answers."""
        wanted, end = len(self.answers) + count, time.monotonic() + 180
        while len(self.answers) < wanted:
            assert time.monotonic() < end, "queries are not answered any more"
            time.sleep(0.02)


@contextmanager
def steady_load(url: str) -> Iterator[Load]:
    """Two people who search all the time, until the block ends; some answers come before it and after it."""
    load = Load(url)
    people = [threading.Thread(target=load.ask, args=(number,)) for number in range(2)]
    for one in people:
        one.start()
    try:
        load.more()
        yield load
        load.more()
    finally:
        load.over.set()
        for one in people:
            one.join()


def ranking(response: SearchResponse) -> Ranking:
    """What is compared of an answer."""
    return tuple((hit.image_id, hit.score) for hit in response.hits)


def same(one: Ranking, other: Ranking) -> bool:
    """Equal but for the last digits: texts are encoded in batches, whose size differs."""
    ids, scores = zip(*one, strict=True)
    other_ids, other_scores = zip(*other, strict=True)
    return ids == other_ids and bool(np.allclose(scores, other_scores, rtol=1e-5, atol=1e-5))  # scores are in deviations


def all_same(ones: dict[str, Ranking], others: dict[str, Ranking]) -> bool:
    """Whether two sets of answers, by question, are `same`."""
    return all(same(ones[text], others[text]) for text in TEXTS)
