"""Contracts of the query engine with everything else, implemented by local objects or by adapters around remote ones.

The engine does not know which. `Encoder` is async because a remote one is; catalog and store block and are called in threads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query_notes import QueryNotes

if TYPE_CHECKING:
    from lodestone.query_log.trace import Trace
    from lodestone.retrieval.fuser import Fuser
    from lodestone.spaces.base import Projection
    from lodestone_schemas.pictures import PictureTags

Vectors = NDArray[np.float32]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Vectors of n texts, encoded once for all stages.

    Attributes:
        encoded: Text encoder name -> (n, d) float32, L2-normalised.
        projected: Collection name (space and version) -> (n, dim) float32, L2-normalised; spaces that take text.
    """

    encoded: Mapping[str, Vectors]
    projected: Mapping[str, Vectors]


class Encoder(Protocol):
    """Encodes words and pictures into every space."""

    @property
    def collections(self) -> Mapping[str, str]:
        """Space -> collection (of a version) that this encoder's vectors may be compared with."""

    async def warm_up(self) -> None:
        """Load what words need. Image models load at the first picture."""

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """Encode texts into every text encoder's own space and every space that takes text.

        Args:
            texts: All texts of one query, in one call.
            deadline: Absolute; work that has not begun by then is not begun.

        Raises:
            TimeoutError: the deadline passed.
        """

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """Embed pictures; return collection name -> (n, dim) float32, L2-normalised.

        Args:
            pictures: Each (h, w, 3) uint8 RGB, all of one query in one call.
            deadline: Absolute; work that has not begun by then is not begun.

        Raises:
            TimeoutError: the deadline passed.
        """


class PictureSource(Protocol):
    """Reads the pictures that are indexed."""

    def pixels(self, image_id: str, *, side: int, region: tuple[float, float, float, float] | None = None) -> Pixels | None:
        """Return (h, w, 3) uint8 RGB pixels of a picture, upright; None where nothing of it can be read. Blocking.

        Args:
            image_id: The indexed picture.
            side: Pixels that its shorter side need not exceed.
            region: The part of it that is wanted, as `query.tree.Origin.region`; None for all of it.
        """


class Tagger(Protocol):
    """Finds out what single pictures show and how good they are."""

    async def tag(self, picture: bytes, *, deadline: float | None = None) -> PictureTags:
        """Return the labels, quality and safety score of a picture file's content.

        Args:
            picture: The file's content.
            deadline: Absolute; model passes that have not begun by then are not begun.

        Raises:
            ImageError: it cannot be decoded within the limits.
            DeadlineExceededError: the deadline passed.
            ModelUnavailableError: a model cannot be loaded.
        """


class RemoteEncoders(Protocol):
    """Provides encoders that run in other processes."""

    def encoder(self, projections: Mapping[str, Projection]) -> Encoder:
        """Return the models of these versions (space -> projection), not warmed up."""


class RemoteStages(RemoteEncoders, Protocol):
    """Provides all stages that run in other processes; a host that has some sets `Runtime.remote_stages`.

    It is a `generators.assembly.RemoteGenerators` too, which is repeated here because that module is dear to import.
    """

    def generator(self, name: str, local: Generator) -> Generator:
        """Return what draws for the engine of this name: a remote one, or `local`, which is light and not warmed up."""

    def fuser(self) -> Fuser | None:
        """Return what fuses the lists of queries; None for this process."""

    def tagger(self, local: Tagger) -> Tagger:
        """Return what tags pictures: a remote one, or `local`, which has loaded nothing."""


class SpaceWeigher(Protocol):
    """Decides how much each space counts for a query."""

    def weights(
        self, encoded: Mapping[str, Vectors], spaces: Sequence[str], *, best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        """Return the weight, >= 0, of each of `spaces` for one query.

        It is called before searching, and again with what was found.

        Args:
            encoded: Text encoder name -> (1, d) float32 vector of the query's words.
            spaces: Names of the spaces that are searched.
            best: Space -> score of the best picture; None before searching.
        """

    def ordinary_words(self) -> Mapping[str, Vectors]:
        """Return space -> (dim,) float32, the mean vector of ordinary words, of the spaces where it is known and not zero."""


class EqualWeights:
    """Gives every space the same weight."""

    def weights(
        self,
        encoded: Mapping[str, Vectors],  # noqa: ARG002  (a contract)
        spaces: Sequence[str],
        *,
        best: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Mapping[str, float]:
        """Return 1 / number of spaces for each space."""
        return dict.fromkeys(spaces, 1.0 / max(len(spaces), 1))

    def ordinary_words(self) -> Mapping[str, Vectors]:
        """Return nothing: no space is known."""
        return {}


class GuideSource(Protocol):
    """Draws guides for queries; the generator hub is one."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the engines that may be asked."""

    def enabled(self, name: str) -> bool:
        """Return whether this engine is enabled."""

    def edits(self, name: str) -> bool:
        """Return whether this engine edits pictures."""

    def refresh(self) -> None:
        """Read what was changed about the engines meanwhile. Blocking, but quick."""

    async def warm_up(self) -> None:
        """Load what the engines need; one that cannot run is logged, and queries will say so too."""

    def draw(
        self,
        request: GuideRequest,
        *,
        engines: Sequence[str] | None,
        batch: int | None,
        deadline: float,
        budget: float | None,
        log: QueryNotes,
    ) -> AsyncGenerator[list[Guide], None]:
        """Yield guides as they come, as `generators.hub.Hub.draw` does."""

    def keep_vectors(self, guide: Guide, vectors: Mapping[str, Vectors]) -> None:
        """Keep the vectors of the guide's pixels: collection -> (dim,) float32. Blocking."""


class Trusted(Protocol):
    """Trust of one topic in the spaces."""

    @property
    def topic(self) -> str | None:
        """Name of the topic; None for one without history."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Space -> trust, 1 being neutral."""


class TrustSource(Protocol):
    """Says how far each space is trusted for queries like a given one."""

    @property
    def in_memory(self) -> bool:
        """Whether `assign` would read nothing but memory now, so that it needs no thread."""

    def assign(self, text_vector: Vectors, *, encoder: str, topic: str | None, spaces: Sequence[str]) -> Trusted:
        """Return the trust for a query.

        Args:
            text_vector: (d,) float32 vector of its words.
            encoder: Name of the text encoder that made it.
            topic: Topic that the client named, if it did.
            spaces: Names of the spaces that are searched.
        """


class QueryMemory(Protocol):
    """Records answered queries and learns from them."""

    def keep(self, trace: Trace) -> list[str]:
        """Record a query and learn from it; return what went wrong, as warnings. Blocking; raises nothing."""

    def keep_all(self, traces: list[Trace]) -> list[str]:
        """Record several queries after their answers were given, as `keep` does."""
