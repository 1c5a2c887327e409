"""First pass of a composed query: the weights of its parts, the candidates, and their ranking.

Each part has a share of the score in each space (weighing.py). Words are compared with captions too, where there are any. Tags,
the gate and guides are for words alone and take no part.

Centred queries: the vector of a part without what ordinary pictures, or ordinary words, have in common. Similarity to a part
has two sources: what the part says, and what all parts of its kind say. Some pictures are like every picture, or like every
word, and so come high whatever is asked (hubs). Taking the mean of its kind from a part's vector takes that away (i-CIR,
Psomas et al., 2025, centres all features):

    q' = (q - beta * mean) / |q - beta * mean|

The mean of pictures is that of the sample that calibrates scores. The mean of words is that of the class names, in spaces that
know any. Captions are not centred. Records keep the parts' own vectors, so refinements centre them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import within
from lodestone.config.compositions import Role
from lodestone.query.asking.parts import Part
from lodestone.query.asking.running import RunningQuery, too_late
from lodestone.query.composing.candidates import FEWEST, Candidates, CandidateSource, Standing
from lodestone.query.composing.captions import CaptionSearch
from lodestone.query.composing.ranking import POOL, diversified, shares_of, similarities
from lodestone.query.composing.targets import composed_targets
from lodestone.query.composing.weighing import PartWeighing, Standings, by_space, without_captions
from lodestone.query.contracts import SpaceWeigher
from lodestone.query.retrieving.first_pass import FirstPass, QueryWeights
from lodestone.query.retrieving.learned_stages import LearnedStages
from lodestone.query.retrieving.leaves import EncodedQuery
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import WEIGHTED_SUM, FusedList, RankedList, fuse_in_tiers
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Ranking
from lodestone.spaces.names import CAPTIONS
from lodestone.store.base import VectorStore

_WITHOUT_CAPTIONS: Final = ("captions", "captions are left out")
_EMPTY: Final = Ranking(FusedList((), np.empty(0)))


class ComposedStage:
    """Weighs and ranks composed queries.

    Args:
        source: Finds and scores candidates in the spaces.
        captions: Finds and scores candidates by their captions.
        calibration: Knows ordinary pictures and captions.
        store: Reads the vectors that diversity compares.
        weigher: Fits weights of spaces to words.
        learned: Knows trust.
        priors: Space -> trust before any feedback, of the profile.
        rule: Key of `combining.RULES`: how the similarities of the parts are joined.
        modality_weights: (space, role) -> weight of the modality in the composition, as set or learnt; empty for neither.
        text_encoder: Name of the encoder whose vectors captions have.
        composed_in: Spaces in which pictures are compared by composition vectors (targets.py).
        modalities: (space, role) of the modalities that parts are compared in; None for every space that they have a vector in.
    """

    def __init__(
        self,
        *,
        source: CandidateSource,
        captions: CaptionSearch,
        calibration: ScoreCalibration,
        store: VectorStore,
        weigher: SpaceWeigher,
        learned: LearnedStages,
        priors: Mapping[str, float],
        rule: str,
        text_encoder: str,
        modality_weights: Mapping[tuple[str, Role], float],
        composed_in: Collection[str] = (),
        modalities: Collection[tuple[str, Role]] | None = None,
    ) -> None:
        self._source = source
        self._captions = captions
        self._calibration = calibration
        self._store = store
        self._weigher = weigher
        self._parts = PartWeighing(
            weigher, priors=priors, modality_weights=modality_weights, text_encoder=text_encoder, modalities=modalities
        )
        self._learned = learned
        self._rule = rule
        self._composed_in = composed_in

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return what each space decides of the score, over all parts, before the weights of modalities.

        A part that nothing compares is noted.
        """
        assigned = await self._learned.trust(query, encoded.text_vectors)
        searches = self._parts.searches(query, encoded, assigned.weights, await self._captions_of(query, encoded))
        compared = {one.guide for one in searches}
        for part in query.resolved.composing.parts:
            if part.name not in compared:
                query.notes.left_out(f"part {part.name!r}: no space that is searched compares it")
        return QueryWeights(by_space(searches), assigned.topic, assigned.weights)

    async def rank(
        self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights, *, kept: Sequence[ListSearch] = ()
    ) -> FirstPass:
        """Search the parts in their spaces, and rank what was found by the joint similarity.

        Args:
            query: The query under way.
            encoded: Its leaves.
            weights: As `weigh` found them.
            kept: Searches of weight 0 that the record keeps.

        Raises:
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what is searched cannot be read.
        """
        encoded, own = composed_targets(encoded, query.resolved.composing.parts, self._composed_in)
        captions = await self._captions_of(query, encoded)
        searches = self._parts.searches(query, encoded, weights.trust, captions)
        if not searches:
            return FirstPass(_EMPTY, weights)
        in_spaces, in_captions = _divided(searches)
        avoided = [part.name for part in query.resolved.composing.parts if part.avoid]
        rules = query.rules(query.search_deadline)
        try:
            in_spaces = await self._centred(query, in_spaces)
            standings = await self._standings([*in_spaces, *in_captions], avoided, rules.deadline)
            weighed = self._parts.by_modality(query, [*in_spaces, *in_captions], standings)
            in_spaces, in_captions = _divided(weighed)  # candidates are those of the weights that they are ranked by
            found = Candidates()
            if in_spaces:
                # By all rules but the sum, a part counts as much for a picture without captions as for others.
                silent = in_spaces if self._rule == "sum" else without_captions(in_spaces, in_captions)
                described = [*in_spaces, *in_captions] if in_captions else []
                found = await self._source.search(silent, rules, query.stopwatch, standings=standings, described=described)
            spoken = [] if found.by_captions else await self._spoken(query, in_captions, avoided)
            candidates = Candidates((*found.found, *spoken), late=found.late)
            if not candidates.found:
                raise TimeoutError
            late = set(candidates.late)
            timely = [one for one in in_spaces if one.space not in late]
            # Where filters leave no picture, the record still keeps what was searched for: a refinement may lift them.
            scored = await self._source.score(timely, candidates.ids, rules, query.stopwatch) if candidates.ids else []
        except TimeoutError as error:
            raise too_late("searching") from error
        scored += await self._by_captions(query, in_captions, candidates.ids, avoided)
        searches, weights = self._parts.reweighed(query, encoded, weights, scored, standings)
        weight_of = {(one.guide, one.space): one.weight for one in searches}
        scored = [replace(one, weight=weight_of[one.guide, one.space]) for one in scored if (one.guide, one.space) in weight_of]
        ranking = self._ranking(query, replace(candidates, scored=tuple(scored)), standings, avoided)
        ranking = replace(ranking, searches=(*searches, *own, *kept))
        if query.resolved.composing.diversity > 0:
            ranking = await self.diverse(query, ranking)
        return FirstPass(ranking, weights)

    async def _captions_of(self, query: RunningQuery, encoded: EncodedQuery) -> str | None:
        """Return the collection of captions; None where there are no words, or no captions to compare them with."""
        collection = query.resolved.captions
        if collection is None or not any(leaf.text_vectors for leaf in encoded.leaves):
            return None
        if self._calibration.fresh(collection):
            return collection if len(self._calibration.sample(collection)) else None
        with query.notes.doing_without(*_WITHOUT_CAPTIONS):
            sample = await within(asyncio.to_thread(self._calibration.sample, collection), query.search_deadline)
            return collection if len(sample) else None
        return None

    async def _centred(self, query: RunningQuery, searches: Sequence[ListSearch]) -> list[ListSearch]:
        """Return the searches with centred vectors, but for the rule `sum`, which is the joint similarity as it is defined."""
        if self._rule == "sum" or self._composed_in:
            return list(searches)

        def means() -> list[ListSearch]:
            return centred(
                searches,
                query.resolved.composing.parts,
                pictures=self._ordinary_pictures,
                words=self._weigher.ordinary_words(),
            )

        return await within(asyncio.to_thread(means), query.search_deadline)  # the mean of words is made of all class names

    def _ordinary_pictures(self, collection: str) -> NDArray[np.float32]:
        sample = self._calibration.sample(collection)
        return sample if len(sample) >= FEWEST else sample[:0]

    async def _standings(self, searches: Sequence[ListSearch], avoided: Collection[str], deadline: float) -> Standings:
        collections = {one.collection for one in searches}
        if all(self._calibration.fresh(collection) for collection in collections):
            return self._measured(searches, avoided)
        return await within(asyncio.to_thread(self._measured, searches, avoided), deadline)

    def _measured(self, searches: Sequence[ListSearch], avoided: Collection[str]) -> Standings:
        standings = {}
        for one in searches:
            if one.space == CAPTIONS:
                sign = -1 if one.guide in avoided else 1  # the vector of words to avoid is negated, and usual words are not
                mean, spread = self._calibration.standing(one.collection, np.float32(sign) * one.vector)
                standings[one.guide, one.space] = Standing(sign * mean, spread)
                continue
            sample = self._calibration.sample(one.collection)
            products: NDArray[np.float32] = sample @ one.vector if len(sample) >= FEWEST else np.zeros(0, np.float32)
            usual = Standing(float(products.mean()), max(float(products.std()), 1e-6)) if len(products) else Standing()
            standings[one.guide, one.space] = usual
        return standings

    async def _spoken(self, query: RunningQuery, searches: Sequence[ListSearch], avoided: Sequence[str]) -> list[RankedList]:
        """Return the pictures that captions find for the words that are looked for."""
        wanted = [one for one in searches if one.guide not in avoided]
        if not wanted:
            return []
        resolved = query.resolved
        themselves = {part.image_id for part in resolved.composing.parts}
        search = asyncio.to_thread(
            self._captions.found, wanted, depth=resolved.depth, filter_=resolved.filter, without=themselves
        )
        with query.notes.doing_without(*_WITHOUT_CAPTIONS):
            return await within(search, query.search_deadline)
        return []

    async def _by_captions(
        self, query: RunningQuery, searches: Sequence[ListSearch], image_ids: Sequence[str], avoided: Sequence[str]
    ) -> list[RankedList]:
        if not searches:
            return []
        scoring = asyncio.to_thread(self._captions.scored, searches, image_ids, avoided=avoided)
        with query.notes.doing_without(*_WITHOUT_CAPTIONS), query.stopwatch.stage("captions"):
            return await within(scoring, query.search_deadline)
        return []

    def _ranking(self, query: RunningQuery, candidates: Candidates, standings: Standings, avoided: Sequence[str]) -> Ranking:
        with query.stopwatch.stage("fuse"):
            completed = tuple(shares_of(candidates.scored, standings, rule=self._rule)) if candidates.scored else ()
            fused = fuse_in_tiers(WEIGHTED_SUM, candidates.found, completed, depths=query.resolved.depths)
        dropped = tuple(f"space {space!r}: out of time" for space in candidates.late)
        shown = similarities(candidates.scored, avoided)
        return Ranking(fused, candidates.found, (), completed, dropped, shown)

    async def diverse(self, query: RunningQuery, ranking: Ranking) -> Ranking:
        """Return the ranking with what each picture loses for being like those before it."""
        in_spaces, _ = _divided([one for one in ranking.searches if one.weight > 0])
        heaviest = max(in_spaces, key=lambda one: (one.weight, one.space), default=None)
        pool = list(ranking.fused.ids[:POOL])
        if not pool:
            return ranking
        if heaviest is None:
            query.notes.left_out("diversity: captions alone have a weight, and pictures are compared in a space")
            return ranking
        reading = asyncio.to_thread(self._store.retrieve, heaviest.collection, pool, with_payload=False)
        try:
            with query.stopwatch.stage("diversity"):
                points = await within(reading, query.search_deadline)
                lost = diversified(
                    ranking.fused,
                    points.ids,
                    np.asarray(points.vectors, np.float32),
                    diversity=query.resolved.composing.diversity,
                )
        except TimeoutError:
            query.notes.left_out("diversity: out of time")
            return ranking
        completed = (*ranking.completed, lost)
        fused = fuse_in_tiers(WEIGHTED_SUM, ranking.lists, completed, depths=query.resolved.depths)
        return replace(ranking, fused=fused, completed=completed)


def _divided(searches: Sequence[ListSearch]) -> tuple[list[ListSearch], list[ListSearch]]:
    """Return the searches of the spaces, and those of the captions."""
    return [one for one in searches if one.space != CAPTIONS], [one for one in searches if one.space == CAPTIONS]


SHARE: Final = 0.5
"""Share of the mean that is taken (docs/composed.md, chosen on validation photos)."""

_SHORTEST: Final = 1e-6  # of a difference that has a direction

_Row = NDArray[np.float32]


def centred(
    searches: Sequence[ListSearch],
    parts: Sequence[Part],
    *,
    pictures: Callable[[str], _Row],
    words: Mapping[str, _Row],
) -> list[ListSearch]:
    """Return the searches with centred vectors; those without a mean stay as they are.

    Args:
        searches: One a part and space; the vectors of parts to avoid are negated.
        parts: The parts of the query.
        pictures: Collection -> (n, dim) float32 vectors of ordinary pictures, none where there are too few.
        words: Space -> (dim,) float32 mean vector of ordinary words.
    """
    of_part = {part.name: part for part in parts}
    means: dict[str, _Row] = {}
    found = []
    for one in searches:
        part = of_part[one.guide]
        if part.leaf.text:
            mean = SHARE * words[one.space] if one.space in words else None
        else:
            if one.collection not in means:
                means[one.collection] = _mean(pictures(one.collection), len(one.vector))
            mean = SHARE * means[one.collection]
        found.append(one if mean is None else _without(one, mean, avoid=part.avoid))
    return found


def _mean(sample: _Row, dim: int) -> _Row:
    return sample.mean(axis=0, dtype=np.float32) if len(sample) else np.zeros(dim, np.float32)


def _without(one: ListSearch, mean: _Row, *, avoid: bool) -> ListSearch:
    sign = np.float32(-1 if avoid else 1)
    vector = one.vector - sign * np.asarray(mean, np.float32)
    length = float(np.linalg.norm(vector))
    return replace(one, vector=np.asarray(vector / length, np.float32)) if length > _SHORTEST else one
