"""Query engines that rank as NEEDLE does: by guides alone, with its weights, and with its trust rule on simulated feedback.

They use the home's pictures and models. All guide engines are on one tier and without limits of their own, so that each draws
the same number of guides. Guides come from the home's cache where they can: a picture is drawn once for all variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.config.engines import EngineSettings
from lodestone.generators.assembly import make_hub
from lodestone.query.contracts import EqualWeights
from lodestone.query.engine import QueryEngine
from lodestone.query.guides.captions import CaptionRule
from lodestone.query.guides.search import GUIDES_ALONE
from lodestone.query.retrieving.learned_stages import AssignedTrust, LearnedModels
from lodestone.retrieval.fusion import TEXT_GUIDE
from lodestone.trust.rule import learnt_by_needle, reciprocal_rank_losses
from lodestone_eval.ask import EvaluatedSystem
from lodestone_eval.needle_variants import NeedleSetup, NeedleVariant
from lodestone_schemas.api import SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.generators.hub import Hub
    from lodestone.home.runtime import Runtime
    from lodestone.query.contracts import Encoder
    from lodestone_eval.datasets.base import EvalQuery

JUDGED: Final = 10  # results of an answer that the simulated user looks at


def needle_setup(runtime: Runtime) -> NeedleSetup:
    """Return the embedders and the guide engines of a home; engines that are switched off in the settings are left out."""
    named = runtime.settings.query.generators
    settings = runtime.guide_engine_settings()
    kinds = {
        name: settings[name].kind if name in settings else name
        for name in dict.fromkeys(runtime.profile.generators if named is None else named)
        if name not in settings or settings[name].enabled
    }
    return NeedleSetup(runtime.profile.embedders, tuple(kinds), tuple(kinds.values()))


@dataclass(slots=True)
class NeedleTrust:
    """Trust in embedders by NEEDLE's own rule; every topic begins with the profile's weights.

    Attributes:
        eta: Learning rate.
        priors: Space -> weight before any feedback; 1 where it names none.
        weights: Topic -> space -> weight; the weights of a topic sum to 1.
    """

    eta: float
    priors: Mapping[str, float] = field(default_factory=dict)
    weights: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def in_memory(self) -> bool:
        """Whether `assign` would read nothing but memory now; it always does."""
        return True

    def assign(
        self,
        text_vector: NDArray[np.float32],  # noqa: ARG002  (a contract: topics come with the requests)
        *,
        encoder: str,  # noqa: ARG002
        topic: str | None,
        spaces: Sequence[str],
    ) -> AssignedTrust:
        """Return the present weights of a topic, as the query engine asks for them."""
        known = self._of(topic or "", spaces)
        return AssignedTrust(topic, {space: known[space] for space in spaces})

    def learn(self, response: SearchResponse, irrelevant: Sequence[str]) -> None:
        """Change the weights of the answer's topic by the wrong ones among its first results.

        Args:
            response: An answer with `explain`, whose hits name the lists that contain them.
            irrelevant: Ids of its wrong results.
        """
        wrong = set(irrelevant)
        ranks = [
            (part.space, part.rank)
            for hit in response.hits[:JUDGED]
            if hit.image_id in wrong
            for part in hit.contributions or ()
            if part.guide != TEXT_GUIDE
        ]
        topic = response.topic or ""
        weights = self._of(topic, list(response.space_weights))
        self.weights[topic] = learnt_by_needle(weights, reciprocal_rank_losses(ranks), eta=self.eta)

    def _of(self, topic: str, spaces: Sequence[str]) -> dict[str, float]:
        fresh = {space: self.priors.get(space, 1.0) for space in spaces}
        total = sum(fresh.values())
        return {space: weight / total for space, weight in fresh.items()} | self.weights.get(topic, {})


@dataclass(slots=True)
class JudgedSystem:
    """An engine whose answers a simulated user judges, one after the other: each answer is judged before the next is given.

    Attributes:
        engine: The engine, which asks `trust`.
        trust: Learns from the judgements.
        right: Ids of the right pictures of each request, in the order of the requests.
        answered: Number of answers so far.
    """

    engine: EvaluatedSystem
    trust: NeedleTrust
    right: Sequence[frozenset[str]]
    answered: int = 0

    async def answer(self, request: SearchRequest) -> SearchResponse:
        """Return the answer with the trust so far, and learn from its wrong results. Requests come one at a time, in order."""
        right = self.right[self.answered]
        self.answered += 1
        response = await self.engine.answer(request)
        self.trust.learn(response, [hit.image_id for hit in response.hits[:JUDGED] if hit.image_id not in right])
        return response


class NeedleEngines:
    """Makes the engine of each variant; models are loaded once, and guide engines once a size.

    Args:
        runtime: The evaluation's home.
        queries: The benchmark's queries, whose right pictures a simulated user knows.
        names: Image id -> picture's name.
        given: An engine that answers instead of those of the home; None for these.
    """

    def __init__(
        self,
        runtime: Runtime,
        queries: Sequence[EvalQuery],
        names: Mapping[str, str],
        *,
        given: EvaluatedSystem | None = None,
    ) -> None:
        self._runtime = runtime
        self._given = given
        ids = {name: image_id for image_id, name in names.items()}
        self._right = [frozenset(ids[name] for name in query.relevant) for query in queries]
        self._encoder: Encoder | None = None
        self._hub: tuple[int | None, Hub] | None = None

    async def system(self, variant: NeedleVariant) -> EvaluatedSystem:
        """Return what answers the requests of a variant; with a learning rate, ask it one query after the other, in order."""
        trust = None if variant.eta is None else NeedleTrust(variant.eta, self._runtime.profile.space_priors)
        engine = self._given or await self._engine(variant, trust)
        return engine if trust is None else JudgedSystem(engine, trust, self._right)

    async def _engine(self, variant: NeedleVariant, trust: NeedleTrust | None) -> QueryEngine:
        """Return an engine that ranks by the guides alone, warmed up.

        Args:
            variant: The form of NEEDLE's ranking.
            trust: Weights of the embedders; None for the profile's.
        """
        runtime = self._runtime
        if self._encoder is None:
            self._encoder = runtime.local_encoder(runtime.serving_projections())
        engine = QueryEngine(
            store=runtime.store,
            catalog=runtime.catalog,
            encoder=self._encoder,
            profile=runtime.profile,
            settings=runtime.settings.query,
            hub=await self._hub_for(variant.size),
            weigher=EqualWeights(),
            fusion=GUIDES_ALONE,
            captions=CaptionRule(weight=0.0),
            learnt=LearnedModels(trust=trust, gate=runtime.gate()),
        )
        await engine.warm_up()
        return engine

    async def close(self) -> None:
        """Release the connections of the guide engines."""
        if self._hub is not None:
            await self._hub[1].close()
            self._hub = None

    async def _hub_for(self, size: int | None) -> Hub:
        if self._hub is not None and self._hub[0] == size:
            return self._hub[1]
        await self.close()
        runtime, setup = self._runtime, needle_setup(self._runtime)
        known = runtime.guide_engine_settings()
        equal = {"priority": 0, "guides": None} | ({} if size is None else {"size": size})
        engines = {name: (known.get(name) or EngineSettings(kind=name)).model_copy(update=equal) for name in setup.engines}
        hub = make_hub(
            runtime.settings.model_copy(update={"generators": engines}),
            setup.engines,
            dict,
            runtime.generator_context(),
            runtime.home.guides,
        )
        self._hub = (size, hub)
        return hub
