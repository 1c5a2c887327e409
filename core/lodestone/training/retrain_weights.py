"""Training of a home's modality weights (`lodestone train weights`): read pairs, learn, save with a card, activate.

Queries and right pictures come from a file (composed_pairs.py), or from judged answers (feedback_pairs.py). What is learnt is
put in force unless the weights in force rank the right pictures of the held-out queries higher. Composed queries use it at
once; a running service uses it after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lodestone.catalog.records import RunState
from lodestone.composed.learned import LearnedWeights, weights_kind
from lodestone.composed.weights import ModalityWeights
from lodestone.config.compositions import choose_composition
from lodestone.errors import InvalidRequestError
from lodestone.training.composed_pairs import merged, read_pairs
from lodestone.training.feedback_pairs import pairs_of_feedback
from lodestone.training.modality_weights import CurvePoint, LearningOptions, WeightsReport, learn_weights
from lodestone.training.pair_vectors import MOST_OBJECTS, SkippedPairs, vectors_of_pairs

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime


@dataclass(frozen=True, slots=True)
class WeightTrainingReport:
    """Reports what training did.

    Attributes:
        run_id: Id of the run in the catalog.
        composition: Name of the composition.
        version: Version of the learnt weights.
        learning: Figures and the validation curve.
        skipped: Pairs that could not be used.
        promoted: Whether the learnt weights are in force now.
    """

    run_id: str
    composition: str
    version: str
    learning: WeightsReport
    skipped: SkippedPairs
    promoted: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        return {
            "run_id": self.run_id,
            "composition": self.composition,
            "version": self.version,
            **self.learning.as_dict(),
            "skipped": dict(self.skipped.counts),
            "examples": list(self.skipped.examples),
            "promoted": self.promoted,
        }


def train_weights(
    runtime: Runtime,
    path: Path | None,
    *,
    composition: str,
    feedback: bool = False,
    options: LearningOptions | None = None,
    most_objects: int = MOST_OBJECTS,
    dry_run: bool = False,
    told: Callable[[CurvePoint], None] = lambda _: None,
) -> WeightTrainingReport:
    """Learn the weights of a composition's modalities from a file of pairs, from feedback or from both, and activate them.

    Args:
        runtime: The opened home; this process owns the store.
        path: The file (composed_pairs.py); None without.
        composition: Name of the composition.
        feedback: Whether to learn from judged answers to composed queries too (feedback_pairs.py).
        options: How to learn; None for the defaults.
        most_objects: Pictures that are searched at most.
        dry_run: Whether to learn and measure only.
        told: Called after each round of learning.

    Raises:
        UnknownNameError: there is no such composition.
        InvalidRequestError: there is nothing to learn from, the file is not usable, no composed query has feedback, or there
            are too few pairs of pictures in this home.
        StoreLockedError: another process owns the store.
    """
    if path is None and not feedback:
        raise InvalidRequestError(
            "there is nothing to learn from", hint="name a file of pairs, or learn from judged answers: --from-feedback"
        )
    chosen = choose_composition(composition, runtime.settings.compositions, runtime.configured)
    catalog = runtime.catalog
    queries = [] if path is None else read_pairs(path, [modality.name for modality in chosen.modalities])
    forgotten = 0
    if feedback:
        collections = {name: one.collection for name, one in runtime.serving_projections().items()}
        judged, forgotten = pairs_of_feedback(catalog, chosen, collections)
        queries = merged([*queries, *judged])
    run = catalog.start_run("train-weights")
    try:
        folder = Path() if path is None else path.parent
        found = vectors_of_pairs(runtime, chosen, queries, folder=folder, most_objects=most_objects)
        if forgotten:
            found.skipped.counts["no longer recorded"] += forgotten
            found.skipped.examples.append(f"judged answers that are no longer recorded (query.history): {forgotten:,}")
        active = runtime.modality_weights(chosen).among(found.pairs.modalities)
        rival = active or ModalityWeights.equal(found.pairs.modalities)
        learnt = learn_weights(found.pairs, options, rival=rival, told=told)
        # Modalities that no pair has keep the share that they have in force: nothing is known of them.
        weights = _with_unseen(learnt.weights, runtime.modality_weights(chosen))
        card = {
            "pairs": learnt.anchors + learnt.held_out,
            "skipped": dict(found.skipped.counts),
            "profile": runtime.profile.name,
            "options": asdict(options or LearningOptions()),
            "figures": learnt.as_dict(),
        }
        saved = LearnedWeights(chosen.name, weights, found.collections, card)
        promoted = not dry_run and learnt.is_better
        if promoted:
            saved.save(runtime.home.artifacts)
            catalog.add_artifact(weights_kind(chosen.name), saved.version, saved.path, card)
            catalog.activate_artifact(weights_kind(chosen.name), saved.version)
    except BaseException as error:
        catalog.finish_run(run.run_id, RunState.FAILED, f"{type(error).__name__}: {error}")
        raise
    catalog.update_run(run.run_id, stage="done", counts={"pairs": learnt.anchors + learnt.held_out})
    catalog.finish_run(run.run_id, RunState.DONE)
    return WeightTrainingReport(run.run_id, chosen.name, saved.version, learnt, found.skipped, promoted)


def _with_unseen(learnt: ModalityWeights, in_force: ModalityWeights) -> ModalityWeights:
    unseen = {name: weight for name, weight in in_force.items() if name not in learnt}
    seen = 1 - sum(unseen.values())
    amounts = {name: learnt[name] * seen if name in learnt else unseen[name] for name in in_force}
    return ModalityWeights.of(amounts) if seen > 0 else learnt
