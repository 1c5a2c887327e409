"""Registry of benchmarks of composed queries: name, short description, and the reader, which is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from lodestone.errors import UnknownNameError

if TYPE_CHECKING:
    from lodestone_eval.composed.queries import ComposedSet

ComposedReader = Callable[[Path, str | None], "ComposedSet"]


@dataclass(frozen=True, slots=True)
class ComposedBenchmark:
    """Describes one benchmark: what is asked, in a line, and the module and function that read it."""

    about: str
    module: str
    function: str

    def reader(self) -> ComposedReader:
        """Return the benchmark's reader; this imports its module."""
        module = importlib.import_module(f"lodestone_eval.composed.{self.module}")
        return cast("ComposedReader", getattr(module, self.function))


COMPOSED_BENCHMARKS: Final[dict[str, ComposedBenchmark]] = {
    "mit-states": ComposedBenchmark("MIT-States: another state of a noun.", "attribute_readers", "read_mit_states"),
    "celeba": ComposedBenchmark("CelebA: the same face with other attributes.", "attribute_readers", "read_celeba"),
    "celeba+": ComposedBenchmark("CelebA with three image encoders.", "attribute_readers", "read_celeba_plus"),
    "shopping100k": ComposedBenchmark(
        "Shopping100k: a garment with other attributes.", "attribute_readers", "read_shopping100k"
    ),
    "coco-parts": ComposedBenchmark("MS-COCO: parts of two pictures and a name.", "coco_reader", "read_coco_parts"),
    "fashioniq": ComposedBenchmark("FashionIQ: a garment and two captions.", "caption_readers", "read_fashion_iq"),
    "cirr": ComposedBenchmark("CIRR: a picture and a caption, R@k and R_subset@k.", "caption_readers", "read_cirr"),
    "circo": ComposedBenchmark("CIRCO: a picture and a caption, mAP@k.", "caption_readers", "read_circo"),
    "icir": ComposedBenchmark("i-CIR: an instance in words' circumstances, mAP.", "caption_readers", "read_icir"),
}


def read_composed(name: str, root: Path, *, split: str | None = None) -> ComposedSet:
    """Read a benchmark of composed queries from the folder it was unpacked to.

    Args:
        name: A name in `COMPOSED_BENCHMARKS`.
        root: The folder.
        split: Part of the benchmark; None for the reader's default.

    Raises:
        UnknownNameError: there is no such benchmark; the hint lists the known ones.
        NotFoundError: a file or all pictures are missing; the hint shows the layout.
        InvalidRequestError: a file is not as published, there is no such split, or no query is left.
    """
    if name not in COMPOSED_BENCHMARKS:
        raise UnknownNameError.among("benchmark", name, list(COMPOSED_BENCHMARKS))
    return COMPOSED_BENCHMARKS[name].reader()(root.expanduser(), split)
