"""What does the query engine need from the rest? Tiny contracts, met by objects here or by adapters around remote ones.

The engine never knows which. `Encoder` is async because a remote one is; catalog and store block and are called in threads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.records import CaptionRecord, Corpus, ImageRecord, Root
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.generators.query_notes import QueryNotes
from lodestone.retrieval.fusion import RankedList
from lodestone.store.base import Filter

if TYPE_CHECKING:
    from lodestone.query_log.trace import Trace
    from lodestone.spaces.base import Projection

Vectors = NDArray[np.float32]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """n texts, encoded once for everybody.

    Attributes:
        encoded: Text encoder name -> (n, d) float32, L2-normalised.
        projected: Collection name (space and version) -> (n, dim) float32, L2-normalised; spaces that take text.
    """

    encoded: Mapping[str, Vectors]
    projected: Mapping[str, Vectors]


class Encoder(Protocol):
    """All models of a query: words and pictures into every space."""

    @property
    def collections(self) -> Mapping[str, str]:
        """Space -> the collection (its version) that this encoder's vectors may be compared with."""

    async def warm_up(self) -> None:
        """Load what words need. Image models load at the first picture."""

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """Texts into every text encoder's own space and every space that takes text.

        Args:
            texts: Those of one query, in one call.
            deadline: Absolute; what has not begun by then is not begun.

        Raises:
            TimeoutError: the deadline passed.
        """

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """Pictures, each (h, w, 3) uint8 RGB, in one call -> collection name -> (n, dim) float32, L2-normalised.

        As `encode_texts` with the deadline.
        """


class RemoteStages(Protocol):
    """Stages that run in other processes; a host that has some says so by `Runtime.remote_stages`."""

    def encoder(self, projections: Mapping[str, Projection]) -> Encoder:
        """The models of these versions: space -> projection, not warmed up."""

    def generator(self, name: str, local: Generator) -> Generator:
        """What draws for the engine of this name: something elsewhere, or `local`, which is light and not warmed up."""


class SpaceWeigher(Protocol):
    """How much does each space count for this query?"""

    def weights(
        self, encoded: Mapping[str, Vectors], spaces: Sequence[str], *, best: Mapping[str, float] | None = None
    ) -> Mapping[str, float]:
        """One query, text encoder name -> (1, d) float32: weight, >= 0, of each of `spaces`.

        Asked before searching, and again with `best`: the score of the best picture of each space.
        """


class EqualWeights:
    """Every space counts the same."""

    def weights(
        self,
        encoded: Mapping[str, Vectors],  # noqa: ARG002  (a contract)
        spaces: Sequence[str],
        *,
        best: Mapping[str, float] | None = None,  # noqa: ARG002
    ) -> Mapping[str, float]:
        """1 / number of spaces, each."""
        return dict.fromkeys(spaces, 1.0 / max(len(spaces), 1))


class GuideSource(Protocol):
    """Where guides come from: the generator hub."""

    @property
    def names(self) -> Sequence[str]:
        """Engines that may be asked for."""

    def enabled(self, name: str) -> bool:
        """Whether this engine may be asked."""

    def refresh(self) -> None:
        """Notice what was changed about the engines meanwhile. Blocking, and quick."""

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
        """Guides as they come; see `generators.hub.Hub.draw`."""

    def keep_vectors(self, guide: Guide, vectors: Mapping[str, Vectors]) -> None:
        """Remember what the guide's pixels were embedded to: collection -> (dim,) float32. Blocking."""


class Trusted(Protocol):
    """Space -> trust (`weights`, 1 being neutral) of a `topic`; None for a topic without history."""

    @property
    def topic(self) -> str | None:
        """Its name."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Space -> trust."""


class TrustSource(Protocol):
    """How far is each space to be trusted for queries like this one?"""

    def assign(self, text_vector: Vectors, *, encoder: str, topic: str | None, spaces: Sequence[str]) -> Trusted:
        """Trust for a query: (d,) float32 vector of its words by `encoder`, and the topic that the client named, if it did."""


class TagSource(Protocol):
    """Which pictures carry tags like the query's words?"""

    def search(self, text: str, collection: str, *, filter_: Filter | None, limit: int) -> RankedList:
        """The list of guide `text` and space `tags`; empty when no tag matches. Blocking."""


class QueryMemory(Protocol):
    """What happens with an answered query: it is recorded, and may leave tags."""

    def keep(self, trace: Trace) -> list[str]:
        """Record it and learn from it; what went wrong, as warnings. Blocking; raises nothing."""

    def keep_all(self, traces: list[Trace]) -> list[str]:
        """The same for several at once, behind their answers."""


class CatalogReader(Protocol):
    """What of the catalog a query reads. Methods block and are thread-safe."""

    def corpus(self, name: str) -> Corpus:
        """By name; `UnknownNameError` lists the known ones."""

    def corpora(self, offset: int = 0, limit: int = 100) -> list[Corpus]:
        """A page of all corpora."""

    def corpus_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Name -> id of those that there are."""

    def roots(self, corpus_id: str | None = None) -> list[Root]:
        """Roots of one corpus, or all."""

    def disabled_roots(self) -> tuple[str, ...]:
        """Ids of the roots whose pictures must not be found now; read by every query."""

    def images(self, image_ids: Iterable[str]) -> dict[str, ImageRecord]:
        """By id; unknown ones are left out."""

    def captions(self, image_ids: Iterable[str]) -> dict[str, list[CaptionRecord]]:
        """By image id; pictures without captions may be left out."""

    def duplicate_groups(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Image id -> its group of copies; pictures without copies are left out."""
