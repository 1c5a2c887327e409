"""Runner that sends many queries to an engine, a few at a time in one event loop; failed queries are kept as failures.

No query affects the next: the evaluation's home keeps no history and queries leave no tags in it, so the order does not matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lodestone.errors import LodestoneError
from lodestone_schemas.api import SearchRequest, SearchResponse

CONCURRENCY: Final = 4

QueryProgressCallback = Callable[[str, int, int], None]
"""Progress callback: gets the configuration, the number of queries answered, and their total number."""


class EvaluatedSystem(Protocol):
    """Answers search requests; the query engine is one implementation."""

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """Return the final answer.

        Raises:
            LodestoneError: the query failed.
        """


@dataclass(frozen=True, slots=True)
class EvaluatedAnswer:
    """Holds the result of one query.

    Attributes:
        names: Names of the pictures found, best first.
        scores: Their scores.
        ms: Time that the engine took, in milliseconds.
        gate: The gate's verdict; None where the gate did not run.
        predicted_ap: Average precision that the gate expects of the text pass; None where the gate did not run.
        guides: Number of guides used.
        rejected: Number of guides left out because they were unlike the others.
        cost: Cost of the guides.
        remarks: Warnings, and what was dropped.
        error: Code of the error, when the query failed.
    """

    names: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    ms: float = 0.0
    gate: str | None = None
    predicted_ap: float | None = None
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
    report_progress: Callable[[int], None] | None = None,
) -> list[EvaluatedAnswer]:
    """Send every request, and return the answers in the order of the requests.

    Args:
        engine: The engine, warmed up.
        requests: The requests to send.
        names: Image id -> picture's name; other pictures in an answer are left out.
        concurrency: Number of requests in progress at once.
        report_progress: Progress callback; gets the number of answers so far.

    Raises:
        LodestoneError: every query failed; this is the first one's error.
    """
    slots = asyncio.Semaphore(concurrency)
    errors: list[LodestoneError] = []
    done = 0

    async def ask(request: SearchRequest) -> EvaluatedAnswer:
        nonlocal done
        async with slots:
            try:
                answer = _answer_of(await engine.answer(request), names)
            except LodestoneError as error:
                errors.append(error)
                answer = EvaluatedAnswer(error=error.code)
        done += 1
        if report_progress is not None:
            report_progress(done)
        return answer

    answers = list(await asyncio.gather(*(ask(request) for request in requests)))
    if errors and len(errors) == len(requests):
        raise errors[0]
    return answers


def _answer_of(response: SearchResponse, names: Mapping[str, str]) -> EvaluatedAnswer:
    hits = [(names[hit.image_id], hit.score) for hit in response.hits if hit.image_id in names]
    return EvaluatedAnswer(
        names=tuple(name for name, _ in hits),
        scores=tuple(score for _, score in hits),
        ms=response.timings_ms.get("total", 0.0),
        gate=None if response.gate is None else response.gate.verdict,
        predicted_ap=None if response.gate is None else response.gate.predicted_ap,
        guides=sum(guide.status == "used" for guide in response.guides),
        rejected=sum(guide.status == "rejected" for guide in response.guides),
        cost=response.cost,
        remarks=(*response.warnings, *response.dropped),
    )
