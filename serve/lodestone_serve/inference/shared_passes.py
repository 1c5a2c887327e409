"""Passes of the models that the queries of one process share, through one lane for words and one for pictures.

Sharing pays where a pass over many items costs less than a pass for each. Texts gain everywhere: most of a short text's pass
is overhead. Pictures gain on a GPU alone: on CPUs a convolution keeps a core busy by itself, so each picture has a pass of its
own, and two passes for each core run at once (docs/load.md has the figures).

A query that is cancelled, or whose deadline passes while it waits, takes part in no later pass and holds no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import DeadlineExceededError
from lodestone.models.hardware import cores, gpus
from lodestone.query.contracts import EncodedTexts, Pixels, Vectors
from lodestone_serve.inference.lanes import Lane, Name

if TYPE_CHECKING:
    from lodestone.generators.base import Generator
    from lodestone.home.runtime import Runtime
    from lodestone.query.contracts import Encoder, Tagger
    from lodestone.query.encoder import LocalEncoder
    from lodestone.spaces.base import Projection

Item = TypeVar("Item")

MOST_TEXTS: Final = 64
LEAST_TEXTS: Final = (
    4  # of a further pass: 4 texts take 2.7 ms each in one pass, 2 take 3.9, and the other core has queries to run
)
MOST_PICTURES: Final = 16


@dataclass(frozen=True, slots=True)
class Passes:
    """How models are run for many queries.

    Attributes:
        parallel: Passes of a model at once.
        pictures: In one of them, at most.
        text_threads: Of a pass over texts; None: as many as the settings say.
    """

    parallel: int
    pictures: int
    text_threads: int | None

    @property
    def parallel_pictures(self) -> int:
        """Passes over pictures at once: where each has its own, two a core, so that none waits while the next is handed out."""
        return 2 * self.parallel if self.pictures == 1 else self.parallel

    @classmethod
    def here(cls, *, threads: int = 0) -> Passes:
        """What suits this machine.

        Args:
            threads: That models may use; 0: all cores.
        """
        if gpus():
            return cls(parallel=1, pictures=MOST_PICTURES, text_threads=None)
        return cls(parallel=threads or cores(), pictures=1, text_threads=1)


class SharedEncoder:
    """Meets `stages.Encoder`: the encoder of this process, asked by many queries at once. For one event loop.

    Args:
        inner: Does the work, in threads.
        passes: How; None: as suits this machine.
        observe: Called with the number of texts of every pass.
        observe_pictures: Called with the number of pictures of every pass.
    """

    def __init__(
        self,
        inner: LocalEncoder,
        *,
        passes: Passes | None = None,
        observe: Callable[[int], None] = lambda _: None,
        observe_pictures: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._inner = inner
        self._passes = passes or Passes.here()
        most, parallel, eyes = self._passes.pictures, self._passes.parallel, self._passes.parallel_pictures
        self._texts: Lane[str, tuple[str, str]] = Lane(
            self._encode, most=MOST_TEXTS, least=LEAST_TEXTS, parallel=parallel, observe=observe
        )
        self._pictures: Lane[Pixels, str] = Lane(inner.embed, most=most, parallel=eyes, observe=observe_pictures)

    @property
    def collections(self) -> Mapping[str, str]:
        """Return space -> collection of the encoder that is shared."""
        return self._inner.collections

    def limit(self, most: int) -> None:
        """Set the most items of one pass, from the next pass on. Pictures that gain nothing by sharing still go alone."""
        self._texts.most = most
        self._pictures.most = min(most, self._passes.pictures)

    def occupancy(self) -> float:
        """Return how full the passes of the busier lane were since the last call; see lanes.py."""
        return max(self._texts.occupancy(), self._pictures.occupancy())

    async def warm_up(self) -> None:
        """Load the text models of the shared encoder."""
        await self._inner.warm_up()

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """Encode texts in a pass that concurrent queries share; see `Encoder.encode_texts`."""
        if not texts:
            return await self._inner.encode_texts(texts, deadline=deadline)
        rows = await _asked(self._texts, texts, deadline)
        return EncodedTexts(
            {name: found for (kind, name), found in rows.items() if kind == "encoded"},
            {name: found for (kind, name), found in rows.items() if kind == "projected"},
        )

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """Embed pictures in passes that concurrent queries share; see `Encoder.embed_pictures`."""
        if not pictures:
            return await self._inner.embed_pictures(pictures, deadline=deadline)
        return await _asked(self._pictures, pictures, deadline)

    def _encode(self, texts: list[str]) -> dict[tuple[str, str], Vectors]:
        found = self._inner.encode(texts)
        encoded = {("encoded", name): rows for name, rows in found.encoded.items()}
        return encoded | {("projected", name): rows for name, rows in found.projected.items()}


class LocalStages:
    """Implements `stages.RemoteStages` by the models of this process, which its queries share.

    Args:
        runtime: The home.
        observe: Called with the number of texts of every pass.
        observe_pictures: Called with the number of pictures of every pass.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        observe: Callable[[int], None] = lambda _: None,
        observe_pictures: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._runtime = runtime
        self._observe = observe
        self._observe_pictures = observe_pictures

    def encoder(self, projections: Mapping[str, Projection]) -> Encoder:
        """Return an encoder whose passes concurrent queries share."""
        passes = Passes.here(threads=self._runtime.settings.models.threads)
        inner = self._runtime.local_encoder(projections, text_threads=passes.text_threads)
        return SharedEncoder(inner, passes=passes, observe=self._observe, observe_pictures=self._observe_pictures)

    def generator(self, name: str, local: Generator) -> Generator:  # noqa: ARG002  (a contract)
        """Return the local generator: no engine runs in another process here."""
        return local

    def fuser(self) -> None:
        """Return None: lists are fused in this process."""

    def tagger(self, local: Tagger) -> Tagger:
        """Return the local tagger: pictures are tagged in this process."""
        return local


async def _asked(lane: Lane[Item, Name], items: Sequence[Item], deadline: float | None) -> dict[Name, NDArray[np.float32]]:
    try:
        return await lane.ask(items, deadline=deadline)
    except DeadlineExceededError as error:
        raise TimeoutError(error.message) from error
