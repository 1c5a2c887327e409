"""Registry of benchmarks: name, short description, and the reader, whose module is imported only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import UnknownNameError

if TYPE_CHECKING:
    from lodestone_eval.composed.queries import ComposedSet
    from lodestone_eval.datasets.base import EvalSet


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Describes one benchmark: what it searches for, in a line, and the module and function that read it."""

    about: str
    module: str
    function: str


BENCHMARKS: Final[dict[str, Benchmark]] = {
    "captions": Benchmark("Your own pictures and captions.tsv (file, caption).", "datasets.plain", "read_captions"),
    "names": Benchmark("Your own pictures and names.tsv (file, name).", "datasets.plain", "read_names"),
    "caltech256": Benchmark("Caltech-256: objects, one folder a category.", "datasets.caltech", "read_caltech256"),
    "coco-captions": Benchmark("COCO: captions_val2017.json.", "datasets.coco", "read_coco_captions"),
    "coco-instances": Benchmark("COCO: objects, instances_val2017.json.", "datasets.coco", "read_coco_instances"),
    "lvis": Benchmark("LVIS v1: objects with a long tail, lvis_v1_val.json.", "datasets.coco", "read_lvis"),
    "bdd100k": Benchmark("BDD100k: objects on the road.", "datasets.bdd", "read_bdd100k"),
    "nocaps": Benchmark("nocaps: captions of novel objects.", "datasets.coco", "read_nocaps"),
    "senticap": Benchmark("SentiCap: captions with sentiment.", "datasets.senticap", "read_senticap"),
    "flickr8k": Benchmark("Flickr8k: captions, token file or Karpathy's JSON.", "datasets.flickr", "read_flickr8k"),
    "flickr30k": Benchmark("Flickr30k: captions, token file or Karpathy's JSON.", "datasets.flickr", "read_flickr30k"),
    "winoground": Benchmark("Winoground: which caption is whose picture's?", "datasets.pairs", "read_winoground"),
    "cola": Benchmark("COLA, multi-objects: which caption is whose picture's?", "datasets.pairs", "read_cola"),
}
"""Benchmarks of searches in words."""

COMPOSED_BENCHMARKS: Final[dict[str, Benchmark]] = {
    "mit-states": Benchmark("MIT-States: another state of a noun.", "composed.attribute_readers", "read_mit_states"),
    "celeba": Benchmark("CelebA: the same face with other attributes.", "composed.attribute_readers", "read_celeba"),
    "celeba+": Benchmark("CelebA with three image encoders.", "composed.attribute_readers", "read_celeba_plus"),
    "shopping100k": Benchmark(
        "Shopping100k: a garment with other attributes.", "composed.attribute_readers", "read_shopping100k"
    ),
    "coco-parts": Benchmark("MS-COCO: parts of two pictures and a name.", "composed.coco_reader", "read_coco_parts"),
    "fashioniq": Benchmark("FashionIQ: a garment and two captions.", "composed.caption_readers", "read_fashion_iq"),
    "cirr": Benchmark("CIRR: a picture and a caption, R@k and R_subset@k.", "composed.caption_readers", "read_cirr"),
    "circo": Benchmark("CIRCO: a picture and a caption, mAP@k.", "composed.caption_readers", "read_circo"),
    "icir": Benchmark("i-CIR: an instance in words' circumstances, mAP.", "composed.caption_readers", "read_icir"),
}
"""Benchmarks of composed queries."""


def read_benchmark(name: str, root: Path, *, split: str | None = None) -> EvalSet:
    """Read a benchmark from the folder it was unpacked to.

    Args:
        name: A name in `BENCHMARKS`.
        root: The folder.
        split: Part of the benchmark; None for the reader's default.

    Raises:
        UnknownNameError: there is no such benchmark; the hint lists the known ones.
        NotFoundError: a file or all pictures are missing; the hint shows the layout.
        InvalidRequestError: a file is not as published, there is no such split, or no query is left.
    """
    evalset: EvalSet = _read(BENCHMARKS, name, root, split)
    return evalset


def read_composed(name: str, root: Path, *, split: str | None = None) -> ComposedSet:
    """Read a benchmark of composed queries, a name in `COMPOSED_BENCHMARKS`, as `read_benchmark` reads others."""
    composed: ComposedSet = _read(COMPOSED_BENCHMARKS, name, root, split)
    return composed


def _read(benchmarks: Mapping[str, Benchmark], name: str, root: Path, split: str | None) -> Any:  # noqa: ANN401 - by the table
    if name not in benchmarks:
        raise UnknownNameError.among("benchmark", name, list(benchmarks))
    benchmark = benchmarks[name]
    reader = getattr(importlib.import_module(f"lodestone_eval.{benchmark.module}"), benchmark.function)
    return reader(root.expanduser(), split)
