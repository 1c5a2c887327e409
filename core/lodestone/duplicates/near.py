"""Which pictures of a corpus look alike? Each one's nearest neighbours in a space, as far as the vectors are close enough.

Distance is 1 - cosine. Where vectors alone do not tell, whoever asks for the search says which of the close ones are copies
(likeness.py). Pictures are asked for in batches, in the order of their ids; after each batch a journal holds what was
found, so that a search that was stopped goes on from there. Then groups are made, so that every member is within the distance
of its group's representative: a chain of pictures, each a little unlike the one before, is not one group.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lodestone.store.base import Filter, MatchAny, Neighbours, VectorQuery, VectorStore

_BATCH: Final = 64  # pictures asked about at once
_NEIGHBOURS: Final = 16  # of each, at first
_MOST: Final = 1_024  # of each, however many copies there are
_Pair = tuple[str, str, float]
Alike = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]
"""Which pairs of close pictures (their ids) are copies."""


class NearSearch:
    """Finds pairs of pictures of one corpus that are close in one collection.

    Args:
        store: Where the vectors are.
        collection: Of a space, L2-normalised.
        corpus_id: Both pictures are of this corpus.
        distance: At most, in [0, 2].
        journal: A file of its own for the search, so that it can go on after a stop.
        alike: Has the last word on every pair; None: all that are close are copies.
        rule: Says by which `alike` a journal was made.
    """

    def __init__(
        self,
        store: VectorStore,
        collection: str,
        *,
        corpus_id: str,
        distance: float,
        journal: Path,
        alike: Alike | None = None,
        rule: str = "",
    ) -> None:
        self._store = store
        self._collection = collection
        self._within = Filter(must=(MatchAny("corpus", (corpus_id,)),))
        self._distance = distance
        self._journal = journal
        self._alike = alike
        self._header = {"collection": collection, "corpus": corpus_id, "distance": distance, "rule": rule}

    def run(self, ids_after: Callable[[str], Iterable[str]], *, told: Callable[[int], None] = lambda _: None) -> list[_Pair]:
        """All pairs, each once with the lower id first; removes the journal.

        Args:
            ids_after: Gives the ids of the pictures above an id, ascending.
            told: Hears how many pictures were asked about, after each batch.
        """
        last, pairs = self._resumed()
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        ids = iter(ids_after(last))
        with self._journal.open("a", encoding="ascii") as journal:
            while batch := list(islice(ids, _BATCH)):
                found = self._pairs(batch)
                pairs += found
                journal.write(json.dumps({"last": batch[-1], "pairs": found, "asked": len(batch)}) + "\n")
                journal.flush()
                told(len(batch))
        self._journal.unlink()
        return list(dict.fromkeys(pairs))

    def forget(self) -> None:
        """Begin anew, whatever was found before."""
        self._journal.unlink(missing_ok=True)

    def _resumed(self) -> tuple[str, list[_Pair]]:
        """The last id that was asked about, and what was found up to there."""
        last = ""
        pairs: list[_Pair] = []
        lines = list(self._lines())
        if not lines or lines[0] != self._header:  # a new search, or a journal that was cut off at once
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            self._journal.write_text(json.dumps(self._header) + "\n", encoding="ascii")
            return last, pairs
        kept = [json.dumps(line) + "\n" for line in lines]
        self._journal.write_text("".join(kept), encoding="ascii")  # without a line that a stop cut off
        for line in lines[1:]:
            last = line["last"]
            pairs += [(first, second, distance) for first, second, distance in line["pairs"]]
        return last, pairs

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._journal.exists():
            return
        with self._journal.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    return

    def _pairs(self, ids: Sequence[str]) -> list[_Pair]:
        points = self._store.retrieve(self._collection, ids)
        waiting = dict(zip(points.ids, points.vectors, strict=True))
        limit, found = _NEIGHBOURS, []
        while waiting:
            queries = [VectorQuery(vector, limit=limit + 1, filter=self._within) for vector in waiting.values()]
            answers = self._store.search(self._collection, queries)
            close = {image_id: self._close(answer) for image_id, answer in zip(waiting, answers, strict=True)}
            copies = self._copies(close)
            again = {}
            for image_id, vector in waiting.items():
                if len(copies[image_id]) == len(close[image_id]) > limit and limit < _MOST:  # all are copies: there may be more
                    again[image_id] = vector
                else:
                    found += [
                        (min(image_id, other), max(image_id, other), distance)
                        for other, distance in copies[image_id]
                        if other != image_id
                    ]
            waiting, limit = again, min(4 * limit, _MOST)
        return list(dict.fromkeys(found))

    def _copies(self, close: Mapping[str, Sequence[tuple[str, float]]]) -> dict[str, list[tuple[str, float]]]:
        """Those of each picture's close ones, itself included, that are copies."""
        pairs = [(image_id, other) for image_id, others in close.items() for other, _ in others if other != image_id]
        if self._alike is None or not pairs:
            return {image_id: list(others) for image_id, others in close.items()}
        alike = {pair for pair, is_copy in zip(pairs, self._alike(pairs), strict=True) if is_copy}
        return {
            image_id: [(other, distance) for other, distance in others if other == image_id or (image_id, other) in alike]
            for image_id, others in close.items()
        }

    def _close(self, answer: Neighbours) -> list[tuple[str, float]]:
        distances = ((other, max(0.0, 1.0 - float(score))) for other, score in zip(answer.ids, answer.scores, strict=True))
        return [(other, round(distance, 6)) for other, distance in distances if distance <= self._distance]


def grouped(pairs: Iterable[_Pair]) -> list[list[tuple[str, float]]]:
    """Groups of (image id, distance to the first), disjoint, each the first's neighbours that no group before had.

    Pictures with most neighbours become representatives first; of equals the one with the lowest id.
    """
    neighbours: Mapping[str, dict[str, float]] = defaultdict(dict)
    for first, second, distance in pairs:
        neighbours[first][second] = neighbours[second][first] = distance
    taken: set[str] = set()
    groups = []
    for image_id in sorted(neighbours, key=lambda one: (-len(neighbours[one]), one)):
        if image_id in taken:
            continue
        free = sorted((distance, other) for other, distance in neighbours[image_id].items() if other not in taken)
        if free:
            groups.append([(image_id, 0.0), *((other, distance) for distance, other in free)])
            taken |= {image_id, *(other for _, other in free)}
    return groups
