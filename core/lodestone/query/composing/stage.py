"""First pass of a composed query: each part's share of the score in each space, the candidates, and their ranking.

What a part decides of the score is divided among the spaces that it is compared in: for words as the weights of spaces fitted
to these words say, trust included, for pictures mostly to spaces that know scenes. Words are compared with captions too, where
there are any. Tags, the gate and guides are for words alone and take no part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.clock import within
from lodestone.config.compositions import Role
from lodestone.generators.query_notes import describe_failure
from lodestone.query.composing.candidates import FEWEST, Candidates, CandidateSource, Standing
from lodestone.query.composing.captions import CaptionSearch
from lodestone.query.composing.ranking import POOL, diversified, shares_of, similarities
from lodestone.query.first_pass import FirstPass, QueryWeights
from lodestone.query.learned_stages import LearnedStages
from lodestone.query.leaves import EncodedLeaf, EncodedQuery
from lodestone.query.parts import Part
from lodestone.query.running import RunningQuery, too_late
from lodestone.query.stages import SpaceWeigher
from lodestone.query.tree import Text
from lodestone.query.weighting.trust import apply_trust, prior_trust
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import WEIGHTED_SUM, FusedList, RankedList, fuse_in_tiers
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Ranking
from lodestone.spaces.names import CAPTIONS, LABELS
from lodestone.store.base import VectorStore

CAPTION_SHARE: Final = 0.6
"""Share of a part in words that is decided by captions, where there are any (benchmarks/learning/composed.py)."""

PICTURE_TRUST: Final[Mapping[str, float]] = {LABELS: 1 / 3}
"""Space -> how much it counts for pictures beside others, which count 1: labels tell pictures of one kind of thing apart less
(benchmarks/learning/composed.py)."""

_EMPTY: Final = Ranking(FusedList((), np.empty(0)))
_Standings = Mapping[tuple[str, str], Standing]


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
    ) -> None:
        self._source = source
        self._captions = captions
        self._calibration = calibration
        self._store = store
        self._weigher = weigher
        self._learned = learned
        self._priors = priors
        self._rule = rule
        self._modality_weights = modality_weights
        self._text_encoder = text_encoder

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return what each space decides of the score, over all parts."""
        assigned = await self._learned.trust(query, encoded.text_vectors)
        searches = self._searches(query, encoded, assigned.weights)
        return QueryWeights(_by_space(searches), assigned.topic, assigned.weights)

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Search the parts in their spaces, and rank what was found by the joint similarity.

        Raises:
            DeadlineExceededError: the deadline passed before anything was found.
            StoreError, CatalogError: what is searched cannot be read.
        """
        searches = self._searches(query, encoded, weights.trust)
        if not searches:
            return FirstPass(_EMPTY, weights)
        in_spaces = [one for one in searches if one.space != CAPTIONS]
        in_captions = [one for one in searches if one.space == CAPTIONS]
        avoided = [part.name for part in query.resolved.parts if part.avoid]
        rules = query.rules(query.search_deadline)
        try:
            standings = await self._standings(searches, rules.deadline)
            spoken = asyncio.create_task(self._spoken(query, in_captions, avoided))
            try:
                found = await self._source.search(in_spaces, rules, query.stopwatch, standings=standings)
            finally:
                captioned = await spoken
            candidates = Candidates((*found.found, *captioned), late=found.late)
            if not candidates.found:
                raise TimeoutError
            late = set(candidates.late)
            timely = [one for one in in_spaces if one.space not in late]
            scored = await self._source.score(timely, candidates.ids, rules, query.stopwatch)
        except TimeoutError as error:
            raise too_late("searching") from error
        scored += await self._by_captions(query, in_captions, candidates.ids, avoided)
        searches, weights = self._reweighed(query, encoded, weights, scored)
        if self._modality_weights:
            searches = self._by_modality(query, searches, standings)
            weights = replace(weights, by_space=_by_space(searches))
        weight_of = {(one.guide, one.space): one.weight for one in searches}
        scored = [replace(one, weight=weight_of[one.guide, one.space]) for one in scored if (one.guide, one.space) in weight_of]
        ranking = self._ranking(query, replace(candidates, scored=tuple(scored)), standings, avoided)
        if query.resolved.diversity > 0:
            ranking = await self._diverse(query, ranking, in_spaces)
        return FirstPass(replace(ranking, searches=tuple(searches)), weights)

    def _reweighed(
        self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights, scored: Sequence[RankedList]
    ) -> tuple[list[ListSearch], QueryWeights]:
        """Return the searches, weighed by what was found: words that no picture matches by its labels count little there."""
        avoided = {part.name for part in query.resolved.parts if part.avoid}
        best: dict[str, dict[str, float]] = {}
        for one in scored:
            if one.ids:
                nearest = -one.scores[-1] if one.guide in avoided else one.scores[0]
                best.setdefault(one.guide, {})[one.space] = float(nearest)
        searches = self._searches(query, encoded, weights.trust, best)
        return searches, replace(weights, by_space=_by_space(searches))

    def _by_modality(
        self,
        query: RunningQuery,
        searches: Sequence[ListSearch],
        standings: _Standings,
    ) -> list[ListSearch]:
        """Return the searches weighed as the composition's modalities are.

        Those weights are of cosines (MUST, lemma 1), and the ranking joins similarities in units of their spread, so each is
        multiplied by it. By the rule `sum` the order is then that of the joint similarity under these weights. Modalities
        without a weight are not compared; if none has one, the searches stay as they are.
        """
        of_part = {part.name: part for part in query.resolved.parts}
        amounts = []
        for one in searches:
            part = of_part[one.guide]
            role = Role.AUXILIARY if isinstance(part.leaf, Text) else Role.TARGET
            spread = standings[one.guide, one.space].spread
            amounts.append(part.weight * self._modality_weights.get((one.space, role), 0.0) * spread)
        total = sum(amounts)
        if total <= 0:
            return list(searches)
        weighed = zip(searches, amounts, strict=True)
        return [replace(one, weight=amount / total) for one, amount in weighed if amount > 0]

    def _searches(
        self,
        query: RunningQuery,
        encoded: EncodedQuery,
        trust: Mapping[str, float],
        best: Mapping[str, Mapping[str, float]] | None = None,
    ) -> list[ListSearch]:
        """Return the searches of all parts, one a part and space; the vector of a part to avoid is negated.

        Args:
            query: The query under way.
            encoded: Its leaves.
            trust: Space -> learnt trust.
            best: Part -> space -> similarity of the nearest picture; None before searching.
        """
        resolved = query.resolved
        searches = []
        for part, leaf in zip(resolved.parts, encoded.leaves, strict=True):
            sign = np.float32(-1 if part.avoid else 1)
            shares = self._shares(part, leaf, encoded.spaces, trust, (best or {}).get(part.name))
            words = leaf.text_vectors.get(self._text_encoder)
            if words is not None and resolved.captions is not None:
                rest = 1 - CAPTION_SHARE if shares else 0.0
                shares = {space: share * rest for space, share in shares.items()}
                weight = part.weight * (1 - rest)
                searches.append(ListSearch(part.name, CAPTIONS, resolved.captions, weight, sign * words))
            searches += [
                ListSearch(part.name, space, collection, part.weight * shares[space], sign * leaf.vectors[collection])
                for space, collection in encoded.spaces.items()
                if shares.get(space, 0.0) > 0
            ]
        return searches

    def _shares(
        self,
        part: Part,
        leaf: EncodedLeaf,
        spaces: Mapping[str, str],
        trust: Mapping[str, float],
        best: Mapping[str, float] | None,
    ) -> Mapping[str, float]:
        """Return the share of each space in what a part decides; they sum to 1, or there are none."""
        names = [space for space, collection in spaces.items() if collection in leaf.vectors]
        if not names:
            return {}
        in_words = isinstance(part.leaf, Text)
        vectors = {name: vector[np.newaxis] for name, vector in leaf.text_vectors.items()}
        if in_words:
            weights = self._weigher.weights(vectors, names, best=best)
            learnt = {space: trust[space] for space in names if space in trust}
        else:
            weights, learnt = {space: PICTURE_TRUST.get(space, 1.0) for space in names}, {}
        trusted = apply_trust(weights, learnt or prior_trust(self._priors, names))
        total = sum(trusted.values())
        return {space: weight / total for space, weight in trusted.items()} if total > 0 else {}

    async def _standings(self, searches: Sequence[ListSearch], deadline: float) -> _Standings:
        collections = {one.collection for one in searches}
        if all(self._calibration.known(collection) is not None for collection in collections):
            return self._measured(searches)
        return await within(asyncio.to_thread(self._measured, searches), deadline)

    def _measured(self, searches: Sequence[ListSearch]) -> _Standings:
        standings = {}
        for one in searches:
            if one.space == CAPTIONS:
                standings[one.guide, one.space] = Standing(*self._calibration.standing(one.collection, one.vector))
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
        themselves = {part.image_id for part in resolved.parts}
        search = asyncio.to_thread(
            self._captions.found, wanted, depth=resolved.depth, filter_=resolved.filter, without=themselves
        )
        try:
            return await within(search, query.search_deadline)
        except TimeoutError:
            query.notes.left_out("captions: out of time")
        except Exception as error:  # noqa: BLE001  (the spaces can answer without captions)
            query.notes.failed(f"captions are left out: {describe_failure(error)}")
        return []

    async def _by_captions(
        self, query: RunningQuery, searches: Sequence[ListSearch], image_ids: Sequence[str], avoided: Sequence[str]
    ) -> list[RankedList]:
        if not searches:
            return []
        scoring = asyncio.to_thread(self._captions.scored, searches, image_ids, avoided=avoided)
        try:
            with query.stopwatch.stage("captions"):
                return await within(scoring, query.search_deadline)
        except TimeoutError:
            query.notes.left_out("captions: out of time")
        except Exception as error:  # noqa: BLE001  (as above)
            query.notes.failed(f"captions are left out: {describe_failure(error)}")
        return []

    def _ranking(self, query: RunningQuery, candidates: Candidates, standings: _Standings, avoided: Sequence[str]) -> Ranking:
        with query.stopwatch.stage("fuse"):
            completed = tuple(shares_of(candidates.scored, standings, rule=self._rule))
            fused = fuse_in_tiers(WEIGHTED_SUM, candidates.found, completed, depths=query.resolved.depths)
        dropped = tuple(f"space {space!r}: out of time" for space in candidates.late)
        shown = similarities(candidates.scored, avoided)
        return Ranking(fused, candidates.found, (), completed, dropped, shown)

    async def _diverse(self, query: RunningQuery, ranking: Ranking, searches: Sequence[ListSearch]) -> Ranking:
        """Return the ranking with what each picture loses for being like those before it."""
        heaviest = max(searches, key=lambda one: (one.weight, one.space), default=None)
        pool = list(ranking.fused.ids[:POOL])
        if heaviest is None or not pool:
            return ranking
        reading = asyncio.to_thread(self._store.retrieve, heaviest.collection, pool, with_payload=False)
        try:
            with query.stopwatch.stage("diversity"):
                points = await within(reading, query.search_deadline)
                lost = diversified(
                    ranking.fused, points.ids, np.asarray(points.vectors, np.float32), diversity=query.resolved.diversity
                )
        except TimeoutError:
            query.notes.left_out("diversity: out of time")
            return ranking
        completed = (*ranking.completed, lost)
        fused = fuse_in_tiers(WEIGHTED_SUM, ranking.lists, completed, depths=query.resolved.depths)
        return replace(ranking, fused=fused, completed=completed)


def _by_space(searches: Sequence[ListSearch]) -> dict[str, float]:
    """Return what each space decides of the score, over all parts."""
    weights: dict[str, float] = {}
    for one in searches:
        weights[one.space] = weights.get(one.space, 0.0) + one.weight
    return weights
