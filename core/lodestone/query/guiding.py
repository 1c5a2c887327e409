"""How do guides come into a query? Ask the generators, fit what they give into the time left, turn it into searches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import LodestoneError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.clock import remaining
from lodestone.query.rescore import ListSearch
from lodestone.query.stages import Encoder

_log = logging.getLogger(__name__)

# Of the time left when generators are asked, this much is kept for searching what they give.
_KEPT_FOR_SEARCH: Final = 0.2
_CANCEL_GRACE_S: Final = 0.1  # for a generator that is told to stop; one that does not listen is left behind


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Fitted numbers of the fusion (benchmarks/exemplars.py).

    Attributes:
        guide_weight: What all guides together count at most, the query's own words counting 1.
        guide_depth: Candidates taken from each guide's list, the same for every page. What stands far down a guide's list is
            like the guide, not like the query; and every candidate is scored in every space anyway.
    """

    guide_weight: float = 0.5
    guide_depth: int = 25


@dataclass(slots=True)
class GuideLog:
    """What became of the generators: `warnings` for failures, `dropped` for what there was no time for."""

    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


async def ask(
    generators: Mapping[str, Generator], request: GuideRequest, *, deadline: float, log: GuideLog
) -> AsyncGenerator[list[Guide], None]:
    """Each generator's guides, as they come. A generator that fails or is late is reported in `log`, never raised.

    Args:
        generators: Name -> engine; they share `request.n`, the first ones getting the remainder.
        request: What to imagine; each engine gets a copy with its own `n` and the time by which it must answer.
        deadline: The query's, absolute.
        log: Filled as they fail.
    """
    until = deadline - _KEPT_FOR_SEARCH * remaining(deadline)
    tasks: dict[asyncio.Task[list[Guide]], str] = {}
    for (name, generator), n in zip(generators.items(), _shares(request.n, len(generators)), strict=True):
        if n:
            tasks[asyncio.create_task(generator.generate(replace(request, n=n, deadline=until)), name=f"generate {name}")] = (
                name
            )
    pending = set(tasks)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, timeout=remaining(until), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                log.dropped += [f"generator {tasks[task]!r}: out of time" for task in pending]
                return
            for task in sorted(done, key=lambda one: list(tasks).index(one)):
                guides = _outcome(task, tasks[task], log)
                if guides:
                    yield guides
    finally:
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=_CANCEL_GRACE_S)


def fit(guides: int, spaces: int, *, seconds_a_list: float, left: float) -> tuple[int, int]:
    """How many guides in how many spaces fit into the time left: fewer guides first, then fewer spaces. (0, 0): none.

    Args:
        guides: How many there are.
        spaces: How many can be searched.
        seconds_a_list: What one (guide, space) search costs, as the text pass measured it.
        left: Seconds.
    """
    lists = int(left / seconds_a_list) if seconds_a_list > 0 else guides * spaces
    for kept_spaces in range(spaces, 0, -1):
        kept_guides = min(guides, lists // kept_spaces)
        if kept_guides:
            return kept_guides, kept_spaces
    return 0, 0


async def searches_of(
    guides: Sequence[Guide],
    *,
    encoder: Encoder,
    spaces: Mapping[str, str],
    space_weights: Mapping[str, float],
    settings: FusionSettings,
) -> list[ListSearch]:
    """The (guide, space) lists to search; pixels of all guides are embedded in one call.

    Args:
        guides: With vectors for collections of `spaces`, or with pixels.
        encoder: Embeds pixels.
        spaces: Space -> collection.
        space_weights: As in the text pass.
        settings: What the guides' weights add up to at most, and how many candidates each list gives.
    """
    blank = [guide for guide in guides if guide.pixels is not None and not set(spaces.values()) <= guide.vectors.keys()]
    vectors: dict[str, dict[str, NDArray[np.float32]]] = {guide.guide_id: dict(guide.vectors) for guide in guides}
    if blank:
        embedded = await encoder.embed_pictures([guide.pixels for guide in blank if guide.pixels is not None])
        for row, guide in enumerate(blank):
            for collection, rows in embedded.items():
                vectors[guide.guide_id].setdefault(collection, rows[row])
    share = settings.guide_weight / max(1.0, sum(guide.weight for guide in guides))
    return [
        ListSearch(
            guide.guide_id, space, collection, share * guide.weight * space_weights[space], vector, depth=settings.guide_depth
        )
        for guide in guides
        for space, collection in spaces.items()
        if (vector := vectors[guide.guide_id].get(collection)) is not None and share * guide.weight * space_weights[space] > 0
    ]


def _outcome(task: asyncio.Task[list[Guide]], name: str, log: GuideLog) -> list[Guide]:
    try:
        return task.result()
    except LodestoneError as error:
        log.warnings.append(f"generator {name!r} gave nothing: {error.message}{f' ({error.hint})' if error.hint else ''}")
    except Exception as error:  # noqa: BLE001  (other people's code: it must not cost the answer; logged with its traceback)
        _log.exception("generator %s failed", name)
        log.warnings.append(f"generator {name!r} failed: {type(error).__name__}: {error}")
    return []


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (1 if part < total % parts else 0) for part in range(parts)]
