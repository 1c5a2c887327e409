"""One part of a captioned collection in the embedded profile's spaces, for benchmarks of the guide loop."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import ModelSettings
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.weighting.choice import make_weigher
from lodestone.spaces.registry import make_space
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_eval.datasets.plain import split_by_hash

PROFILE = PROFILES["embedded"]
_BATCH = 16


@dataclass(frozen=True, slots=True)
class Captioned:
    """A collection of n pictures with c captions.

    Attributes:
        names: n file names.
        words: (c, d) float32, each caption in the text encoder's own space.
        starts: (n,) first row of each picture's captions in `words`; its captions stand together.
        images: Space -> (n, dim) float32, L2-normalised.
        texts: Space -> (c, dim) float32, the captions there.
        weights: Space -> (c,) float64, the weight that the engine gives the space for each caption as a query.
    """

    names: Sequence[str]
    words: NDArray[np.float32]
    starts: NDArray[np.intp]
    images: Mapping[str, NDArray[np.float32]]
    texts: Mapping[str, NDArray[np.float32]]
    weights: Mapping[str, NDArray[np.float64]]

    def likeness(self, caption: int) -> NDArray[np.float32]:
        """Return (n,) cosines of a caption with each picture's best caption."""
        best: NDArray[np.float32] = np.maximum.reduceat(self.words @ self.words[caption], self.starts)
        return best

    def captions_of(self, picture: int) -> range:
        """Return the rows of `words` that are captions of a picture."""
        ends = [*self.starts[1:], len(self.words)]
        return range(int(self.starts[picture]), int(ends[picture]))


def load(data: Path, part: str, *, most: int | None = None) -> Captioned:
    """Embed the `part` (train, validation or test) of DIR/captions.tsv (columns file, caption) and DIR/images."""
    captions: dict[str, list[str]] = {}
    with (data / "captions.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            captions.setdefault(row["file"], []).append(row["caption"])
    names = list(getattr(split_by_hash(captions), part))[:most]
    context = ModelContext(ModelCache(ModelSettings().cache))
    text = make_text_encoder(PROFILE.text_encoder, context)
    projections = {name: make_space(name, context) for name in PROFILE.spaces}
    text.warm_up()
    for projection in projections.values():
        projection.warm_up()
    words = text.encode([caption for name in names for caption in captions[name]])
    outputs = _embed([data / "images" / name for name in names], context)
    weigher = make_weigher(projections)
    by_caption = [weigher.weights({text.name: row[None]}, list(projections)) for row in words]
    return Captioned(
        names,
        words,
        np.cumsum([0, *(len(captions[name]) for name in names[:-1])]),
        {name: projection.project(outputs) for name, projection in projections.items()},
        {name: projection.project_texts(words) for name, projection in projections.items()},
        {name: np.array([weights[name] for weights in by_caption]) for name in projections},
    )


def _embed(paths: Sequence[Path], context: ModelContext) -> BackboneOutputs:
    columns: dict[OutputKey, NDArray[Any]] = {}
    for name in PROFILE.backbones:
        backbone = make_backbone(name, context)
        backbone.warm_up()
        batches = [
            backbone.embed(
                np.stack([backbone.prepare(Image.open(path).convert("RGB")) for path in paths[start : start + _BATCH]])
            )
            for start in range(0, len(paths), _BATCH)
        ]
        for output in backbone.outputs:
            columns[OutputKey(name, output.name)] = np.concatenate([batch[output.name] for batch in batches])
    return BackboneOutputs(columns)
