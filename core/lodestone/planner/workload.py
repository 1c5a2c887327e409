"""What is there to be indexed and searched? Numbers of pictures, models and dimensions, out of a profile or by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from lodestone.errors import InvalidRequestError
from lodestone.planner.rates import GMACS
from lodestone_schemas.collections import HnswSpec, Quantization

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile

_SUFFIXES: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
_COUNT: Final = re.compile(r"(\d+(?:[_,]\d{3})*(?:\.\d+)?)\s*([kmbg]?)", re.IGNORECASE)
_UNKNOWN_GMACS: Final = 100.0  # a large vision transformer; said so in the plan
# Vectors of models that are only named by a profile: a space that is a model's output as it is has that length.
_DIMS: Final[Mapping[str, int]] = {
    "eva02_large": 1024,
    "regnety_1280": 7392,
    "vit_large": 1024,
    "convnextv2_large": 1536,
    "beitv2_large": 1024,
    "ViT-B-32": 512,
    "ViT-B-16": 512,
    "ViT-L-14": 768,
}
_OWN_DIMS: Final[Mapping[str, int]] = {"bridge": 898, "labels": 384}
_UNKNOWN_DIM: Final = 1024
_CLASSES: Final = 1000  # class probabilities beside the features of the ImageNet classifiers
_FEATURES: Final = 1280


@dataclass(frozen=True, slots=True)
class Workload:
    """A collection and how it is used.

    Attributes:
        images: Pictures.
        megabytes: Mean size of a picture's file.
        megapixels: Mean size of a picture.
        models: Backbone -> milliards of multiply-accumulates a picture.
        spaces: Space -> dimensions.
        stored: Half floats kept of each picture, over all backbones.
        hnsw: The graphs' parameters.
        quantization: Of the vectors in memory.
        replication: Copies of each point.
        payload_bytes: Filter fields of a point, with their index.
        guides: Guides a query.
        queries_per_second: To be answered.
        notes: What had to be assumed.
    """

    images: int
    megabytes: float = 3.0
    megapixels: float = 12.0
    models: Mapping[str, float] = field(default_factory=dict)
    spaces: Mapping[str, int] = field(default_factory=dict)
    stored: int = 0
    hnsw: HnswSpec = field(default_factory=HnswSpec)
    quantization: Quantization = Quantization.NONE
    replication: int = 1
    payload_bytes: int = 200
    guides: int = 0
    queries_per_second: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = {
            "images": self.images < 1,
            "megabytes": not 0 < self.megabytes < inf,
            "megapixels": not 0 < self.megapixels < inf,
            "replication": self.replication < 1,
            "queries_per_second": not 0 <= self.queries_per_second < inf,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise InvalidRequestError(f"{name} cannot be {getattr(self, name)!r}", hint="give a number above zero")

    @property
    def gmacs(self) -> float:
        """Milliards of multiply-accumulates a picture, over all models."""
        return sum(self.models.values())

    @property
    def dims(self) -> int:
        """Dimensions of a picture over all spaces."""
        return sum(self.spaces.values())


def of_profile(profile: Profile, images: int, **changes: object) -> Workload:
    """The workload of a profile's models and spaces.

    Args:
        profile: Names them.
        images: Pictures.
        changes: Other fields of `Workload`.
    """
    notes: list[str] = []
    models: dict[str, float] = {}
    for name in profile.backbones:
        if name not in GMACS:
            notes.append(f"the work of {name} is not known: {_UNKNOWN_GMACS:.0f} GMAC a picture is assumed")
        models[name] = GMACS.get(name, _UNKNOWN_GMACS)
    spaces = {space: _dim(space, profile.direct.get(space), notes) for space in profile.spaces}
    stored = sum(_FEATURES + _CLASSES if name.startswith("efficientnet") else _model_dim(name) for name in profile.backbones)
    known: dict[str, object] = {
        "models": models, "spaces": spaces, "stored": stored, "hnsw": profile.hnsw, "guides": profile.guides,
        "notes": tuple(notes),
    }  # fmt: skip
    return Workload(images=images, **{**known, **changes})  # type: ignore[arg-type]  # checked by the callers' own types


def parse_count(text: str) -> int:
    """`100M`, `1.5k`, `20_000` -> a number.

    Raises:
        InvalidRequestError: it is no number above zero.
    """
    match = _COUNT.fullmatch(text.strip())
    number = float(match.group(1).replace(",", "").replace("_", "")) * _SUFFIXES[match.group(2).lower()] if match else 0
    if number < 1:
        raise InvalidRequestError(f"{text!r} is not a number of pictures", hint="e.g. 250000, 40k, 100M")
    return round(number)


def _dim(space: str, backbone: str | None, notes: list[str]) -> int:
    if backbone is None:
        if space not in _OWN_DIMS:
            notes.append(f"the dimensions of the space {space!r} are not known: {_UNKNOWN_DIM} are assumed")
        return _OWN_DIMS.get(space, _UNKNOWN_DIM)
    if not any(part in backbone for part in _DIMS):
        notes.append(f"the dimensions of {backbone} are not known: {_UNKNOWN_DIM} are assumed")
    return _model_dim(backbone)


def _model_dim(name: str) -> int:
    return next((dim for part, dim in _DIMS.items() if part in name), _UNKNOWN_DIM)
