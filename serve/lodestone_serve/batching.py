"""How do concurrent queries share one pass of the text encoder?

While one pass runs, texts that arrive wait; the next pass takes all of them. So a lone query never waits for company, and under
load the batch grows by itself to what arrives during one pass. (`@serve.batch` would hold every query for its timeout, and
works on coroutines of the deployment's loop, while the engine encodes in threads.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lodestone.language.base import TextEncoder

MAX_BATCH = 64


@dataclass(slots=True, eq=False)
class _Waiting:
    texts: list[str]
    vectors: Future[NDArray[np.float32]] = field(default_factory=Future)
    turn: threading.Event = field(default_factory=threading.Event)  # set when served, or when it is this one's turn to lead


class BatchingTextEncoder(TextEncoder):
    """A text encoder whose concurrent `encode` calls become one call of another.

    The caller that finds the encoder idle does a pass, then hands over to the first of those who came meanwhile, who does the
    next pass for all of them. No thread of its own runs, and nobody works for others after being served.
    Results are those of the inner encoder; padding to the longest text of a batch changes them by rounding alone.

    Args:
        inner: Does the work; warmed up through this object.
        observe: Told the number of texts of every pass.
        max_batch: Texts in one pass at most, unless a single call brings more.
    """

    def __init__(
        self, inner: TextEncoder, *, observe: Callable[[int], None] = lambda _: None, max_batch: int = MAX_BATCH
    ) -> None:
        self.name = inner.name
        self.dim = inner.dim
        self._inner = inner
        self._observe = observe
        self._max_batch = max_batch
        self._queue: list[_Waiting] = []
        self._busy = False
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """The inner encoder's: batching changes nothing that is stored."""
        return self._inner.version

    def warm_up(self, *, threads: int = 0) -> None:
        """Load the inner encoder."""
        self._inner.warm_up(threads=threads)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, dim) float32, L2-normalised; raises what the inner encoder raised for the batch."""
        if not texts:
            return self._inner.encode(texts)
        mine = _Waiting(list(texts))
        with self._lock:
            self._queue.append(mine)
            leads, self._busy = not self._busy, True
        if not leads:
            mine.turn.wait()
        if not mine.vectors.done():  # the first in the queue by now, so its own texts are in the batch
            try:
                self._run(self._next_batch())
            finally:
                self._hand_over()
        return mine.vectors.result()

    def _hand_over(self) -> None:
        with self._lock:
            if self._queue:
                self._queue[0].turn.set()
            else:
                self._busy = False

    def _next_batch(self) -> list[_Waiting]:
        with self._lock:
            taken, texts = 0, 0
            while taken < len(self._queue) and (taken == 0 or texts + len(self._queue[taken].texts) <= self._max_batch):
                texts += len(self._queue[taken].texts)
                taken += 1
            batch, self._queue = self._queue[:taken], self._queue[taken:]
        return batch

    def _run(self, batch: list[_Waiting]) -> None:
        texts = [text for waiting in batch for text in waiting.texts]
        self._observe(len(texts))
        try:
            vectors = self._inner.encode(texts)
        except BaseException as error:  # noqa: BLE001 - not swallowed: raised in every caller of the batch
            for waiting in batch:
                waiting.vectors.set_exception(error)
                waiting.turn.set()
            return
        start = 0
        for waiting in batch:
            waiting.vectors.set_result(vectors[start : start + len(waiting.texts)])
            waiting.turn.set()
            start += len(waiting.texts)
