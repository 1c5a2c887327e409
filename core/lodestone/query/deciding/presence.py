"""Model of how likely a collection holds what was asked in words: the confidence of an answer.

A search always finds the nearest pictures, also where none shows what was asked. Signs of presence are how near the best
picture is in each space, beside ordinary pictures of the collection, whether the spaces agree about it, how close the words are
to a class name and to what the bridge was taught, and what captions say. No space can tell by itself: a sentence's best cosine
in label matching is low, and a bare name's in the bridge.

A logistic model joins the signs. It is fitted on queries whose pictures are in a collection and queries whose pictures are not
(research/fits/presence.py), and holds for the spaces and models that it was fitted with. There is one file for a profile,
and profiles without one have no confidence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.retrieval.calibration import SAMPLE
from lodestone.spaces.base import Projection
from lodestone.spaces.bridge import BridgeSpace
from lodestone.spaces.labels import LabelSpace
from lodestone.spaces.names import BRIDGE, LABELS

Vector = NDArray[np.float32]
FORMAT: Final = 1
CAPTION_SIGN: Final = "captions"
TAG_SIGN: Final = "tags"  # 1 where the tags of a picture hold every word; no term of a model
WRITTEN_SIGN: Final = "written"  # 1 where a caption holds every content word; no term of a model
HEAD: Final = 10  # pictures of each list that signs are read from
_SHRINK: Final = 32.0  # pictures that the usual background counts as, beside those of the collection


@dataclass(frozen=True, slots=True)
class SpaceSigns:
    """What one space found for a query.

    Attributes:
        ids: The first pictures, best first; at most `HEAD` count.
        scores: (len(ids),) their cosines, descending.
        mean: Mean cosine of the query with ordinary pictures of the collection.
        spread: Standard deviation of these cosines.
        sampled: Number of pictures that mean and spread are taken over; 0 where there is no collection to take them from.
    """

    ids: Sequence[str]
    scores: Sequence[float] | NDArray[np.floating[Any]]
    mean: float = 0.0
    spread: float = 1.0
    sampled: int = 0


@dataclass(frozen=True, slots=True)
class Usual:
    """Mean and standard deviation of a query's cosines with unrelated pictures in one space."""

    mean: float
    spread: float


@dataclass(frozen=True, slots=True)
class SignTerm:
    """Term of one sign in the model: `weight * (value - mean) / spread`."""

    mean: float
    spread: float
    weight: float


@dataclass(frozen=True, slots=True)
class Presence:
    """What the model says of one answer.

    Attributes:
        confidence: How likely the collection holds what was asked, in [0, 1].
        threshold: Below it, there is probably nothing.
        signs: What it was read from, by name.
    """

    confidence: float
    threshold: float
    signs: Mapping[str, float] = field(default_factory=dict)

    @property
    def probably_nothing(self) -> bool:
        """Whether the collection probably does not hold what was asked."""
        return self.confidence < self.threshold


@dataclass(frozen=True)
class PresenceModel:
    """Fitted model, which never changes.

    Attributes:
        intercept: Log odds where every sign has its mean.
        terms: Sign -> its term.
        usual: Space -> its usual background, for collections too small to have one of their own. Its keys are the spaces that
            the model needs.
        threshold: Confidence below which there is probably nothing, in a collection of `SAMPLE` pictures or more and for words
            of the usual kind.
        threshold_slope: What the log odds of the threshold fall for each halving of the sampled pictures: the best picture of
            a small collection is less near, also where it shows what was asked.
        threshold_terms: Sign -> what the log odds of the threshold rise for each unit above the sign's mean: models are less
            sure of a single word than of a sentence, also where it is there. Only signs of the words alone are used.
        provenance: JSON-serialisable: data, licence, figures.
    """

    intercept: float
    terms: Mapping[str, SignTerm]
    usual: Mapping[str, Usual]
    threshold: float
    threshold_slope: float = 0.0
    threshold_terms: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def threshold_at(self, values: Mapping[str, float]) -> float:
        """Return the threshold, in [0, 1], for words and a collection with these signs."""
        odds = math.log(self.threshold / (1 - self.threshold))
        odds -= self.threshold_slope * (math.log2(1 + SAMPLE) - values["size"])
        odds += sum(slope * (values[name] - self.terms[name].mean) for name, slope in self.threshold_terms.items())
        return 1 / (1 + math.exp(-odds))

    def confidence(self, values: Mapping[str, float]) -> float:
        """Return the probability of presence, in [0, 1], from signs by name."""
        odds = self.intercept + sum(term.weight * (values[name] - term.mean) / term.spread for name, term in self.terms.items())
        return 1 / (1 + math.exp(-min(max(odds, -40.0), 40.0)))

    def judge(
        self,
        found: Mapping[str, SpaceSigns],
        *,
        similarity: float,
        familiarity: float,
        attainable: float = 0.0,
        captions: float = 0.0,
    ) -> Presence | None:
        """Judge one answer; None where a space that the model needs was not searched.

        Args:
            found: Space -> what it found.
            similarity: The words' highest cosine to a class name.
            familiarity: The words' highest cosine to what the bridge was taught.
            attainable: The words' highest cosine to the pictures that the bridge was taught with (`BridgeWeights.attainable`).
            captions: Evidence of the best caption, as `CaptionMatches.found` scores it; 0 without one.
        """
        if not self.usual.keys() <= found.keys():
            return None
        if not any(len(found[space].ids) for space in self.usual):
            return Presence(0.0, self.threshold)
        values = signs(
            {space: found[space] for space in self.usual},
            self.usual,
            similarity=similarity,
            familiarity=familiarity,
            attainable=attainable,
            captions=captions,
        )
        rounded = {name: round(value, 4) for name, value in values.items()}
        return Presence(self.confidence(values), self.threshold_at(values), rounded)

    def to_json(self) -> str:
        """Return the model as JSON, which `from_json` reads."""
        content = {
            "format": FORMAT,
            "threshold": self.threshold,
            "threshold_slope": self.threshold_slope,
            "threshold_terms": dict(sorted(self.threshold_terms.items())),
            "intercept": self.intercept,
            "usual": {space: asdict(usual) for space, usual in sorted(self.usual.items())},
            "terms": {name: asdict(term) for name, term in sorted(self.terms.items())},
            "provenance": dict(self.provenance),
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PresenceModel:
        """Return the model that `to_json` wrote.

        Raises:
            ValueError: of another format.
        """
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"a presence model of format {content['format']!r}; this version reads {FORMAT}")
        return cls(
            intercept=content["intercept"],
            terms={name: SignTerm(**term) for name, term in content["terms"].items()},
            usual={space: Usual(**usual) for space, usual in content["usual"].items()},
            threshold=content["threshold"],
            threshold_slope=content["threshold_slope"],
            threshold_terms=content.get("threshold_terms", {}),
            provenance=content["provenance"],
        )

    @classmethod
    def shipped(cls, profile: str) -> PresenceModel | None:
        """Return the model that ships for a profile, in `data/presence/`; None where none is fitted."""
        path = files("lodestone").joinpath("data", "presence", f"{profile}.json")
        return cls.from_json(path.read_text(encoding="utf-8")) if path.is_file() else None


def with_tags(presence: Presence) -> Presence:
    """Return the judgement where the tags of a picture hold every word: somebody said that it shows this.

    Models need not see it: "our old house" is any house to them.
    """
    return replace(presence, confidence=1.0, signs={**presence.signs, TAG_SIGN: 1.0})


def with_written(presence: Presence) -> Presence:
    """Return the judgement where a caption holds every content word: somebody described a picture by these words."""
    return replace(presence, confidence=1.0, signs={**presence.signs, WRITTEN_SIGN: 1.0})


class PresenceJudge:
    """Judges answers of one query engine.

    Args:
        model: The fitted model.
        labels: Knows the class names; warm by the time of the first query.
        bridge: Knows what it was taught.
    """

    def __init__(self, model: PresenceModel, labels: LabelSpace, bridge: BridgeSpace) -> None:
        self._model = model
        self._labels = labels
        self._bridge = bridge

    def judge(self, words: Vector, found: Mapping[str, SpaceSigns]) -> Presence | None:
        """Judge an answer before any caption speaks, as `PresenceModel.judge` does.

        Args:
            words: (d,) float32 vector of the query's words, by the profile's text encoder.
            found: Space -> what it found.
        """
        row = words[np.newaxis]
        return self._model.judge(
            found,
            similarity=float(self._labels.label_similarity(row)[0]),
            familiarity=float(self._bridge.weights.familiarity(row)[0]),
            attainable=float(self._bridge.weights.attainable(row)[0]),
        )

    def with_captions(self, presence: Presence, captions: float) -> Presence:
        """Return the judgement with how much captions are like the words; what people said in these words stays said.

        Args:
            presence: The judgement before.
            captions: Evidence of the best caption, >= 0.
        """
        if not presence.signs:
            return presence
        values = {**presence.signs, CAPTION_SIGN: captions}
        said = values.get(TAG_SIGN) or values.get(WRITTEN_SIGN)
        confidence = 1.0 if said else self._model.confidence(values)
        return replace(presence, confidence=confidence, signs=values)


def make_judge(profile: str, projections: Mapping[str, Projection]) -> PresenceJudge | None:
    """Return the judge of a profile's answers; None where no model is fitted for the profile. It is light.

    Args:
        profile: Name of the profile.
        projections: Space -> the version that is searched.
    """
    labels, bridge = projections.get(LABELS), projections.get(BRIDGE)
    if not (isinstance(labels, LabelSpace) and isinstance(bridge, BridgeSpace)):
        return None
    model = PresenceModel.shipped(profile)
    return None if model is None else PresenceJudge(model, labels, bridge)


_NAMED_FROM: Final = 0.7  # similarity to a class name from which words count as a name, as in weighting/fitted.py
_NAMED_SLOPE: Final = 25.0
_STRANGE_BELOW: Final = 0.24  # familiarity below which words are like nothing that was taught; random letters have .2
_STRANGE_SLOPE: Final = 40.0


def signs(
    found: Mapping[str, SpaceSigns],
    usual: Mapping[str, Usual],
    *,
    similarity: float,
    familiarity: float,
    attainable: float = 0.0,
    captions: float = 0.0,
) -> dict[str, float]:
    """Return the signs of presence, by name.

    `S.best` is the best cosine in space S, and `S.above` how many spreads that is above the mean of ordinary pictures; mean and
    spread of a small collection are drawn towards the usual ones. `S.named` is `S.best` as far as the words are a name, and
    `S.known` as far as the bridge knows such words. `size` is the binary logarithm of the pictures that the background is taken
    over, of which there are at most 256.
    `agree` is the share of the first pictures that two spaces have in common. `similarity` and `familiarity` are of the words
    alone. `attainable` is how near the best picture would be, were there one: what the models know well, and no picture comes
    near, is more surely absent than words that they hardly know. `strange` is near 1 for words that are neither like what the
    bridge was taught nor a name, as random letters are. `captions` is the evidence of the best caption.

    Args:
        found: Space -> what it found; a space that found nothing counts as its usual mean.
        usual: Space -> its usual background; the spaces of `found`.
        similarity: The words' highest cosine to a class name.
        familiarity: The words' highest cosine to what the bridge was taught.
        attainable: See `PresenceModel.judge`.
        captions: See `PresenceModel.judge`.
    """
    named = 1 / (1 + math.exp(-_NAMED_SLOPE * (similarity - _NAMED_FROM)))
    sampled = max((one.sampled for one in found.values()), default=0)
    values = {"similarity": similarity, "familiarity": familiarity, "named": named, CAPTION_SIGN: captions}
    values["attainable"] = attainable
    values["strange"] = (1 - named) / (1 + math.exp(min(_STRANGE_SLOPE * (familiarity - _STRANGE_BELOW), 40.0)))
    values["size"] = math.log2(1 + sampled)
    heads = []
    for space in sorted(found):
        one, background = found[space], usual[space]
        share = one.sampled / (one.sampled + _SHRINK)
        mean = share * one.mean + (1 - share) * background.mean
        spread = math.sqrt(share * one.spread**2 + (1 - share) * background.spread**2)
        best = float(one.scores[0]) if len(one.ids) else background.mean
        values[f"{space}.best"] = best
        values[f"{space}.above"] = (best - mean) / max(spread, 1e-6)
        values[f"{space}.named"] = named * best
        values[f"{space}.known"] = familiarity * best
        heads.append(frozenset(one.ids[:HEAD]))
    values["agree"] = len(frozenset.intersection(*heads)) / max(1, *map(len, heads)) if heads else 0.0
    return values
