"""Vectors of objects and queries in several modalities, in the layout of MUST's published data.

Files begin with a prefix `DIR/<name>`: `_modal1_base.fvecs`, `_modal1_query.fvecs`, the same for modality 2 and so on. The
first modality is the target. A modality in `.ivecs` files holds attributes. `_modal1_2_query.fvecs` holds composition vectors
in the space of the first modality, `_gt.ivecs` the right objects of each query, and `_delete_id.ivecs` objects that a query
leaves out, the last two in rows of any length.

An object or a query that lacks a modality has a row of zeros there. This is our convention: the published sets are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.weights import ModalityWeights
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_eval.composed.modalities import AttributeModality, Floats, Integers, ModalityRows, VectorModality
from lodestone_eval.composed.vector_files import read_floats, read_integers, read_rows

_LAYOUT: Final = (
    "expected: PREFIX_modal1_base.fvecs and PREFIX_modal1_query.fvecs (or PREFIX_modal1_2_query.fvecs), the same for modality "
    "2 in .fvecs or .ivecs, and PREFIX_gt.ivecs; files that encoders share may lie one folder above"
)
_FLOATS, _INTEGERS = ".fvecs", ".ivecs"


@dataclass(frozen=True, slots=True, eq=False)
class VectorSet:
    """Holds objects and queries in several modalities, with the right objects of each query.

    Attributes:
        name: The set's name.
        modalities: The modalities, the target first.
        composition: (queries, dim) float32, L2-normalised: composition vectors in the target's space; None if there are none.
        truths: Right objects of each query, best first; None if they are not known.
        excluded: Objects that each query leaves out; None if it leaves out none.
        equally_right: Whether the right objects of a query are equal; otherwise the first k' of them count.
    """

    name: str
    modalities: tuple[ModalityRows, ...]
    composition: Floats | None = None
    truths: Sequence[Integers] | None = None
    excluded: Sequence[Integers] | None = None
    equally_right: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the modalities."""
        return tuple(modality.name for modality in self.modalities)

    @property
    def objects(self) -> int:
        """Return the number of objects."""
        return self.modalities[0].objects

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return self.modalities[0].queries

    def left_out(self, query: int) -> Integers:
        """Return the objects that a query leaves out."""
        return np.empty(0, np.int32) if self.excluded is None else self.excluded[query]

    def right(self, query: int, wanted: int) -> frozenset[int]:
        """Return the right objects that count for Recall@k(k'): all where they are equal, and otherwise the first k'."""
        left_out = set(self.left_out(query).tolist())
        rows = [] if self.truths is None else [place for place in self.truths[query].tolist() if place not in left_out]
        return frozenset(rows if self.equally_right else rows[:wanted])

    def of_modalities(self, count: int) -> VectorSet:
        """Return the set with its first `count` modalities."""
        return replace(self, modalities=self.modalities[:count])


def read_vector_set(
    prefix: Path,
    *,
    limit: int | None = None,
    skipped: int | None = None,
    composed: bool = False,
    equally_right: bool | None = None,
) -> VectorSet:
    """Read a set of vectors.

    Args:
        prefix: Folder and beginning of the files' names, such as `data/celeba/test/resnet_encode/celeba`.
        limit: Most queries to read; None for all.
        skipped: Value of an attribute that a query leaves open: 0 in the published CelebA and Shopping100k.
        composed: Whether the composition vector replaces the target's query vector (option 2 of the paper).
        equally_right: Whether all right objects of a query are equal; None: if the set has `_delete_id.ivecs`, as the published
            settings have it.

    Raises:
        NotFoundError: a file is missing; the hint shows the layout.
        InvalidRequestError: a file is damaged, or numbers of rows or columns do not fit each other.
    """
    prefix = prefix.expanduser()
    composition_path = _find(prefix, "_modal1_2_query.fvecs")
    composition = None if composition_path is None else _unit(read_floats(composition_path, limit=limit))
    if composed and composition is None:
        raise NotFoundError(f"no file {prefix!s}_modal1_2_query.fvecs", hint=_LAYOUT)
    modalities: list[ModalityRows] = []
    while (base_path := _find(prefix, *(f"_modal{len(modalities) + 1}_base{end}" for end in (_FLOATS, _INTEGERS)))) is not None:
        number = len(modalities) + 1
        query_path = _find(prefix, f"_modal{number}_query{base_path.suffix}")
        first_is_composed = number == 1 and composition is not None and (composed or query_path is None)
        if query_path is None and not first_is_composed:
            raise NotFoundError(f"no file {prefix!s}_modal{number}_query{base_path.suffix}", hint=_LAYOUT)
        if base_path.suffix == _INTEGERS:
            modalities.append(
                AttributeModality(
                    f"modality{number}", read_integers(base_path), read_integers(_there(query_path), limit=limit), skipped
                )
            )
        else:
            asked = composition if first_is_composed and composition is not None else None
            modalities.append(
                VectorModality(
                    f"modality{number}",
                    _unit(read_floats(base_path)),
                    _unit(read_floats(_there(query_path), limit=limit)) if asked is None else asked,
                )
            )
    if not modalities:
        raise NotFoundError(f"no file {prefix!s}_modal1_base.fvecs", hint=_LAYOUT)
    truth_path, excluded_path = _find(prefix, "_gt.ivecs"), _find(prefix, "_delete_id.ivecs")
    found = VectorSet(
        prefix.name,
        tuple(modalities),
        composition,
        None if truth_path is None else tuple(read_rows(truth_path, limit=limit)),
        None if excluded_path is None else tuple(read_rows(excluded_path, limit=limit)),
        excluded_path is not None if equally_right is None else equally_right,
    )
    _check(found, prefix)
    return found


def _find(prefix: Path, *endings: str) -> Path | None:
    """Return the first file with this prefix, or of the same name one folder above."""
    folders = (prefix.parent, prefix.parent.parent)
    places = [folder / f"{prefix.name}{ending}" for folder in folders for ending in endings]
    return next((place for place in places if place.is_file()), None)


def _there(path: Path | None) -> Path:
    if path is None:
        raise NotFoundError("a file of query vectors is missing", hint=_LAYOUT)
    return path


def _check(found: VectorSet, prefix: Path) -> None:
    """Check that rows and columns fit each other.

    Raises:
        InvalidRequestError: they do not.
    """
    problem = next(iter(_misfits(found)), None)
    if problem is not None:
        raise InvalidRequestError(f"cannot use the vectors {str(prefix)!r}: {problem}", hint=_LAYOUT)


def _misfits(found: VectorSet) -> Iterator[str]:
    """Yield what does not fit."""
    for modality in found.modalities:
        of_objects, of_queries = modality.widths
        if of_objects != of_queries:
            yield f"objects have {of_objects} columns in {modality.name}, and queries {of_queries}"
        if modality.objects != found.objects:
            yield f"{modality.name} has {modality.objects:,} objects, and modality1 {found.objects:,}"
        if modality.queries != found.queries:
            yield f"{modality.name} has {modality.queries:,} queries, and modality1 {found.queries:,}"
    if found.composition is not None:
        target = found.modalities[0]
        if not isinstance(target, VectorModality):
            yield "composition vectors need a first modality of vectors"
        elif found.composition.shape != (found.queries, target.base.shape[1]):
            yield f"the composition vectors have the shape {found.composition.shape}, unlike the queries of modality1"
    yield from _misplaced("right objects", found.truths, found)
    yield from _misplaced("objects to leave out", found.excluded, found)


def _misplaced(what: str, rows: Sequence[Integers] | None, found: VectorSet) -> Iterator[str]:
    if rows is None:
        return
    if len(rows) != found.queries:
        yield f"there are {what} for {len(rows):,} queries, and {found.queries:,} queries"
    for number, row in enumerate(rows):
        if len(row) and not 0 <= row.min() <= row.max() < found.objects:
            yield f"the {what} of query {number} are not all among the {found.objects:,} objects"


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def weights_of(vectors: VectorSet, squares: Sequence[float]) -> NDArray[np.float64]:
    """Return weights (squares) of the modalities, in their order, which sum to 1.

    Raises:
        InvalidRequestError: there are too few or too many, one is negative or not finite, or all are 0.
    """
    if len(squares) != len(vectors.modalities):
        raise InvalidRequestError(
            f"{len(squares)} weights for {len(vectors.modalities)} modalities",
            hint=f"give one for each of {', '.join(vectors.names)}, comma-separated",
        )
    weights = ModalityWeights.of(dict(zip(vectors.names, squares, strict=True)))
    return np.array([weights[name] for name in vectors.names])
