"""Contract of generators, which turn a query into guides: pictures, or vectors, of what the query might look like.

A guide carries pixels (a real generator: the engine embeds them), vectors (a learned prior, or a picture of the collection:
already in one or more spaces), or both, and always its provenance. Generators are stages: light to construct, `warm_up` loads,
`generate` is async, honours an absolute deadline and gives at most `n` guides; fewer, or none, is an answer, not an error. The
same (prompt, first, n, seed, size, collection state) gives the same guides; guide number i keeps its id in every round.
`stream` gives the same guides as `generate`, each as soon as it is there.

An engine that `edits` also takes requests with a picture: its guides are that picture as the prompt changes it. Other engines
are never asked for that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from lodestone.retrieval.tag_matches import TagMatches
from lodestone.store.base import Filter


@dataclass(frozen=True, slots=True)
class PictureEdit:
    """Picture that guides start from, instead of from nothing.

    Attributes:
        pixels: (h, w, 3) uint8 RGB; an engine reduces it to the size of its own pictures.
        strength: How far guides may go from it, in (0, 1]: 1 keeps next to nothing of it.
    """

    pixels: NDArray[np.uint8]
    strength: float

    def digest(self) -> str:
        """Return 32 hexadecimal digits, which differ for other pixels, another shape or another strength."""
        content = blake3(repr((self.pixels.shape, self.strength)).encode())
        return content.update(np.ascontiguousarray(self.pixels).tobytes()).hexdigest(length=16)


@dataclass(frozen=True, slots=True)
class GuideRequest:
    """Request to a generator for guides of a query.

    Attributes:
        query: The user's words.
        prompt: Prompt for a text-to-image model (the query itself, or an LLM's draft).
        n: Largest number of guides.
        first: Number of the first of them in the sequence that (prompt, seed, size) stands for: guides can be drawn in rounds,
            and rounds of 1 give the same guides as one round of n.
        seed: Makes the draw repeatable.
        size: Side of a generated picture, pixels.
        deadline: Absolute, seconds on `time.monotonic()`'s clock; None for none.
        text_vectors: Encoder name -> (d,) float32 vector of the query, so that no engine encodes it again.
        collections: Space name -> collection name, as resolved at the start of the query.
        filter: The query's own filter: guides taken from the collection obey it.
        tenant: Group of callers that share cached guides (`Visibility.tenant`).
        edit: Picture that the prompt changes; None to draw. Only engines with `edits` are asked for it.
    """

    query: str
    prompt: str
    n: int
    first: int = 0
    seed: int = 0
    size: int = 256
    deadline: float | None = None
    text_vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    collections: Mapping[str, str] = field(default_factory=dict)
    filter: Filter | None = None
    tenant: str = ""
    edit: PictureEdit | None = None


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide: one imagined answer, as pixels, vectors or both.

    Attributes:
        guide_id: Unique within the query, e.g. `exemplar/0`.
        engine: Name of the generator.
        weight: How much its generator trusts it, in (0, 1].
        provenance: Where it comes from (engine version, prompt, seed, or image id and caption): JSON-serialisable.
        pixels: (h, w, 3) uint8 RGB, or None.
        vectors: Collection name (space and version) -> (dim,) float32, L2-normalised; may be empty.
        cost: What its engine charged for it.
        cached: Kind of hit in the guide cache (`exact`, `semantic`); None when it was drawn now.
    """

    guide_id: str
    engine: str
    weight: float
    provenance: Mapping[str, Any]
    pixels: NDArray[np.uint8] | None = None
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    cost: float = 0.0
    cached: Literal["exact", "semantic"] | None = None


class Generator(ABC):
    """Base class of generators; the module's docstring is the contract."""

    name: str
    version: str
    guides_a_call: int | None = None
    """Largest number of guides of one `generate` call; the hub makes as many calls as needed. None means any number."""
    cacheable: bool = True
    """Whether pictures depend on prompt, picture to edit, seed, size, guide number and settings alone: only such pictures are
    cached."""
    edits: bool = False
    """Whether it takes requests with a picture to edit (`GuideRequest.edit`)."""

    @abstractmethod
    async def warm_up(self) -> None:
        """Load what `generate` needs."""

    @abstractmethod
    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Return at most `request.n` guides.

        Raises:
            DeadlineExceededError: the deadline passed before the first guide.
            ModelUnavailableError: the engine cannot run; the query goes on without it and says so.
        """

    async def stream(self, request: GuideRequest) -> AsyncGenerator[list[Guide], None]:
        """Yield the guides of `generate` in batches, as they come; closing the iterator ends the drawing.

        An engine that has all of its guides at the same time need not define it. Raises as `generate`, also after some guides.
        """
        yield await self.generate(request)

    async def close(self) -> None:  # noqa: B027  (most engines hold nothing)
        """Release the engine's connections. Idempotent."""


class TagSource(Protocol):
    """Finds pictures whose tags are like the query's words; an engine and the text pass may use one."""

    def search(self, text: str, collection: str, *, filter_: Filter | None, limit: int) -> TagMatches:
        """Return the pictures that match, best first; none when no tag does. Blocking.

        Args:
            text: The query's words.
            collection: What the alias `tags` stood for at the start of the query.
            filter_: The query's own filter.
            limit: Pictures at most.
        """
