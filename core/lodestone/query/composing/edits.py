"""Guides of composed queries: pictures to look for, edited by the words that are looked for (MUST, option 2: a guide).

Each picture to look for is edited by a guide engine, one after another. The edited picture is embedded in every space, and its
vectors stand in the place of the picture's own; words stay parts of their own beside it. Pictures to avoid are never edited.
The first pass, which compares the pictures themselves, is the answer until then. It stays the answer where no picture could be
edited, and a picture that could not is compared by its own vectors. The answer says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import remaining, within
from lodestone.errors import ConfigurationError, DeadlineExceededError
from lodestone.generators.base import Guide, GuideRequest, PictureEdit
from lodestone.generators.pictures import reduced
from lodestone.query.asking.parts import EDITED_SIDE, Part, editable
from lodestone.query.asking.running import RunningQuery
from lodestone.query.asking.tree import Picture
from lodestone.query.composing.stage import ComposedStage
from lodestone.query.composing.targets import guided_targets
from lodestone.query.contracts import Encoder, GuideSource, PictureSource, Pixels
from lodestone.query.guides.outcome import GuideOutcome, GuideVectors
from lodestone.query.guides.search import embed_guides
from lodestone.query.retrieving.first_pass import FirstPass, QueryWeights
from lodestone.query.retrieving.leaves import EncodedQuery

_RGB = 3


class EditStage:
    """Edits the pictures of composed queries, and ranks by what came.

    Args:
        hub: Edits pictures.
        encoder: Embeds what came.
        composed: Ranks.
        pictures: Reads indexed pictures; None where there are none to be read.
        strength: How far an edited picture may go from the picture, in (0, 1].
    """

    def __init__(
        self,
        *,
        hub: GuideSource,
        encoder: Encoder,
        composed: ComposedStage,
        pictures: PictureSource | None,
        strength: float,
    ) -> None:
        self._hub = hub
        self._encoder = encoder
        self._composed = composed
        self._pictures = pictures
        self._strength = strength

    async def run(
        self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights
    ) -> AsyncGenerator[tuple[Guide, ...] | GuideOutcome, None]:
        """Yield each edited picture as it comes, and at the end the outcome.

        Args:
            query: The query under way.
            encoded: Its leaves.
            weights: As the first pass found them.
        """
        outcome, used = GuideOutcome(), dict[int, Guide]()
        wanted = editable(query.resolved.composing.parts)
        for turn, number in enumerate(wanted):
            part = query.resolved.composing.parts[number]
            if turn >= query.resolved.guiding.most:
                query.notes.left_out(_left_out(part, f"the query has at most {query.resolved.guiding.most} guides"))
                continue
            guide = await self._guarded(query, part, turn)
            if guide is None:
                continue
            outcome = outcome.with_guides([guide])
            yield (guide,)
            if guide.guide_id in query.resolved.guiding.without:
                query.notes.left_out(_left_out(part, "you left it out"))
                continue
            vectors = await self._embedded(query, part, guide)
            if vectors is not None:
                outcome = outcome.with_vectors({guide.guide_id: vectors})
                used[number] = guide
        if used:
            outcome = await self._ranked(query, encoded, weights, outcome, used)
        yield outcome

    async def _guarded(self, query: RunningQuery, part: Part, turn: int) -> Guide | None:
        """Return the edited picture of a part; None for none, which the query's notes say."""
        started = time.monotonic()
        try:
            with _noted(query, part):
                pixels = await within(self._pixels(part), query.search_deadline)
                if pixels is None:
                    query.notes.left_out(_left_out(part, "its picture is not kept or cannot be read"))
                    return None
                guide = await self._edited(query, part, pixels, turn)
                if guide is None:
                    late = remaining(query.search_deadline) <= 0
                    query.notes.left_out(_left_out(part, "out of time" if late else "no engine gave one"))
                return guide
        finally:
            query.stopwatch.add("generate", time.monotonic() - started)
        return None

    async def _pixels(self, part: Part) -> Pixels | None:
        """Return the pixels of a part's picture; None where they are not kept (a refined upload) or cannot be read."""
        leaf = part.leaf
        if isinstance(leaf, Picture):
            return await asyncio.to_thread(reduced, leaf.pixels, EDITED_SIDE)
        if self._pictures is None or not part.image_id:
            return None
        pixels = await asyncio.to_thread(self._pictures.pixels, part.image_id, side=EDITED_SIDE, region=leaf.source.region)
        return None if pixels is None else await asyncio.to_thread(reduced, pixels, EDITED_SIDE)

    async def _edited(self, query: RunningQuery, part: Part, pixels: Pixels, turn: int) -> Guide | None:
        resolved, notes = query.resolved, query.notes
        request = GuideRequest(
            query=resolved.words,
            prompt=resolved.words,
            n=1,
            first=turn,  # of its own number: two pictures of one query are two guides
            seed=resolved.guiding.seed,
            tenant=resolved.visibility.tenant,
            edit=PictureEdit(pixels, self._strength),
        )
        batches = self._hub.draw(
            request,
            engines=[name for name in resolved.guiding.generators if resolved.guiding.named or self._hub.enabled(name)],
            batch=None,
            deadline=query.search_deadline,
            budget=None if resolved.guiding.budget is None else max(0.0, resolved.guiding.budget - notes.cost),
            log=notes,
        )
        async with aclosing(batches):
            async for batch in batches:
                for guide in batch:
                    if _is_picture(guide.pixels):
                        told = {"part": part.name, "edited_from": part.image_id or "an uploaded picture"}
                        return replace(guide, provenance={**guide.provenance, **told})
                    notes.failed(f"generator {guide.engine!r} gave no picture for part {part.name!r}")
        return None

    async def _embedded(self, query: RunningQuery, part: Part, guide: Guide) -> GuideVectors | None:
        deadline, collections = query.search_deadline, query.resolved.spaces.values()
        with _noted(query, part), query.stopwatch.stage("guides"):
            embedding = embed_guides([guide], encoder=self._encoder, collections=collections, deadline=deadline)
            vectors = (await within(embedding, deadline))[guide.guide_id]
            await within(asyncio.to_thread(self._hub.keep_vectors, guide, vectors), deadline)
            return vectors
        return None

    async def _ranked(
        self,
        query: RunningQuery,
        encoded: EncodedQuery,
        weights: QueryWeights,
        outcome: GuideOutcome,
        used: Mapping[int, Guide],
    ) -> GuideOutcome:
        """Return the outcome with the ranking by the edited pictures; without one where that failed or was late."""
        vectors = {number: outcome.vectors[guide.guide_id] for number, guide in used.items()}
        guided, own = guided_targets(encoded, query.resolved.composing.parts, vectors)
        ranked: FirstPass | None = None
        with query.notes.doing_without("guides", "guides are left out"), query.stopwatch.stage("guides"):
            try:
                ranked = await self._composed.rank(query, guided, weights, kept=own)
            except DeadlineExceededError as error:
                raise TimeoutError from error
        if ranked is None:
            return outcome
        searches = tuple(
            replace(one, guide=used[number].guide_id)
            for number in used
            for one in ranked.ranking.searches
            if one.guide == query.resolved.composing.parts[number].name
        )
        return replace(outcome, ranking=ranked.ranking, searches=searches, space_weights=ranked.weights.by_space)


def check_editors(hub: GuideSource | None, names: Sequence[str], *, composition: str) -> None:
    """Check that an engine of a home's queries edits pictures, enabled or not.

    Args:
        hub: All engines; None without any.
        names: The engines that queries ask.
        composition: Name of the composition that wants pictures edited.

    Raises:
        ConfigurationError: there is none.
    """
    asked = ", ".join(names) or "none"
    editors = [] if hub is None else [name for name in hub.names if hub.edits(name)]
    if set(editors) & set(names):
        return
    hint = (
        f"add it to query.generators: {json.dumps([*names, editors[0]])}"
        if editors
        else "add one (`[generators.NAME]` with kind = 'diffusers') and name it in query.generators, or choose another target"
    )
    raise ConfigurationError(
        f"compositions.{composition}.target is 'guide', but no engine that queries ask edits pictures: {asked}",
        hint=hint,
    )


def _is_picture(pixels: NDArray[np.uint8] | None) -> bool:
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        return False
    return pixels.ndim == _RGB and pixels.shape[-1] == _RGB and 0 not in pixels.shape


def _noted(query: RunningQuery, part: Part) -> AbstractContextManager[None]:
    return query.notes.doing_without(_unguided(part), f"part {part.name!r} has no guide")


def _left_out(part: Part, why: str) -> str:
    return f"{_unguided(part)}: {why}"


def _unguided(part: Part) -> str:
    return f"the guide of {part.name!r}, whose own picture is compared"
