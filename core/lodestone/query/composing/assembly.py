"""Stages of composed queries, made for each composition of a home."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from lodestone.catalog.reading import CatalogReader
from lodestone.config.compositions import Composition, Role
from lodestone.generators.base import Guide
from lodestone.query.asking.running import RunningQuery
from lodestone.query.composing.alternatives import AlternativesStage
from lodestone.query.composing.candidates import FusedSource, UnionSource
from lodestone.query.composing.captions import CaptionSearch
from lodestone.query.composing.edits import EditStage, check_editors
from lodestone.query.composing.stage import ComposedStage
from lodestone.query.contracts import Encoder, GuideSource, PictureSource, SpaceWeigher
from lodestone.query.guides.captions import CaptionWords
from lodestone.query.guides.outcome import GuideOutcome
from lodestone.query.retrieving.first_pass import FirstPass, QueryWeights
from lodestone.query.retrieving.learned_stages import LearnedStages
from lodestone.query.retrieving.leaves import EncodedQuery
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.searcher import Searcher
from lodestone.store.base import VectorStore


@dataclass(frozen=True, slots=True)
class CompositionStages:
    """The stages that answer composed queries by one composition.

    Attributes:
        composition: The composition, with set or learnt weights.
        composed: Weighs and ranks.
        edits: Edits pictures; None where their own vectors are compared.
    """

    composition: Composition
    composed: ComposedStage
    edits: EditStage | None = None

    @property
    def alternatives(self) -> AlternativesStage:
        """Answers queries with several alternatives, each by this composition."""
        return AlternativesStage(self.composed)

    async def weigh(self, query: RunningQuery, encoded: EncodedQuery) -> QueryWeights:
        """Return the weights of the query's spaces; see `passes.QueryPass.weigh`."""
        return await self.composed.weigh(query, encoded)

    async def rank(self, query: RunningQuery, encoded: EncodedQuery, weights: QueryWeights) -> FirstPass:
        """Return what the parts find together; see `passes.QueryPass.rank`."""
        return await self.composed.rank(query, encoded, weights)

    def draw(
        self, query: RunningQuery, encoded: EncodedQuery, first: FirstPass
    ) -> AsyncGenerator[tuple[Guide, ...] | GuideOutcome, None] | None:
        """Return what edits the pictures of the query; see `passes.QueryPass.draw`."""
        return None if self.edits is None else self.edits.run(query, encoded, first.weights)


@dataclass(frozen=True, slots=True)
class StageMaker:
    """Makes the stages of compositions, all over the same store and models.

    Attributes:
        store: Vectors.
        catalog: Knows captions.
        searcher: Searches single spaces.
        calibration: Knows ordinary pictures and captions.
        encoder: Embeds edited pictures.
        weigher: Fits weights of spaces to words.
        learned: Knows trust.
        priors: Space -> trust before any feedback, of the profile.
        text_encoder: Name of the encoder whose vectors captions have.
        hub: Edits pictures; None without any engine.
        generators: The engines that queries ask.
        pictures: Reads indexed pictures that are to be edited; None where they cannot be read.
    """

    store: VectorStore
    catalog: CatalogReader
    searcher: Searcher
    calibration: ScoreCalibration
    encoder: Encoder
    weigher: SpaceWeigher
    learned: LearnedStages
    priors: Mapping[str, float]
    text_encoder: str
    hub: GuideSource | None
    generators: Sequence[str]
    pictures: PictureSource | None

    def stages(self, composition: Composition) -> CompositionStages:
        """Return the stages of a composition.

        Raises:
            ConfigurationError: it wants pictures edited, and no engine of the queries edits any.
        """
        modalities = [(modality.space, modality.role) for modality in composition.modalities]
        composed = ComposedStage(
            source=FusedSource(self.store, composition, otherwise=UnionSource(self.searcher, self.store)),
            captions=CaptionSearch(self.store, CaptionWords(self.catalog)),
            calibration=self.calibration,
            store=self.store,
            weigher=self.weigher,
            learned=self.learned,
            priors=self.priors,
            rule=composition.rule,
            modality_weights={
                (modality.space, modality.role): composition.weights.get(modality.name, 0.0)
                for modality in composition.modalities
                if composition.weights
            },
            composed_in=[one.space for one in composition.of_role(Role.TARGET) if composition.target == "composed"],
            text_encoder=self.text_encoder,
            modalities=modalities if composition.declared else None,
        )
        if composition.target != "guide" or self.hub is None:
            return CompositionStages(composition, composed)
        check_editors(self.hub, self.generators, composition=composition.name)
        edits = EditStage(
            hub=self.hub,
            encoder=self.encoder,
            composed=composed,
            pictures=self.pictures,
            strength=composition.strength,
        )
        return CompositionStages(composition, composed, edits)
