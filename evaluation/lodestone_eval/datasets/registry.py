"""Registry of benchmarks: name, short description, and module of the reader, which is imported only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from lodestone.errors import UnknownNameError

if TYPE_CHECKING:
    from lodestone_eval.datasets.base import EvalSet

Reader = Callable[[Path, str | None], "EvalSet"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Describes one benchmark: what it searches for, in a line, and the module and function that read it."""

    about: str
    module: str
    function: str

    def reader(self) -> Reader:
        """Return the benchmark's reader; this imports its module."""
        return cast("Reader", getattr(importlib.import_module(f"lodestone_eval.datasets.{self.module}"), self.function))


BENCHMARKS: Final[dict[str, Benchmark]] = {
    "captions": Benchmark("Your own pictures and captions.tsv (file, caption).", "plain", "read_captions"),
    "names": Benchmark("Your own pictures and names.tsv (file, name).", "plain", "read_names"),
    "caltech256": Benchmark("Caltech-256: objects, one folder a category.", "caltech", "read_caltech256"),
    "coco-captions": Benchmark("COCO: captions_val2017.json.", "coco", "read_coco_captions"),
    "coco-instances": Benchmark("COCO: objects, instances_val2017.json.", "coco", "read_coco_instances"),
    "lvis": Benchmark("LVIS v1: objects with a long tail, lvis_v1_val.json.", "coco", "read_lvis"),
    "bdd100k": Benchmark("BDD100k: objects on the road.", "bdd", "read_bdd100k"),
    "nocaps": Benchmark("nocaps: captions of novel objects.", "coco", "read_nocaps"),
    "senticap": Benchmark("SentiCap: captions with sentiment.", "senticap", "read_senticap"),
    "flickr8k": Benchmark("Flickr8k: captions, token file or Karpathy's JSON.", "flickr", "read_flickr8k"),
    "flickr30k": Benchmark("Flickr30k: captions, token file or Karpathy's JSON.", "flickr", "read_flickr30k"),
    "winoground": Benchmark("Winoground: which caption is whose picture's?", "pairs", "read_winoground"),
    "cola": Benchmark("COLA, multi-objects: which caption is whose picture's?", "pairs", "read_cola"),
}


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
    if name not in BENCHMARKS:
        raise UnknownNameError.among("benchmark", name, list(BENCHMARKS))
    return BENCHMARKS[name].reader()(root.expanduser(), split)
