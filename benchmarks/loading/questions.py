"""Questions asked under load: short descriptions, the same ones for the same seed, with everything that learns turned off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.data.filled_home import sentences
from benchmarks.loading.generator import SEARCH, STREAM, Question
from benchmarks.loading.schedule import Arrival

FIXED: Mapping[str, Any] = {"trust": False, "tags": False, "gate": False, "adaptive": False}  # answers do not depend on history


def query_mix(
    *, deadline: float, seed: int = 0, distinct: int = 400, streams: float = 0.0, body: Mapping[str, Any] | None = None
) -> Callable[[Arrival], Question]:
    """Return a function that maps arrivals to questions.

    Args:
        deadline: Seconds that each question allows.
        seed: Draws which question comes when.
        distinct: Number of different questions.
        streams: Share of questions on the streaming route.
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
    """Return a function that asks the same few texts in turn, so that answers can be compared: arrival n asks text n modulo."""

    def ask(arrival: Arrival) -> Question:
        return Question({**FIXED, **(body or {}), "query": texts[arrival.number % len(texts)]}, deadline=deadline)

    return ask
