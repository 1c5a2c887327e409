"""Training of a bridge on captions, from nothing or as an update of an existing one.

From nothing: principal components of the pictures' outputs, a ridge regression onto text vectors, two towers, the averages
that make later updates possible, and single words (training/phrases.py). As an update: the components and the words stay; the
ridge is solved again from the old sums and the new pairs, exactly as if all pairs were present; the towers learn the new pairs
under a constraint to keep what they knew (training/towers.py). An update is the better choice unless there are thousands of
captions; the defaults were measured (docs/quality.md).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.errors import InvalidRequestError
from lodestone.spaces.bridge_arrays import Array, BridgeInputs, Statistics, Tower, picture_columns, standardised
from lodestone.spaces.bridge_weights import BridgeWeights, as_stored
from lodestone.spaces.sketches import sketches_of
from lodestone.training.classes import ClassPairs
from lodestone.training.phrases import PhrasePairs, learn_words
from lodestone.training.rehearsal import extend_components, group_pairs, merge, principal
from lodestone.training.towers import Pairs, Stepped, TowerSettings, nothing, train_towers, update_towers

MINIMUM_FROM_NOTHING: Final = 50  # pictures; below, principal components and towers are noise
_HIDDEN_WITH_TRANSFORMER: Final = 1536  # width of the towers' hidden layers where a vision transformer is read
_FLOOR: Final = 1e-3  # added to a column's standard deviation, so that classes that never occur are not scaled up without limit
_PHRASE_SHARE: Final = 0.3  # of the ridge's target for a picture that is the mean of its phrases, not of its captions
_CENTRE_PRIOR: Final = 50.0  # number of new pictures at which their own mean text counts as much as the old one


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """Holds the settings of training a bridge; the defaults were chosen on the validation part (docs/quality.md).

    Attributes:
        components: Number of principal components kept.
        penalty: The ridge's penalty, where pictures count 1 and components have variance 1 before rotation.
        class_weight: Weight of a synthetic picture of a class in the ridge, where a real one counts 1.
        ridge_share: Weight of the ridge in the joint cosine.
        text_gain: Factor that brings centred text vectors (length about 1 over 384 dimensions) to unit size.
        groups: Highest number of groups kept for rehearsal.
        update_weight: Highest weight of a new picture in the ridge's update; all new ones together count at most half of the
            old.
        more_components: Components that an update may add (training/rehearsal.py).
        members: Number of pairs of towers side by side; an update takes the base's number.
        towers: Settings of the towers' training.
    """

    components: int = 512
    penalty: float = 1e4
    class_weight: float = 1 / 3
    ridge_share: float = 0.5
    text_gain: float = 10.0
    groups: int = 512
    update_weight: float = 6.0
    more_components: int = 256
    members: int = 2
    towers: TowerSettings = field(default_factory=TowerSettings)

    @classmethod
    def of(cls, inputs: BridgeInputs) -> Self:
        """Return the defaults for a bridge that reads `inputs`; with a vision transformer, wider towers are worth more."""
        if set(inputs.backbones) <= set(inputs.classifiers):
            return cls()
        return cls(ridge_share=0.4, towers=TowerSettings(hidden=_HIDDEN_WITH_TRANSFORMER))


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Reports a training; JSON-serialisable through `dataclasses.asdict`.

    Attributes:
        pictures: Pictures that had a caption.
        texts: Captions used.
        seconds: Wall clock time, in seconds.
        loss: Mean loss over the last tenth of the steps.
        updated_from: Version of the base, "" when trained from nothing.
        version: Version of the result.
        held_out: Pictures set aside to measure, 0 for none.
        queries: Captions of the pictures set aside.
        gallery: Pictures searched.
        before: R@10 of the bridge before on the held-out captions, None without one or without held-out pictures.
        after: R@10 of the result on the held-out captions.
        remembered: Whether the bridge before knows nearly all pictures. Then none can be set aside that is new to both, and
            both figures are of pictures that both were trained on.
        margin: How much less than `before` is no sign that the result is worse: half of the 95 % interval of the difference
            where `remembered`, else 0.
    """

    pictures: int
    texts: int
    seconds: float
    loss: float
    updated_from: str
    version: str
    held_out: int = 0
    queries: int = 0
    gallery: int = 0
    before: float | None = None
    after: float | None = None
    remembered: bool = False
    margin: float = 0.0

    @property
    def is_better(self) -> bool:
        """Return whether the result was measured, and is not worse than what it was compared with."""
        return self.after is not None and (self.before is None or self.after >= self.before - self.margin)


def train_bridge(
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    base: BridgeWeights | None = None,
    phrases: PhrasePairs | None = None,
    classes: ClassPairs | None = None,
    seed: int = 0,
    settings: BridgeSettings | None = None,
    inputs: BridgeInputs | None = None,
    translations: Array | None = None,
    provenance: dict[str, Any] | None = None,
    stepped: Stepped = nothing,
) -> tuple[BridgeWeights, TrainingReport]:
    """Train on captioned pictures; deterministic for a seed on one machine and number of threads.

    Args:
        outputs: n pictures' outputs; pictures without a text are not used.
        texts: (m, d) float32 vectors of the captions, L2-normalised; any number per picture, duplicates allowed.
        owner: (m,) row of the picture that each text belongs to.
        base: The bridge to update; None to train from nothing.
        phrases: Phrases of the captions (training/phrases.py); those of pictures without a text are not used.
        classes: Synthetic pictures of named classes to mix in when training from nothing (training/classes.py).
        seed: Seed of all random choices.
        settings: None for the defaults.
        inputs: What a bridge from nothing shall read; None for what the profile `embedded` has. An update reads what its base
            does.
        translations: (n, languages, d) vectors of any sentences in several languages, the captions' language first; a bridge
            from nothing learns to overlook how they differ. None where there is one language.
        provenance: JSON-serialisable, written to the file's header.
        stepped: Called after each of `steps_of` steps.

    Returns:
        The weights, and a report without held-out figures (`learn.captions.fit_bridge` measures).

    Raises:
        InvalidRequestError: no pairs, pairs out of range or not finite, or too few to start from nothing.
    """
    reads = inputs or BridgeInputs()
    chosen = settings or BridgeSettings.of(reads)
    started = time.perf_counter()
    _check(outputs, texts, owner, base)
    rows, packed = np.unique(owner, return_inverse=True)
    used, texts = outputs.take(rows), np.ascontiguousarray(texts, np.float32)
    short = None if phrases is None else phrases.of(rows)  # None too where no picture with a text has one
    if base is None:
        weights, loss = _from_nothing(
            used,
            texts,
            packed,
            phrases=short,
            classes=classes,
            seed=seed,
            settings=chosen,
            inputs=reads,
            translations=translations,
            stepped=stepped,
        )
    else:
        weights, loss = _update(base, used, texts, packed, phrases=short, seed=seed, settings=chosen, stepped=stepped)
    # An update keeps its base's provenance, and with it the licence notice of the base's training data.
    inherited = {**base.provenance, "updated_from": base.version} if base is not None else {}
    weights = replace(weights, provenance={**inherited, **(provenance or {})})
    report = TrainingReport(
        pictures=len(rows),
        texts=len(texts),
        seconds=time.perf_counter() - started,
        loss=loss,
        updated_from=base.version if base is not None else "",
        version=weights.version,
    )
    return weights, report


def steps_of(pictures: int, *, base: BridgeWeights | None, settings: BridgeSettings | None = None) -> int:
    """Return the steps of `train_bridge` on so many pictures."""
    chosen = settings or BridgeSettings()
    members = chosen.members if base is None else len(base.picture)
    return members * chosen.towers.steps(pictures, update=base is not None)


def _from_nothing(
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    phrases: PhrasePairs | None,
    classes: ClassPairs | None,
    seed: int,
    settings: BridgeSettings,
    inputs: BridgeInputs,
    translations: Array | None,
    stepped: Stepped,
) -> tuple[BridgeWeights, float]:
    columns = picture_columns(outputs, inputs)
    mean, spread = columns.mean(0), columns.std(0) + np.float32(_FLOOR)
    mean, spread = _half(mean), _half(spread)
    scaled = standardised(columns, mean, spread)
    basis = as_stored(principal(scaled, min(settings.components, len(scaled) - 1)))
    pictures = scaled @ basis
    targets = _with_phrases(_mean_texts(texts, owner, outputs.rows), phrases)
    centre = _half(targets.mean(0))
    gain = np.float32(settings.text_gain)
    statistics = Statistics.of(pictures, targets)
    rehearsal = group_pairs(pictures, targets, groups=settings.groups, seed=seed)
    class_towers = None
    if classes is not None:
        synthetic = standardised(picture_columns(classes.outputs, inputs), mean, spread) @ basis
        name_vectors = classes.texts.mean(0)
        # Names are taken relative to the mean name, as captions are to the mean caption, because what all names have in common
        # is not visible in a picture.
        aims = (name_vectors - name_vectors.mean(0) + centre)[classes.classes]
        statistics += Statistics.of(synthetic, aims, np.full(len(synthetic), settings.class_weight, np.float32))
        class_towers = _class_pairs(synthetic, classes, centre, gain)
    ridge, bias = solve(statistics, centre, settings.penalty)
    differences = None if translations is None else (translations[:, 1:] - translations[:, :1]).reshape(-1, texts.shape[1])
    pairs = Pairs(
        pictures,
        (texts - centre) * gain,
        owner,
        None if phrases is None else replace(phrases, texts=(phrases.texts - centre) * gain),
        settings.towers.phrase_share,
        None if differences is None else differences * gain,
    )
    members = [
        train_towers(pairs, class_towers, seed=seed * settings.members + i, settings=settings.towers, stepped=stepped)
        for i in range(settings.members)
    ]
    picture, text, loss = _together(members)
    weights = BridgeWeights(
        mean=mean,
        spread=spread,
        basis=basis,
        residual=((scaled - pictures @ basis.T) ** 2).mean(0),
        text_centre=centre,
        ridge=ridge,
        ridge_bias=bias,
        picture=picture,
        text=text,
        ridge_share=settings.ridge_share,
        text_gain=settings.text_gain,
        statistics=statistics,
        rehearsal=rehearsal,
        backbones=inputs.backbones,
        text_encoder=inputs.text_encoder,
        classifiers=inputs.classifiers,
        seen=sketches_of(pictures),
    )
    return (weights if phrases is None else replace(weights, words=learn_words(weights, pictures, phrases))), loss


def _update(
    base: BridgeWeights,
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    phrases: PhrasePairs | None,
    seed: int,
    settings: BridgeSettings,
    stepped: Stepped,
) -> tuple[BridgeWeights, float]:
    base = extend_components(base, outputs, most=settings.more_components)
    pictures = base.components(outputs)
    targets = _with_phrases(_mean_texts(texts, owner, outputs.rows), phrases)
    n = outputs.rows
    # Names of drawings and captions of photos have different means. That is a difference of style, which queries do not share.
    own_centre = (targets.sum(0) + _CENTRE_PRIOR * base.text_centre) / (n + _CENTRE_PRIOR)
    weight = min(settings.update_weight, max(1.0, base.statistics.weight / (2 * n)))
    new_statistics = Statistics.of(pictures, targets - own_centre + base.text_centre, np.full(n, weight, np.float32))
    statistics = base.statistics + new_statistics
    ridge, bias = solve(statistics, base.text_centre, settings.penalty)
    gain = np.float32(base.text_gain)

    def as_read(rows: Array) -> Array:
        return (rows - base.text_centre) * gain

    short = None if phrases is None else replace(phrases, texts=as_read(phrases.texts))
    pairs = Pairs(pictures, as_read(texts), owner, short, settings.towers.phrase_share)
    members = [
        update_towers(
            towers,
            pairs,
            base.rehearsal,
            as_read=as_read,
            seed=seed * len(base.picture) + i,
            settings=settings.towers,
            stepped=stepped,
        )
        for i, towers in enumerate(zip(base.picture, base.text, strict=True))
    ]
    picture, text, loss = _together(members)
    rehearsal = merge(base.rehearsal, group_pairs(pictures, targets, groups=settings.groups, seed=seed))
    weights = replace(
        base,
        ridge=ridge,
        ridge_bias=bias,
        picture=picture,
        text=text,
        statistics=statistics,
        rehearsal=rehearsal,
        seen=np.unique(np.concatenate([base.seen, sketches_of(pictures)]), axis=0),
    )
    return weights, loss


def solve(statistics: Statistics, centre: Array, penalty: float) -> tuple[Array, Array]:
    """Return the ridge map (k, d) and its bias (d,) from sums, both for targets relative to `centre`.

    The bias is not penalised. The system is solved in float64, because the sums of thousands of pictures span many magnitudes.
    """
    gram, cross = statistics.gram.astype(np.float64), statistics.cross.astype(np.float64)
    total = gram[-1, -1]
    x_mean, y_mean = gram[-1, :-1] / total, cross[-1] / total
    inner = gram[:-1, :-1] - total * np.outer(x_mean, x_mean)
    ridge = np.linalg.solve(inner + penalty * np.eye(len(inner)), cross[:-1] - total * np.outer(x_mean, y_mean))
    bias = y_mean - centre - x_mean @ ridge
    return ridge.astype(np.float32), bias.astype(np.float32)


def _together(
    members: list[tuple[Tower, Tower, float]],
) -> tuple[tuple[Tower, ...], tuple[Tower, ...], float]:
    pictures, texts, losses = zip(*members, strict=True)
    return pictures, texts, float(np.mean(losses))


def _class_pairs(synthetic: Array, classes: ClassPairs, centre: Array, gain: np.float32) -> Pairs:
    templates, count, d = classes.texts.shape
    # One text per (picture, template): a synthetic picture of class c is paired with every template of c's name.
    owner = np.tile(np.arange(len(synthetic)), templates)
    texts = classes.texts.reshape(templates * count, d)
    text_rows = np.concatenate([t * count + classes.classes for t in range(templates)])
    return Pairs(synthetic, ((texts - centre) * gain)[text_rows], owner)


def _mean_texts(texts: Array, owner: NDArray[np.intp], n: int) -> Array:
    sums = np.zeros((n, texts.shape[1]), np.float32)
    np.add.at(sums, owner, texts)
    means: Array = (sums / np.bincount(owner, minlength=n)[:, None]).astype(np.float32)
    return means


def _with_phrases(means: Array, phrases: PhrasePairs | None) -> Array:
    """Return the mean texts of pictures, those with phrases moved towards the mean of these.

    What all phrases have in common, and captions have not, is taken off: no picture shows it.
    """
    if phrases is None:
        return means
    has_some = np.bincount(phrases.owner, minlength=len(means)) > 0
    short = _mean_texts(
        phrases.texts[0, phrases.phrase], np.searchsorted(np.flatnonzero(has_some), phrases.owner), has_some.sum()
    )
    moved = means.copy()
    shift = means[has_some].mean(0) - short.mean(0)
    moved[has_some] = (1 - _PHRASE_SHARE) * means[has_some] + _PHRASE_SHARE * (short + shift)
    return moved


def _half(array: Array) -> Array:
    """Return the array rounded to half precision, so that later training sees the values that will be stored."""
    rounded: Array = array.astype(np.float16).astype(np.float32)
    return rounded


def _check(outputs: BackboneOutputs, texts: Array, owner: NDArray[np.intp], base: BridgeWeights | None) -> None:
    if len(texts) == 0:
        raise InvalidRequestError(
            "there are no captions to train on", hint="give a --captions table, sidecar .txt files or XMP"
        )
    if texts.ndim != 2 or len(owner) != len(texts) or owner.min() < 0 or owner.max() >= outputs.rows:
        raise InvalidRequestError(
            f"{len(texts)} texts with {len(owner)} owners do not fit {outputs.rows} pictures",
            hint="every text needs the row of its picture",
        )
    if not np.isfinite(texts).all() or not all(np.isfinite(outputs[key]).all() for key in outputs):
        raise InvalidRequestError("a picture's outputs or a text's vector are not finite", hint="index them again")
    pictures = len(np.unique(owner))
    if base is None and pictures < MINIMUM_FROM_NOTHING:
        raise InvalidRequestError(
            f"{pictures} captioned pictures are too few to train a bridge from nothing: it takes {MINIMUM_FROM_NOTHING}",
            hint="update the bridge that ships with Lodestone instead: one captioned picture is enough",
            pictures=pictures,
            minimum=MINIMUM_FROM_NOTHING,
        )
