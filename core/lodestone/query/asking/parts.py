"""Parts of a composed query: its leaves with their names, and the share of the score that each one decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lodestone.composed.weights import ModalityWeights
from lodestone.config.compositions import Role
from lodestone.errors import InvalidRequestError
from lodestone.query.asking.tree import Compose, Leaf
from lodestone.store.base import Filter
from lodestone_schemas.api import MAX_PARTS, QueryPart, QueryRegion

WORDS: Final = "words"
PICTURE: Final = "picture"
WITHOUT: Final = "without"
UNLIKE: Final = "unlike"

OWN: Final = ":own"
"""Ending of the guide under which a record keeps a picture's own vector, at weight 0, for refinements of the query."""

EDITED_SIDE: Final = 1_024
"""Pixels of the longer side of a picture that is edited, at most: no engine that ships draws larger ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a composed query.

    Attributes:
        name: Its name, which no other part has.
        leaf: What to look for, or to avoid.
        weight: Share of the score that it decides, above 0; the shares of all parts sum to 1.
        avoid: Whether pictures like it are to be avoided.
        alternative: Number of the alternative that it belongs to, from 0.
    """

    name: str
    leaf: Leaf
    weight: float
    avoid: bool
    alternative: int = 0

    @property
    def role(self) -> Role:
        """Role of the part in a composition: words are auxiliary, anything else says what the target is like."""
        return Role.AUXILIARY if self.leaf.text else Role.TARGET

    @property
    def image_id(self) -> str:
        """Id of the indexed picture that the part was taken from; "" for none."""
        return self.leaf.source.image_id

    @property
    def described(self) -> QueryPart:
        """The part as answers and records show it."""
        region = self.leaf.source.region
        return QueryPart(
            name=self.name,
            weight=self.weight,
            avoid=self.avoid,
            alternative=self.alternative,
            text=self.leaf.text or None,
            image_id=self.image_id or None,
            region=None if region is None else QueryRegion(x=region[0], y=region[1], w=region[2], h=region[3]),
        )


@dataclass(frozen=True, slots=True)
class PartSet:
    """Parts of a query that a picture is ranked by together, among those pictures that a filter lets through.

    Attributes:
        parts: The parts; their shares sum to 1.
        filter: The store's filter; None when nothing is restricted.
    """

    parts: tuple[Part, ...]
    filter: Filter | None


def kind_of(leaf: Leaf, *, avoid: bool) -> str:
    """Return what a part of this leaf is called: words, picture, without (words to avoid) or unlike (a picture to avoid)."""
    if leaf.text:
        return WITHOUT if avoid else WORDS
    return UNLIKE if avoid else PICTURE


def free_name(kind: str, taken: Iterable[str]) -> str:
    """Return the first name of a kind that is not taken: `words`, then `words2`, `words3` and so on."""
    known, number = set(taken), 1
    while (name := kind if number == 1 else f"{kind}{number}") in known:
        number += 1
    return name


def parts_of(query: Compose, *, alternative: int = 0) -> tuple[Part, ...]:
    """Return the parts of a composed query that have a weight.

    Args:
        query: The composed query.
        alternative: Number of the alternative that it is.

    Raises:
        InvalidRequestError: there are too many parts, or one of them is itself made of several queries.
    """
    if len(query.parts) > MAX_PARTS:
        raise InvalidRequestError(
            f"the query has {len(query.parts)} parts, at most {MAX_PARTS} are answered",
            hint="leave some out; a refinement drops parts of the query before (drop)",
            parts=len(query.parts),
            most=MAX_PARTS,
        )
    leaves = [_leaf_of(part) for part, _ in query.parts]
    amounts = [weight for _, weight in query.parts]
    names = query.names or _names(leaves, amounts)
    shares = ModalityWeights.of({name: abs(amount) for name, amount in zip(names, amounts, strict=True)})
    return tuple(
        Part(name, leaf, shares[name], amount < 0, alternative)
        for name, leaf, amount in zip(names, leaves, amounts, strict=True)
        if shares[name] > 0
    )


def editable(parts: Sequence[Part]) -> list[int]:
    """Return the numbers of the parts that words can edit: pictures to look for, where words are looked for too."""
    if not any(part.leaf.text and not part.avoid for part in parts):
        return []
    return [number for number, part in enumerate(parts) if not part.leaf.text and not part.avoid]


def _leaf_of(part: object) -> Leaf:
    while isinstance(part, Compose) and len(part.parts) == 1 and part.parts[0][1] > 0:
        part = part.parts[0][0]
    if not isinstance(part, Leaf):
        node = type(part).__name__
        raise InvalidRequestError(
            f"a part of the query is made of several queries ({node}), which is not answered yet",
            hint="give words, an indexed picture, any picture, or vectors as parts",
            node=node,
        )
    return part


def _names(leaves: Sequence[Leaf], amounts: Sequence[float]) -> tuple[str, ...]:
    names: list[str] = []
    for leaf, amount in zip(leaves, amounts, strict=True):
        names.append(free_name(kind_of(leaf, avoid=amount < 0), names))
    return tuple(names)
