"""Calibration of scores: what one unit of score is worth in a list, as the spread of a query's scores over ordinary pictures.

Cosines of two spaces, or of words and of pictures in one space, spread differently: .02 can be much in one, little in another.
Scores are divided by their standard deviation over a sample of the collection. Ids are hashes, so the first points by id are a
random sample, the same in every process; and all spaces hold the same ids, so they are compared on the same pictures.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.store.base import VectorStore

SAMPLE: Final = 256  # the standard deviation of 256 is known to 5 %
_REFRESH_S: Final = 30.0
_FRESH_S: Final = _REFRESH_S - 1.0  # whoever is told that a sample is fresh uses it within this second
_FEWEST: Final = 8  # below, nothing can be said of a spread: the lists count as they are
_FEWEST_CAPTIONS: Final = 32  # below, their mean and spread are taken from elsewhere:
_USUAL: Final = (0.08, 0.135)  # mean and standard deviation of cosines between a question and unrelated captions (Flickr8k)


@dataclass(frozen=True, slots=True)
class _Sample:
    vectors: NDArray[np.float32]
    points: int
    read_at: float


class ScoreCalibration:
    """Keeps one small sample a collection (about 1 MB) and measures scores against it. Thread-safe; blocking.

    Args:
        store: Where the samples are read.
    """

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._samples: dict[str, _Sample] = {}
        self._lock = threading.Lock()

    def scales(self, collection: str, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the spread of the scores of each query vector: (n, dim) float32 -> (n,) float64, > 0."""
        sample = self.sample(collection)
        if len(sample) < _FEWEST:
            return np.ones(len(vectors))
        spread: NDArray[np.float64] = np.maximum((sample @ vectors.T).std(0, dtype=np.float64), 1e-6)
        return spread

    def standing(self, collection: str, vector: NDArray[np.float32]) -> tuple[float, float]:
        """Return the mean and the spread, > 0, of the cosines of one query, (d,) float32, to the texts of a collection."""
        sample = self.sample(collection)
        if len(sample) < _FEWEST_CAPTIONS:
            return _USUAL
        cosines = sample @ vector
        return float(cosines.mean()), max(float(cosines.std()), 1e-6)

    def known(self, collection: str) -> NDArray[np.float32] | None:
        """Return the sample that was read last, however old; None if there is none. It does not block."""
        known = self._samples.get(collection)
        return None if known is None else known.vectors

    def fresh(self, collection: str) -> bool:
        """Return whether `sample` answers from memory now, without asking the store."""
        known = self._samples.get(collection)
        return known is not None and time.monotonic() - known.read_at < _FRESH_S

    def sample(self, collection: str) -> NDArray[np.float32]:
        """Return (<= `SAMPLE`, dim) vectors of the collection, up to half a minute old; (0, 0) where it is empty."""
        known, now = self._samples.get(collection), time.monotonic()
        if known is not None and now - known.read_at < _REFRESH_S:
            return known.vectors
        points = self._store.info(collection).points
        if known is not None and known.points == points:
            vectors = known.vectors
        else:
            batch = next(iter(self._store.scroll(collection, batch_size=SAMPLE)), None)
            vectors = np.empty((0, 0), np.float32) if batch is None else np.asarray(batch.vectors, np.float32)
        with self._lock:
            self._samples[collection] = _Sample(vectors, points, now)
        return vectors
