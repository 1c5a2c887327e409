"""Weights of a composition's modalities that a home has learnt, as a versioned file with their card.

`lodestone train weights` writes them (training/retrain_weights.py), and composed queries of the composition use the version in
force. Weights belong to modalities, not to vectors, so they stay in force when a space gets a new version; the card says which
versions they were learnt with. They are not used once the composition has other modalities.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lodestone.composed.weights import ModalityWeights
from lodestone.durable_files import write_atomically
from lodestone.errors import ConfigurationError, InvalidRequestError

FORMAT: Final = 1
_FOLDER: Final = "weights"
_AGAIN: Final = "learn them again: lodestone train weights"


def weights_kind(composition: str) -> str:
    """Return the kind under which the catalog keeps a composition's learnt weights."""
    return f"{_FOLDER}.{composition}"


@dataclass(frozen=True)
class LearnedWeights:
    """Learnt weights of one composition.

    Attributes:
        composition: Name of the composition.
        weights: Modality -> weight: MUST's squares, which sum to 1.
        collections: Space -> collection of the version that they were learnt with.
        card: JSON-serialisable: pairs, figures, options.
    """

    composition: str
    weights: ModalityWeights
    collections: Mapping[str, str] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        """Version of the weights: 12 hex characters over composition, weights and collections."""
        content = [FORMAT, self.composition, sorted(self.weights.items()), sorted(self.collections.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def path(self) -> str:
        """Return the path below the home's artifacts."""
        return f"{_FOLDER}/{self.composition}-{self.version}.json"

    def save(self, artifacts: Path) -> Path:
        """Write the file below a home's artifacts, whole and durably; return its path."""
        path = artifacts / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "format": FORMAT,
            "composition": self.composition,
            "weights": dict(self.weights),  # squares
            "collections": dict(self.collections),
            "card": dict(self.card),
        }
        write_atomically(path, json.dumps(content, indent=1) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> LearnedWeights:
        """Read a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of a newer format.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ConfigurationError(
                    f"{str(path)!r} has format {content['format']!r}, this version reads {FORMAT}", hint=f"upgrade, or {_AGAIN}"
                )
            return cls(
                str(content["composition"]),
                ModalityWeights({str(name): float(weight) for name, weight in content["weights"].items()}),
                {str(space): str(collection) for space, collection in content["collections"].items()},
                dict(content["card"]),
            )
        except OSError as error:
            raise ConfigurationError(f"cannot read the weights {str(path)!r}: {error}", hint=_AGAIN) from error
        except (KeyError, TypeError, ValueError, AttributeError, InvalidRequestError) as error:
            raise ConfigurationError(f"{str(path)!r} are no weights, or is damaged: {error!r}", hint=_AGAIN) from error

    def described(self) -> str:
        """Return the weights in one line, the heaviest first."""
        ordered = sorted(self.weights.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {weight:.3f}" for name, weight in ordered if not math.isclose(weight, 0, abs_tol=5e-4))
