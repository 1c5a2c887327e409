"""Modalities of a vector set: vectors compared by cosine, and attributes compared by the share of equal ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Values = TypeVar("Values", Floats, Integers)

_MOST_COLUMNS: Final = 4096  # of attributes as vectors


class ModalityRows(Protocol):
    """Rows of objects and queries in one modality, and their similarity."""

    @property
    def name(self) -> str:
        """Return the modality's name."""

    @property
    def objects(self) -> int:
        """Return the number of objects."""

    @property
    def queries(self) -> int:
        """Return the number of queries."""

    @property
    def widths(self) -> tuple[int, int]:
        """Return the number of columns of objects and of queries."""

    def similarities(self, query: int) -> Floats | None:
        """Return (objects,) float32: the similarity of a query with each object, NaN where one lacks the modality.

        None if the query lacks the modality.
        """

    def of_object(self, place: int) -> ModalityRows:
        """Return the modality with one object alone."""

    def of_queries(self, queries: list[int]) -> ModalityRows:
        """Return the modality with these queries alone."""

    def columns(self) -> tuple[Floats, Floats]:
        """Return vectors whose inner products are the similarities.

        Returns:
            (objects, dim) and (queries, dim) float32, L2-normalised or zero where the modality is missing.
        """


@dataclass(frozen=True, slots=True, eq=False)
class _Rows(Generic[Values]):
    """What all modalities of a vector set hold: their name, and one row an object and a query."""

    name: str
    base: Values
    asked: Values

    @property
    def objects(self) -> int:
        """Return the number of objects."""
        return len(self.base)

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return len(self.asked)

    @property
    def widths(self) -> tuple[int, int]:
        """Return the number of columns of objects and of queries."""
        return self.base.shape[1], self.asked.shape[1]

    def of_object(self, place: int) -> Self:
        """Return the modality with one object alone."""
        return replace(self, base=self.base[place : place + 1])

    def of_queries(self, queries: list[int]) -> Self:
        """Return the modality with these queries alone."""
        return replace(self, asked=self.asked[queries])


@dataclass(frozen=True, slots=True, eq=False)
class VectorModality(_Rows[Floats]):
    """Holds a modality of vectors, compared by cosine.

    Attributes:
        name: The modality's name.
        base: (objects, dim) float32, L2-normalised; zero where an object lacks it.
        asked: (queries, dim) float32, L2-normalised; zero where a query lacks it.
    """

    def similarities(self, query: int) -> Floats | None:
        """Return the cosines of a query with the objects, as `ModalityRows.similarities` says."""
        vector = self.asked[query]
        if not vector.any():
            return None
        similarities: Floats = self.base @ vector
        lacking = np.flatnonzero(similarities == 0)
        similarities[lacking[~self.base[lacking].any(1)]] = np.nan
        return similarities

    def columns(self) -> tuple[Floats, Floats]:
        """Return the vectors themselves."""
        return self.base, self.asked


@dataclass(frozen=True, slots=True, eq=False)
class AttributeModality(_Rows[Integers]):
    """Holds a modality of attributes, compared by the share of equal ones.

    Attributes:
        name: The modality's name.
        base: (objects, attributes) int32.
        asked: (queries, attributes) int32.
        skipped: Value of an attribute that a query leaves open, which never counts as equal; None if there is none. The share
            is of all attributes even so, as in the published code.
    """

    skipped: int | None = None

    def similarities(self, query: int) -> Floats | None:
        """Return the share of equal attributes, as `ModalityRows.similarities` says; only a query may lack the modality."""
        named = np.ones(self.asked.shape[1], bool) if self.skipped is None else self.asked[query] != self.skipped
        if not named.any():
            return None
        equal = (self.base[:, named] == self.asked[query, named]).sum(1)
        share: Floats = (equal / self.base.shape[1]).astype(np.float32)
        return share

    def columns(self) -> tuple[Floats, Floats]:
        """Return one column for each value of each attribute, and a last one that is 0 for all objects.

        A query that leaves attributes open has fewer ones, and what it lacks of length 1 stands in the last column. So queries
        have length 1 and inner products are the similarities, whatever a query leaves open.

        Raises:
            InvalidRequestError: there are too many values.
        """
        values = [np.unique(column) for column in self.base.T]
        dim = sum(map(len, values))
        if dim > _MOST_COLUMNS:
            raise InvalidRequestError(
                f"{self.name} has {dim:,} values, and an index holds one column for each of at most {_MOST_COLUMNS:,}",
                hint="use --store exact",
            )
        base = np.zeros((len(self.base), dim + 1), np.float32)
        asked = np.zeros((len(self.asked), dim + 1), np.float32)
        named = np.ones(self.asked.shape, bool) if self.skipped is None else self.asked != self.skipped
        first = 0
        for number, known in enumerate(values):
            base[np.arange(len(base)), first + np.searchsorted(known, self.base[:, number])] = 1
            wanted = self.asked[:, number]
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            counts = (known[places] == wanted) & named[:, number]
            asked[np.flatnonzero(counts), first + places[counts]] = 1
            first += len(known)
        attributes = self.base.shape[1]
        unmatched = attributes - asked.sum(1)
        asked[:, dim] = np.where(named.any(1), np.sqrt(unmatched), 0)  # a query that names nothing lacks the modality
        scale = np.float32(np.sqrt(attributes))
        return base / scale, asked / scale
