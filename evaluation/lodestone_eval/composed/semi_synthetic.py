"""Semi-synthetic vector sets: picture vectors with made-up attributes, as MUST builds ImageText1M, in MUST's own layout.

The paper (appendix J) adds a text modality to SIFT vectors by the method of Milvus (Wang et al., 2021), which gives each
vector attributes of random values; how many attributes and values it took is not published, so both are options. Right are the
objects with all attributes of the query, in the order of their picture vectors' similarity, as in a filtered search. Without a
file of real vectors, clustered ones are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone_eval.composed.vector_files import read_floats, write_vectors

_CLUSTER: Final = 100  # objects of a cluster, on average
_SPREAD: Final = 0.6  # length of an object's offset from its cluster's centre, which has length 1
_MOST_RIGHT: Final = 100


@dataclass(frozen=True, slots=True)
class SemiSynthetic:
    """Holds the options of a semi-synthetic set.

    Attributes:
        objects: Number of objects.
        queries: Number of queries.
        dim: Length of drawn picture vectors; 128 in SIFT.
        attributes: Attributes of an object.
        values: Values of an attribute.
        seed: Seed of all that is drawn.
        base: `.fvecs` file of real picture vectors; None to draw them.
        asked: `.fvecs` file of real query vectors; None to draw queries beside objects.
    """

    objects: int = 1_000_000
    queries: int = 10_000
    dim: int = 128
    attributes: int = 3
    values: int = 4
    seed: int = 0
    base: Path | None = None
    asked: Path | None = None

    def __post_init__(self) -> None:
        numbers = (self.objects, self.queries, self.dim, self.attributes, self.values)
        if min(numbers) < 1:
            raise InvalidRequestError(
                "objects, queries, dimensions, attributes and values are at least 1", hint="for example --objects 10000"
            )
        if self.asked is not None and self.base is None:
            raise InvalidRequestError("--queries-from needs --base-from", hint="give both files, or neither")


def write_semi_synthetic(prefix: Path, options: SemiSynthetic) -> list[Path]:
    """Make the set, write its files, and return their paths. The same options give the same files.

    Args:
        prefix: Folder and beginning of the files' names.
        options: Size and seed.

    Raises:
        InvalidRequestError: a given file is damaged or too small, or a file cannot be written.
        NotFoundError: a given file does not exist.
    """
    rng = np.random.default_rng(options.seed)
    base = _drawn(rng, options) if options.base is None else _given(options.base, options.objects)
    asked = _beside(rng, base, options.queries) if options.asked is None else _given(options.asked, options.queries)
    if asked.shape[1] != base.shape[1]:
        raise InvalidRequestError(
            f"objects have {base.shape[1]} columns, and queries {asked.shape[1]}", hint="give files of one set of vectors"
        )
    base_attributes = rng.integers(1, options.values + 1, (len(base), options.attributes), dtype=np.int32)
    asked_attributes = rng.integers(1, options.values + 1, (len(asked), options.attributes), dtype=np.int32)
    truths = _truths(base, asked, base_attributes, asked_attributes)
    prefix = prefix.expanduser()
    files = {
        "modal1_base.fvecs": base,
        "modal1_query.fvecs": asked,
        "modal2_base.ivecs": base_attributes,
        "modal2_query.ivecs": asked_attributes,
        "gt.ivecs": truths,
    }
    paths = []
    for ending, rows in files.items():
        path = prefix.with_name(f"{prefix.name}_{ending}")
        write_vectors(path, rows)  # type: ignore[arg-type]  # arrays are rows
        paths.append(path)
    return paths


def _drawn(rng: np.random.Generator, options: SemiSynthetic) -> NDArray[np.float32]:
    centres = rng.standard_normal((max(1, options.objects // _CLUSTER), options.dim)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = rng.standard_normal((options.objects, options.dim), dtype=np.float32) * np.float32(_SPREAD / np.sqrt(options.dim))
    vectors += centres[rng.integers(0, len(centres), options.objects)]
    return vectors


def _beside(rng: np.random.Generator, base: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Draw queries beside random objects, at half the spread of a cluster."""
    chosen = base[rng.integers(0, len(base), count)]
    typical = float(np.linalg.norm(chosen, axis=1).mean())
    noise = rng.standard_normal(chosen.shape, dtype=np.float32) * np.float32(typical * _SPREAD / 2 / np.sqrt(base.shape[1]))
    return chosen + noise


def _given(path: Path, count: int) -> NDArray[np.float32]:
    vectors = read_floats(path.expanduser(), limit=count)
    if len(vectors) < count:
        raise InvalidRequestError(
            f"{str(path)!r} holds {len(vectors):,} vectors, and {count:,} are wanted",
            hint="ask for fewer, or give a larger file",
        )
    return vectors


def _truths(
    base: NDArray[np.float32],
    asked: NDArray[np.float32],
    base_attributes: NDArray[np.int32],
    asked_attributes: NDArray[np.int32],
) -> list[NDArray[np.int32]]:
    """Return at most 100 right objects of each query, best first; there may be none."""
    order = np.lexsort(base_attributes.T[::-1])
    kinds, starts = np.unique(base_attributes[order], axis=0, return_index=True)
    groups = {
        tuple(kind): order[start:end]
        for kind, start, end in zip(kinds.tolist(), starts, [*starts[1:], len(order)], strict=True)
    }
    lengths = np.linalg.norm(base, axis=1)
    truths = []
    for vector, attributes in zip(asked, asked_attributes.tolist(), strict=True):
        members = groups.get(tuple(attributes), np.empty(0, np.int64))
        cosines = base[members] @ vector / np.maximum(lengths[members], np.finfo(np.float32).tiny)
        truths.append(members[np.lexsort((members, -cosines))][:_MOST_RIGHT].astype(np.int32))
    return truths
