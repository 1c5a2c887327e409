"""Search for pictures of a corpus that look alike: nearest neighbours of each picture in a space, up to a distance.

Distance is 1 - cosine. Where vectors alone cannot tell, a function of the caller decides which of the close pairs are copies
(likeness.py). Pictures are searched in batches, in the order of their ids; after each batch a journal records the pairs, so
that a stopped search can continue from there. Then groups are made such that every member is within the distance of its group's
representative: a chain of pictures, each slightly different from the one before, is not one group.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lodestone.store.base import Filter, MatchAny, Neighbours, VectorQuery, VectorStore

_BATCH: Final = 64  # pictures searched at once
_NEIGHBOURS: Final = 16  # neighbours of each picture, in the first search
_MOST: Final = 1_024  # neighbours of each picture, however many copies there are
_Pair = tuple[str, str, float]
Alike = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]
"""Function that says for each pair of close pictures (their ids) whether they are copies."""


class NearSearch:
    """Finds pairs of pictures of one corpus that are close in one collection.

    Args:
        store: Store that holds the vectors.
        collection: Collection of a space with L2-normalised vectors.
        corpus_id: Corpus of both pictures of a pair.
        distance: Largest distance of a pair, in [0, 2].
        journal: File of its own for the search, from which it continues after a stop.
        alike: Decides for every close pair whether it is a copy; None if all close pairs are copies.
        rule: Describes `alike`; a journal made by another rule is not continued.
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

    def run(
        self, ids_after: Callable[[str], Iterable[str]], *, report_progress: Callable[[int], None] = lambda _: None
    ) -> list[_Pair]:
        """Return all pairs, each once with the lower id first, and remove the journal.

        Args:
            ids_after: Gives the ids of the pictures above an id, ascending.
            report_progress: Called after each batch with the number of pictures in it.
        """
        last, pairs = self._resumed()
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        ids = iter(ids_after(last))
        with self._journal.open("a", encoding="ascii") as journal:
            while batch := list(islice(ids, _BATCH)):
                batch_pairs = self._pairs(batch)
                pairs += batch_pairs
                journal.write(json.dumps({"last": batch[-1], "pairs": batch_pairs, "asked": len(batch)}) + "\n")
                journal.flush()
                report_progress(len(batch))
        self._journal.unlink()
        return list(dict.fromkeys(pairs))

    def forget(self) -> None:
        """Delete the journal, so that the search starts again."""
        self._journal.unlink(missing_ok=True)

    def _resumed(self) -> tuple[str, list[_Pair]]:
        """Return the last id that was searched, and the pairs that were found up to it."""
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
        pending = dict(zip(points.ids, points.vectors, strict=True))
        limit, pairs = _NEIGHBOURS, []
        while pending:
            queries = [VectorQuery(vector, limit=limit + 1, filter=self._within) for vector in pending.values()]
            answers = self._store.search(self._collection, queries)
            close = {image_id: self._close(answer) for image_id, answer in zip(pending, answers, strict=True)}
            copies = self._copies(close)
            unfinished = {}
            for image_id, vector in pending.items():
                if len(copies[image_id]) == len(close[image_id]) > limit and limit < _MOST:  # all are copies: there may be more
                    unfinished[image_id] = vector
                else:
                    pairs += [
                        (min(image_id, other), max(image_id, other), distance)
                        for other, distance in copies[image_id]
                        if other != image_id
                    ]
            pending, limit = unfinished, min(4 * limit, _MOST)
        return list(dict.fromkeys(pairs))

    def _copies(self, close: Mapping[str, Sequence[tuple[str, float]]]) -> dict[str, list[tuple[str, float]]]:
        """Return for each picture those of its close pictures, itself included, that are copies."""
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
    """Return disjoint groups of (image id, distance to the first): a picture with its neighbours that no earlier group took.

    Pictures with the most neighbours become representatives first; of equals, the one with the lowest id.
    """
    neighbours: Mapping[str, dict[str, float]] = defaultdict(dict)
    for first, second, distance in pairs:
        neighbours[first][second] = neighbours[second][first] = distance
    taken: set[str] = set()
    groups = []
    for image_id in sorted(neighbours, key=lambda candidate: (-len(neighbours[candidate]), candidate)):
        if image_id in taken:
            continue
        free = sorted((distance, other) for other, distance in neighbours[image_id].items() if other not in taken)
        if free:
            groups.append([(image_id, 0.0), *((other, distance) for distance, other in free)])
            taken |= {image_id, *(other for _, other in free)}
    return groups
