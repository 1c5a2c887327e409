"""Complexity gate: a linear model predicts the average precision of the text pass from what simple methods agree on.

NEEDLE, F.1: each elementary method (bridge, label matching, captions, tags) answers the query by itself. How high and how even
its first K scores are, and how far the methods' first K pictures overlap, shows how hard the query is. A query whose predicted
average precision is at least `threshold` is simple and needs no guides. The model is fitted by training/complexity.py; one
ships with Lodestone, and one learnt in the home replaces it.

A model knows the spaces that it was fitted on. Captions and tags alone do not show how good the text pass of other spaces is,
so a query of such spaces is not judged: the gate is off in profiles without a space of the model, until it is fitted there.

Whatever the model cannot judge (nothing found, no space that it knows, scores that are no numbers) is complex: guides may help,
and to draw them needlessly costs only time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.durable_files import write_atomically
from lodestone.errors import ConfigurationError
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone_schemas.api import GateDecision

FORMAT: Final = 1
K: Final = 10  # results of each method that are looked at
SHIPPED: Final = "gate.json"
_AGAIN: Final = "fit it again: lodestone train complexity"


@dataclass(frozen=True, slots=True)
class Method:
    """Answer of one elementary method by itself.

    Attributes:
        name: Space's name, `captions` or `tags`.
        ids: Pictures, best first, without repeats; may be empty.
        scores: (len(ids),) descending; inner products (for spaces: cosines), not divided by a scale.
    """

    name: str
    ids: tuple[str, ...]
    scores: NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Term:
    """Term of one feature in the model: `weight * (value - mean) / spread`; a missing feature counts as its mean."""

    mean: float
    spread: float
    weight: float


@dataclass(frozen=True)
class GateModel:
    """Fitted model of the gate, which never changes.

    Attributes:
        intercept: Mean average precision where it was fitted.
        terms: Feature -> its part.
        threshold: A query is simple from this predicted average precision on; of 1, none is.
        k: Results of each method that features are taken over.
        provenance: JSON-serialisable: data, licence, figures.
    """

    intercept: float
    terms: Mapping[str, Term]
    threshold: float
    k: int = K
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        """Version of the model: 12 hex characters over everything that decisions depend on."""
        text = json.dumps([FORMAT, float(self.intercept), float(self.threshold), self.k, self._terms()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def methods(self) -> frozenset[str]:
        """Names of the methods that the model was fitted on."""
        return frozenset(name.removesuffix(_ANSWERED) for name in self.terms if name.endswith(_ANSWERED))

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """Names of the spaces that the model was fitted on."""
        return tuple(sorted(self.methods - _NO_SPACES))

    def judges(self, spaces: Collection[str]) -> bool:
        """Return whether the model was fitted on one of these spaces, so that it can judge queries of them."""
        return not self.methods.isdisjoint(set(spaces) - _NO_SPACES)

    def predict(self, values: Mapping[str, float]) -> float:
        """Return the predicted average precision, in [0, 1], of features by name."""
        return min(1.0, max(0.0, self.intercept + sum(self._parts(values).values())))

    def decide(self, methods: Sequence[Method], *, threshold: float | None = None) -> GateDecision:
        """Decide whether the query is simple or complex, and why. It takes well under a millisecond.

        Args:
            methods: The elementary methods' lists, in any order; those that were not asked are left out.
            threshold: Instead of the fitted one, in [0, 1]; of 1, every query is complex.
        """
        limit = self.threshold if threshold is None else threshold
        trouble = _trouble(methods)
        values = {} if trouble else features(methods, k=self.k)
        if not trouble and not any(values.get(f"{name}{_ANSWERED}") for name in self.methods):
            trouble = "no method that the gate was fitted on found anything"
        searched = {method.name for method in methods} - _NO_SPACES
        if not trouble and searched and not self.judges(searched):
            trouble = f"the gate was fitted on {', '.join(self.spaces)}, and {', '.join(sorted(searched))} was searched"
        if trouble:
            return self._decision(0.0, limit, why=f"complex: {trouble}", values=values, simple=False)
        predicted = self.predict(values)
        simple = predicted >= limit < 1  # of 1, no query is simple: predictions are cut off there
        return self._decision(predicted, limit, why=self._why(values, predicted, limit), values=values, simple=simple)

    def save(self, directory: Path) -> Path:
        """Write `gate-<version>.json` into `directory` (made if needed), whole and durably; returns its path."""
        directory.mkdir(parents=True, exist_ok=True)
        return self.save_as(directory / f"gate-{self.version}.json")

    def save_as(self, path: Path) -> Path:
        """Write to exactly `path`, whole and durably."""
        content = {
            "format": FORMAT,
            "k": self.k,
            "threshold": self.threshold,
            "intercept": self.intercept,
            "terms": self._terms(),
            "provenance": dict(self.provenance),
        }
        write_atomically(path, json.dumps(content, indent=1) + "\n")
        return path

    @classmethod
    def shipped(cls) -> GateModel:
        """Return the model that ships inside the package, in `data/gate/`."""
        text = files("lodestone").joinpath("data", "gate", SHIPPED).read_text(encoding="utf-8")
        return cls.from_json(text, source=f"package data {SHIPPED}")

    @classmethod
    def load(cls, path: Path) -> GateModel:
        """Read a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of a newer format.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"cannot read the gate model {str(path)!r}: {error}", hint=_AGAIN) from error
        return cls.from_json(text, source=str(path))

    @classmethod
    def from_json(cls, text: str, *, source: str) -> GateModel:
        """Parse what `save` wrote; `source` names it in errors.

        Raises:
            ConfigurationError: not a gate model, or of a newer format.
        """
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ConfigurationError(
                    f"{source} has format {content['format']!r}, this version reads {FORMAT}", hint=f"upgrade, or {_AGAIN}"
                )
            model = cls(
                intercept=float(content["intercept"]),
                terms={
                    name: Term(**{part: float(one[part]) for part in Term.__slots__}) for name, one in content["terms"].items()
                },
                threshold=float(content["threshold"]),
                k=int(content["k"]),
                provenance=dict(content["provenance"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"{source} is not a gate model, or is damaged: {error!r}", hint=_AGAIN) from error
        numbers = [
            model.intercept,
            model.threshold,
            *(n for one in model.terms.values() for n in (one.mean, one.spread, one.weight)),
        ]
        if model.k < 1 or not all(map(math.isfinite, numbers)) or any(one.spread <= 0 for one in model.terms.values()):
            raise ConfigurationError(f"{source} is not a gate model, or is damaged: a number is out of range", hint=_AGAIN)
        return model

    def _terms(self) -> dict[str, dict[str, float]]:
        return {name: {part: float(getattr(one, part)) for part in Term.__slots__} for name, one in sorted(self.terms.items())}

    def _parts(self, values: Mapping[str, float]) -> dict[str, float]:
        return {name: one.weight * (values[name] - one.mean) / one.spread for name, one in self.terms.items() if name in values}

    def _decision(self, predicted: float, limit: float, *, why: str, values: Mapping[str, float], simple: bool) -> GateDecision:
        return GateDecision(
            verdict="simple" if simple else "complex",
            predicted_ap=round(predicted, 4),
            threshold=limit,
            why=why,
            features={name: round(value, 4) for name, value in values.items()},
            model=self.version,
        )

    def _why(self, values: Mapping[str, float], predicted: float, limit: float) -> str:
        if limit >= 1:
            return f"complex: with threshold {limit:g} every query is"
        parts = self._parts(values)
        simple = predicted >= limit
        # Terms of negative weight correct others that go along with them: true, but no reason that a reader could follow.
        speaking = [
            name
            for name, part in parts.items()
            if part and (part > 0) == simple and self.terms[name].weight > 0 and not name.endswith(_ANSWERED)
        ]
        strongest = sorted(speaking, key=lambda name: -abs(parts[name]))[:2]
        reasons = " and ".join(_in_words(name, high=values[name] > self.terms[name].mean) for name in strongest)
        verdict = "simple" if simple else "complex"
        because = f", because {reasons}" if reasons else ""
        return f"{verdict}: the text pass should reach {predicted:.2f} where {limit:.2f} is enough{because}"


_NO_SPACES: Final = frozenset({CAPTIONS, TAGS})  # methods that every profile has
_ANSWERED: Final = ".answered"
_FIRST: Final = ".first"
_KINDS: Final = {
    "best": ("the best match in {} is {}", "strong", "weak"),
    "mean": ("the first matches in {} are {}", "strong", "weak"),
    "std": ("the first matches in {} {}", "stand out from each other", "are all alike"),
    "lead": ("the best match in {} {}", "is well ahead of the next", "is hardly ahead of the next"),
}


def features(methods: Sequence[Method], *, k: int = K) -> dict[str, float]:
    """Return the features of the model (NEEDLE, F.1), by name.

    `M.answered` is 1 where method M found anything, else 0; `M.best`, `M.mean`, `M.std` and `M.lead` are the best, mean and
    standard deviation of its first k scores and the first's lead over the second; `A&B` (names ascending) is the Jaccard
    overlap of two methods' first k, and `A&B.first` is 1 where both put the same picture first, else 0. A method without
    results has `answered` alone.
    """
    values: dict[str, float] = {}
    heads: dict[str, frozenset[str]] = {}
    leaders: dict[str, str] = {}
    for one in sorted(methods, key=lambda method: method.name):
        values[one.name + _ANSWERED] = float(bool(one.ids))
        if one.ids:
            scores = np.asarray(one.scores[:k], np.float64)
            heads[one.name], leaders[one.name] = frozenset(one.ids[:k]), one.ids[0]
            values[f"{one.name}.best"] = float(scores[0])
            values[f"{one.name}.mean"] = float(scores.mean())
            values[f"{one.name}.std"] = float(scores.std())
            values[f"{one.name}.lead"] = float(scores[0] - scores[1]) if len(scores) > 1 else 0.0
    for first, second in combinations(heads, 2):
        both, either = heads[first] & heads[second], heads[first] | heads[second]
        values[f"{first}&{second}"] = len(both) / len(either)
        values[f"{first}&{second}{_FIRST}"] = float(leaders[first] == leaders[second])
    return values


def _trouble(methods: Sequence[Method]) -> str:
    """Return why the methods cannot be compared; empty when they can."""
    if not any(one.ids for one in methods):
        return "nothing was found"
    if any(len(one.ids) != len(one.scores) or not np.isfinite(one.scores).all() for one in methods):
        return "a score is not a number"
    return ""


def _in_words(name: str, *, high: bool) -> str:
    if "&" in name:
        first, second = name.removesuffix(_FIRST).split("&")
        if name.endswith(_FIRST):
            return f"{first} and {second} put {'the same picture' if high else 'different pictures'} first"
        return f"{first} and {second} {'agree' if high else 'find different pictures'}"
    method, _, kind = name.rpartition(".")
    sentence, strong, weak = _KINDS.get(kind, ("{} is {}", "high", "low"))
    return sentence.format(method, strong if high else weak)
