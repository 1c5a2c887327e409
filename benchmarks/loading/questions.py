"""What is asked under load? Short descriptions in turn, the same ones for the same seed, with nothing that learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.loading.generator import SEARCH, STREAM, Question
from benchmarks.loading.schedule import Arrival
from benchmarks.query_latency import sentences

FIXED: Mapping[str, Any] = {"trust": False, "tags": False, "gate": False, "adaptive": False}  # answers do not depend on history


def request_context(
    *, deadline: float, seed: int = 0, distinct: int = 400, streams: float = 0.0, body: Mapping[str, Any] | None = None
) -> Callable[[Arrival], Question]:
    """Maps arrivals to questions.

    Args:
        deadline: Seconds for each.
        seed: Chooses which question comes when.
        distinct: How many different ones there are.
        streams: Share asked on the streaming route.
        body: Further members of every request, over `FIXED`.
    """
    texts = sentences(distinct)

    def ask(arrival: Arrival) -> Question:
        rng = np.random.default_rng([seed, arrival.number])
        place, streamed = rng.integers(len(texts)), rng.random() < streams
        asked = {**FIXED, **(body or {}), "query": texts[place]}
        return Question(asked, deadline=deadline, path=STREAM if streamed else SEARCH)

    return ask


def fixed(texts: list[str], *, deadline: float, body: Mapping[str, Any] | None = None) -> Callable[[Arrival], Question]:
    """The same few questions in turn: arrival n asks text n modulo their number. For comparing answers."""

    def ask(arrival: Arrival) -> Question:
        return Question({**FIXED, **(body or {}), "query": texts[arrival.number % len(texts)]}, deadline=deadline)

    return ask
