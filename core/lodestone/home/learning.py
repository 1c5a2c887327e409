"""Layer of an opened home that learns: trust in spaces, tags, feedback, the gate's model and the memory of queries.

It stands between the home's files and stores (`resources.py`) and its models and engines (`runtime.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from lodestone.config.home import Home
from lodestone.config.profiles import Profile
from lodestone.config.settings import Settings
from lodestone.home.resources import HomeResources
from lodestone.observe import observer

if TYPE_CHECKING:
    from lodestone.composed.weights import ModalityWeights
    from lodestone.config.compositions import Composition
    from lodestone.query.deciding.gate import GateModel
    from lodestone.query.retrieving.learned_stages import LearnedModels
    from lodestone.query_log.recorder import Recorder
    from lodestone.spaces.base import Projection
    from lodestone.tags.service import TagService
    from lodestone.trust.service import TrustService
    from lodestone_schemas.api import FeedbackRequest, FeedbackResult

_log = logging.getLogger(__name__)


class LearningResources(HomeResources):
    """Catalog, files and profile of one home, with all that changes by its use.

    Args:
        settings: The user's settings.
        home: The home's folders.
        profile: The configured profile.
        purpose: As in `HomeResources`.
    """

    def __init__(self, settings: Settings, home: Home, profile: Profile, *, purpose: str) -> None:
        super().__init__(settings, home, purpose=purpose)
        self.configured = profile
        self.recorder: Recorder | None = None  # records queries after their answers; set before the first engine

    @property
    def profile(self) -> Profile:
        """Return the configured profile with the spaces that model swaps put in force in this home. Read anew each time."""
        from lodestone.home.space_definitions import overridden

        return overridden(self.configured, self.catalog.overrides() if self.home.exists() else {})

    @cached_property
    def trust(self) -> TrustService:
        """Return the trust in each space, by topic."""
        from lodestone.trust.service import TrustService

        return TrustService(self.catalog, self.settings.trust, priors=self.configured.space_priors)

    @cached_property
    def tags(self) -> TagService:
        """Return the pictures' tags in the catalog. Searches find changes made here after `deliver_tags`."""
        from lodestone.tags.service import TagService

        return TagService(self.catalog)

    def deliver_tags(self) -> int:
        """Update the tags' collection; return the number of pictures whose tags changed. Opens the store.

        Raises:
            StoreLockedError: another process owns it.
        """
        from lodestone.tags.delivery import deliver

        return deliver(self.catalog, self.store)

    def learn(self, request: FeedbackRequest) -> FeedbackResult:
        """Apply feedback: trust changes, and relevant pictures are tagged with the query's words. See `deliver_tags`.

        Raises:
            NotFoundError: the query is not recorded.
            InvalidRequestError: no picture is named, or one is both right and wrong.
        """
        from datetime import UTC, datetime

        from lodestone.query_log.trace import load_trace
        from lodestone.tags.implicit import feedback_tags

        result = self.trust.learn(request)
        if result.applied:
            observer().judged(relevant=len(request.relevant), irrelevant=len(request.irrelevant))
        if result.applied and request.relevant and self.settings.tags.implicit:
            images = self.catalog.images(request.relevant)
            trace = load_trace(self.catalog, request.query_id)
            self.catalog.add_tags(feedback_tags(trace, request.relevant, images=images, now=datetime.now(UTC)))
        return result

    def gate(self) -> GateModel:
        """Return the complexity gate's model: the one learned in this home, or the one that ships."""
        from lodestone.query.deciding.gate import GateModel

        active = self.catalog.active_artifact("gate")
        return GateModel.shipped() if active is None else GateModel.load(self.home.artifacts / active.path)

    def modality_weights(self, composition: Composition) -> ModalityWeights:
        """Return the weights of a composition's modalities: those of its settings, else those learnt here, else equal ones.

        Raises:
            ConfigurationError: the learnt weights cannot be read.
        """
        from lodestone.composed.weights import ModalityWeights

        equal = ModalityWeights.equal([modality.name for modality in composition.modalities])
        return self.chosen_weights(composition) or equal

    def chosen_weights(self, composition: Composition) -> ModalityWeights | None:
        """Return the weights that settings give to a composition's modalities, else those learnt here; None for neither.

        Raises:
            ConfigurationError: the learnt weights cannot be read.
        """
        from lodestone.composed.learned import LearnedWeights, weights_kind
        from lodestone.composed.weights import ModalityWeights

        modalities = [modality.name for modality in composition.modalities]
        if composition.weights:
            return ModalityWeights.of({name: composition.weights.get(name, 0.0) for name in modalities})
        active = self.catalog.active_artifact(weights_kind(composition.name)) if self.home.exists() else None
        if active is None:
            return None
        learnt = LearnedWeights.load(self.home.artifacts / active.path).weights
        if set(learnt) != set(modalities):
            _log.warning(
                "the weights learnt for the composition %r are of other modalities (%s) and are not used",
                composition.name,
                ", ".join(learnt),
            )
            return None
        return ModalityWeights({name: learnt[name] for name in modalities})

    def idle_parts(self) -> dict[str, str]:
        """Return the parts of queries that are switched on and can do nothing in this home, each with the reason.

        Raises:
            ConfigurationError: the gate's model cannot be read.
        """
        from lodestone.query.deciding.gate import GateModel
        from lodestone.query.idle_parts import idle_parts

        gate = self.gate() if self.home.exists() else GateModel.shipped()
        return idle_parts(self.profile, self.settings.query, gate)

    def learned_models(self, projections: Mapping[str, Projection], *, recording: bool) -> LearnedModels:
        """Return what a query engine has learnt: trust, tags, the gate's model and the memory. Opens the store.

        Args:
            projections: Space name -> the version that is searched, without those of another profile: the model of presence
                was not fitted on them.
            recording: Whether queries are recorded and leave tags.
        """
        from lodestone.query.answering.memory import Memory
        from lodestone.query.deciding.presence import make_judge
        from lodestone.query.retrieving.learned_stages import LearnedModels
        from lodestone.tags.search import TagSearch

        memory = Memory(
            self.catalog,
            self.store,
            history=self.settings.query.history,
            tags=self.settings.tags,
        )
        tags = TagSearch(self.store)
        return LearnedModels(
            trust=self.trust,
            tags=tags,
            gate=self.gate(),
            presence=make_judge(self.profile.name, projections),
            memory=memory if recording else None,
            recorder=self.recorder,
        )

    def close(self) -> None:
        """Flush and release everything that was opened. Idempotent."""
        for name in ("trust", "tags"):  # they hold the catalog
            self.__dict__.pop(name, None)
        super().close()
