"""How are many queries asked of an engine? A few at a time in one event loop; what fails is kept as a failure.

Nothing of a query remains for the next: the evaluation's home keeps no history and queries leave no tags in it, so the order
does not matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lodestone.errors import LodestoneError
from lodestone_schemas.api import SearchRequest, SearchResponse

CONCURRENCY: Final = 4

Told = Callable[[str, int, int], None]
"""Told of progress: configuration, queries answered, queries in all."""


class EvaluatedSystem(Protocol):
    """What answers; the query engine does."""

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """The final answer; raises `LodestoneError`."""


@dataclass(frozen=True, slots=True)
class EvaluatedAnswer:
    """What came of one query.

    Attributes:
        names: Found pictures, best first.
        scores: Their scores.
        ms: Milliseconds that the engine took.
        gate: The gate's verdict; None where it was not asked.
        guides: Guides used.
        rejected: Guides left out as unlike the others.
        cost: What they cost.
        remarks: Warnings, and what was dropped.
        error: Code of the error that there is instead of an answer.
    """

    names: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    ms: float = 0.0
    gate: str | None = None
    guides: int = 0
    rejected: int = 0
    cost: float = 0.0
    remarks: tuple[str, ...] = ()
    error: str | None = None


async def ask_all(
    engine: EvaluatedSystem,
    requests: Sequence[SearchRequest],
    *,
    names: Mapping[str, str],
    concurrency: int = CONCURRENCY,
    told: Callable[[int], None] | None = None,
) -> list[EvaluatedAnswer]:
    """Ask every request, in order of results.

    Args:
        engine: Answers; warmed up.
        requests: What to ask.
        names: Image id -> picture's name; others that are found are passed over.
        concurrency: How many at once.
        told: Called with the number of answers so far.

    Raises:
        LodestoneError: every single query failed: the first one's error.
    """
    free = asyncio.Semaphore(concurrency)
    errors: list[LodestoneError] = []
    done = 0

    async def ask(request: SearchRequest) -> EvaluatedAnswer:
        nonlocal done
        async with free:
            try:
                answer = _answer_of(await engine.answer(request), names)
            except LodestoneError as error:
                errors.append(error)
                answer = EvaluatedAnswer(error=error.code)
        done += 1
        if told is not None:
            told(done)
        return answer

    answers = list(await asyncio.gather(*(ask(request) for request in requests)))
    if errors and len(errors) == len(requests):
        raise errors[0]
    return answers


def _answer_of(response: SearchResponse, names: Mapping[str, str]) -> EvaluatedAnswer:
    found = [(names[hit.image_id], hit.score) for hit in response.hits if hit.image_id in names]
    return EvaluatedAnswer(
        names=tuple(name for name, _ in found),
        scores=tuple(score for _, score in found),
        ms=response.timings_ms.get("total", 0.0),
        gate=None if response.gate is None else response.gate.verdict,
        guides=sum(guide.status == "used" for guide in response.guides),
        rejected=sum(guide.status == "rejected" for guide in response.guides),
        cost=response.cost,
        remarks=(*response.warnings, *response.dropped),
    )
