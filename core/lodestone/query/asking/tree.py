"""Queries as small typed trees of pure values: leaves that say what to look for, and nodes that combine or restrict them.

Searches in words, by an indexed picture, by any picture and in batches are constructors of such trees, and one pipeline answers
them (pipeline.py). A node checks its own values when it is made. Whether a tree can be answered is decided when it is resolved
(resolve.py, sets.py), which leaves there are retrievers for is a table (leaves.py), and which restrictions there are is another
(restrictions.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.text_encoders.text import normalise_query
from lodestone_schemas.api import SearchFilters

_RGB: Final = 3


class Query:
    """Base of all nodes of a query."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the pixels or vectors of a leaf are from.

    Attributes:
        image_id: The indexed picture, which is not among the results; "" for none.
        region: Left edge, upper edge, width and height of the part of the picture that they show, in shares of its size; None
            for all of it.
    """

    image_id: str = ""
    region: tuple[float, float, float, float] | None = None


NOWHERE: Final = Origin()
"""Origin of pixels and vectors that are from no indexed picture, all of it."""


class Leaf(Query):
    """Base of the nodes that say what to look for: vectors, by which every picture is ranked. Each type has a retriever."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The words that the leaf looks for; "" for one that is not in words."""
        return ""

    @property
    def source(self) -> Origin:
        """Where the leaf's pixels or vectors are from."""
        return NOWHERE


class Restriction(Query):
    """Base of the nodes that say which pictures may be found: a set of ids, or a condition of the store.

    Each type has a row in the table of restrictions.py. They rank nothing: a query needs a leaf beside them.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Text(Leaf):
    """Pictures that show what these words say.

    Attributes:
        words: The words, which are normalised (`normalise_query`).

    Raises:
        InvalidRequestError: there are no words, or too many characters.
    """

    words: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", normalise_query(self.words))

    @property
    def text(self) -> str:
        """The words that the leaf looks for."""
        return self.words


@dataclass(frozen=True, slots=True)
class Image(Leaf):
    """Pictures like an indexed one, which is not among them.

    Attributes:
        image_id: Identifier of the indexed picture.

    Raises:
        InvalidRequestError: the identifier is empty.
    """

    image_id: str

    def __post_init__(self) -> None:
        if not self.image_id:
            raise InvalidRequestError("the query names no picture", hint="take the id from a search result")

    @property
    def source(self) -> Origin:
        """The indexed picture, all of it."""
        return Origin(self.image_id)


@dataclass(frozen=True, slots=True, eq=False)
class Picture(Leaf):
    """Pictures like a given one, which need not be indexed.

    Attributes:
        pixels: (h, w, 3) uint8, upright RGB.
        origin: Where the pixels are from.

    Raises:
        InvalidRequestError: the array is of another shape or type, or empty.
    """

    pixels: NDArray[np.uint8]
    origin: Origin = NOWHERE

    def __post_init__(self) -> None:
        shape, dtype = self.pixels.shape, self.pixels.dtype
        if len(shape) != _RGB or shape[-1] != _RGB or 0 in shape or dtype != np.uint8:
            raise InvalidRequestError(
                f"a picture's pixels have shape {shape} and type {dtype}", hint="give (height, width, 3) uint8, upright RGB"
            )

    @property
    def source(self) -> Origin:
        """Where the pixels are from."""
        return self.origin


@dataclass(frozen=True, slots=True, eq=False)
class Vector(Leaf):
    """Pictures near given vectors.

    Attributes:
        by_space: Space -> (dim,) float32 vector of the version that is searched; it is normalised to length 1.
        origin: Where the vectors are from.

    Raises:
        InvalidRequestError: there is no vector, or one is not finite, zero or of another shape than (dim,).
    """

    by_space: Mapping[str, NDArray[np.float32]]
    origin: Origin = NOWHERE

    def __post_init__(self) -> None:
        if not self.by_space:
            raise InvalidRequestError("the query holds no vector", hint="give a vector for at least one space")
        units = {}
        for space, vector in self.by_space.items():
            length = float(np.linalg.norm(vector))
            if vector.ndim != 1 or not math.isfinite(length) or length == 0:
                raise InvalidRequestError(
                    f"the vector for space {space!r} has shape {vector.shape} and length {length:g}",
                    hint="give one row of finite numbers, not all 0",
                    space=space,
                )
            units[space] = np.asarray(vector / length, np.float32)
        object.__setattr__(self, "by_space", units)

    @property
    def source(self) -> Origin:
        """Where the vectors are from."""
        return self.origin


@dataclass(frozen=True, slots=True)
class Meets(Restriction):
    """Pictures that meet conditions on corpus, root, folder, date and fields of parts.

    Attributes:
        filters: The conditions, in names and dates; without any, every picture meets them.
    """

    filters: SearchFilters


@dataclass(frozen=True, slots=True)
class Among(Restriction):
    """Pictures of a set that is given.

    Attributes:
        image_ids: Identifiers of indexed pictures; unknown ones are in no answer.
    """

    image_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tagged(Restriction):
    """Pictures that have a tag, by hand or learnt.

    Attributes:
        tag: The whole tag, which is normalised; upper and lower case are the same.

    Raises:
        InvalidRequestError: the tag is blank.
    """

    tag: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", normalise_query(self.tag))


@dataclass(frozen=True, slots=True)
class Compose(Query):
    """Pictures that are near several queries at once (MUST).

    Attributes:
        parts: Pairs of a query and its weight; a negative weight asks for pictures unlike that query.
        names: Names of the parts, as explanations show them, each once; () to have them named by what they are.
        diversity: How much a picture loses for being like those before it (MMR), in [0, 1].

    Raises:
        InvalidRequestError: there is no part, a weight is not finite, no weight is above 0, the names are not those of the
            parts, or the diversity is outside of its range.
    """

    parts: tuple[tuple[Query, float], ...]
    names: tuple[str, ...] = ()
    diversity: float = 0.0

    def __post_init__(self) -> None:
        _check_parts("Compose", [part for part, _ in self.parts])
        if self.names and (len(self.names) != len(self.parts) or len(set(self.names)) != len(self.names)):
            raise InvalidRequestError(
                f"{len(self.parts)} parts of the query are named {', '.join(self.names)}", hint="give each a name of its own"
            )
        if not 0 <= self.diversity <= 1:
            raise InvalidRequestError(
                f"the diversity is {self.diversity!r}", hint="0 for the most similar pictures, up to 1 for the most different"
            )
        for _, weight in self.parts:
            if not math.isfinite(weight):
                raise InvalidRequestError(f"a part of the query has weight {weight!r}", hint="weights are finite numbers")
        if all(weight <= 0 for _, weight in self.parts):
            raise InvalidRequestError(
                "no part of the query has a weight above 0", hint="say what to look for, beside what to avoid"
            )


@dataclass(frozen=True, slots=True)
class Where(Query):
    """A query restricted to pictures that meet conditions.

    Attributes:
        filters: The conditions, in names and dates; they hold together with those of nodes above and below.
        query: The restricted query.
    """

    filters: SearchFilters
    query: Query

    def __post_init__(self) -> None:
        _check_parts("Where", [self.query])


@dataclass(frozen=True, slots=True)
class And(Query):
    """Pictures that meet every one of several queries, ranked by what the leaves of all of them say together.

    Attributes:
        parts: The queries.

    Raises:
        InvalidRequestError: there is no part.
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        _check_parts("And", self.parts)


@dataclass(frozen=True, slots=True)
class Or(Query):
    """Pictures that meet at least one of several queries, each ranked by the one that says most for it.

    Attributes:
        parts: The queries.

    Raises:
        InvalidRequestError: there is no part.
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        _check_parts("Or", self.parts)


@dataclass(frozen=True, slots=True)
class Not(Query):
    """Pictures that do not meet a query of restrictions. What a leaf says has no end: pictures are less and less like it.

    Attributes:
        query: The query to negate.
    """

    query: Query

    def __post_init__(self) -> None:
        _check_parts("Not", [self.query])


def _check_parts(node: str, parts: Any) -> None:  # noqa: ANN401 (what callers without types pass)
    if not parts:
        raise InvalidRequestError(f"{node} has no part", hint="give at least one query", node=node)
    for part in parts:
        if not isinstance(part, Query):
            raise InvalidRequestError(
                f"a part of {node} is a {type(part).__name__}, not a query", hint="e.g. Text('a dog')", node=node
            )
