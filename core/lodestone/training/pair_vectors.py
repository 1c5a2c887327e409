"""Vectors of composed queries and of the pictures that they search, read from a home.

Pictures' vectors come from the store; only reference pictures that are not indexed are embedded, and words are encoded once.
Of a collection with more than `MOST_OBJECTS` pictures a random part is searched, with all pictures that the pairs name: among
fewer pictures there are fewer wrong ones that are hard, which changes recall more than it changes weights.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.composed.joint import Rows
from lodestone.config.compositions import Composition, Role
from lodestone.errors import ImageError, InvalidRequestError
from lodestone.spaces.names import CAPTIONS, captions_collection
from lodestone.training.composed_pairs import ComposedPair
from lodestone.training.joint_pairs import JointPairs, ObjectVectors, PartVectors
from lodestone.training.judgements import ids_of_names

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.encoder import LocalEncoder
    from lodestone.store.base import VectorStore

MOST_OBJECTS: Final = 100_000
_TEXTS_AT_ONCE: Final = 256
_PICTURES_AT_ONCE: Final = 8
_EXAMPLES: Final = 5


@dataclass(slots=True)
class SkippedPairs:
    """Pairs that could not be used.

    Attributes:
        counts: Reason -> number of pairs.
        examples: The first few, each with its line and the name in question.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, pair: ComposedPair, reason: str, name: str) -> None:
        """Count a pair that is left out."""
        self.counts[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{pair.origin}: {reason} {name!r}")


@dataclass(frozen=True, slots=True)
class HomePairs:
    """Pairs of a home as vectors.

    Attributes:
        pairs: Queries and objects.
        collections: Space -> collection that the vectors are from.
        skipped: Pairs that were left out.
    """

    pairs: JointPairs
    collections: Mapping[str, str]
    skipped: SkippedPairs


def vectors_of_pairs(
    runtime: Runtime,
    composition: Composition,
    pairs: Sequence[ComposedPair],
    *,
    folder: Path,
    most_objects: int = MOST_OBJECTS,
) -> HomePairs:
    """Return the vectors of pairs in this home. Opens the store; loads models as far as the pairs need them.

    Args:
        runtime: The opened home.
        composition: Says which modalities there are.
        pairs: What `read_pairs` returned.
        folder: Folder that paths of reference pictures are relative to.
        most_objects: Pictures that are searched at most, beside those that the pairs name.

    Raises:
        InvalidRequestError: no pair can be used, or a vector has another length than its space.
    """
    projections = runtime.serving_projections()
    collections = {name: one.collection for name, one in projections.items() if name in composition.spaces}
    promoted = runtime.promoted()
    if CAPTIONS in composition.spaces and CAPTIONS in promoted:
        captions = captions_collection(runtime.text_encoder.version)
        if promoted[CAPTIONS] == captions:  # those of another text encoder cannot be compared with the words of the pairs
            collections[CAPTIONS] = captions
    names = {name for pair in pairs for name in (*pair.targets, pair.reference) if name is not None}
    ids = ids_of_names(names, runtime.catalog)
    row_of, objects = _objects(runtime.store, collections, wanted=set(ids.values()), most=most_objects)
    encoder = runtime.local_encoder({name: projections[name] for name in collections if name in projections})
    skipped = SkippedPairs()
    kept: list[ComposedPair] = []
    positives, ignored, pictures = [], [], []
    for pair in pairs:
        right = [row_of[ids[name]] for name in pair.targets if name in ids and ids[name] in row_of]
        if not right:
            skipped.add(pair, "no single indexed picture is", pair.targets[0])
            continue
        picture: int | Path | None = None
        if pair.reference is not None:
            picture = row_of.get(ids.get(pair.reference, ""), folder / pair.reference)
            if isinstance(picture, Path) and not picture.is_file():
                skipped.add(pair, "no indexed picture and no file is the reference", pair.reference)
                continue
        kept.append(pair)
        reference = [picture] if isinstance(picture, int) else []
        positives.append(np.array(sorted(set(right) - set(reference)) or right, np.intp))
        ignored.append(np.array(sorted(set(reference) - set(right)), np.intp))
        pictures.append(picture)
    if not kept:
        raise InvalidRequestError(
            f"none of the {len(pairs):,} pairs can be used: {'; '.join(skipped.examples)}",
            hint="name pictures of this home by id, by path inside their folder, or by a bare name that only one has",
        )
    references, broken = _references(runtime, encoder, pictures, objects, collections)
    for query, reason in broken.items():
        skipped.add(kept[query], f"the reference cannot be decoded ({reason}):", str(kept[query].reference))
    queries = _Queries(composition, kept, collections, encoder, objects, captions_by=runtime.configured.text_encoder)
    parts = queries.parts(references)
    comparable = np.any([~np.isnan(part.vectors[:, 0]) for part in parts], axis=0)
    usable = np.array([query for query in np.flatnonzero(comparable) if query not in broken], np.intp)
    return HomePairs(JointPairs(parts, ObjectVectors(objects), positives, ignored).take(usable), collections, skipped)


def _objects(
    store: VectorStore, collections: Mapping[str, str], *, wanted: Collection[str], most: int
) -> tuple[dict[str, int], dict[str, Rows]]:
    """Return image id -> row, and space -> rows with NaN where a picture has no vector."""
    total = max((store.count(name) for space, name in collections.items() if space != CAPTIONS), default=0)
    share = min(1.0, most / max(total, 1))
    found: dict[str, dict[str, NDArray[np.float32]]] = {space: {} for space in collections}
    for space, collection in collections.items():
        for image_id, vector in _points(store, collection, captions=space == CAPTIONS):
            if share < 1 and image_id not in wanted and zlib.crc32(image_id.encode()) >= share * 2**32:
                continue
            known = found[space].get(image_id)
            found[space][image_id] = vector if known is None else known + vector  # captions of one picture are averaged
    ids = sorted({image_id for space, vectors in found.items() if space != CAPTIONS for image_id in vectors})
    row_of = {image_id: row for row, image_id in enumerate(ids)}
    objects = {}
    for space, vectors in found.items():
        rows = np.full((len(ids), store.info(collections[space]).dim), np.nan, np.float32)
        for image_id, vector in vectors.items():
            if image_id in row_of:
                rows[row_of[image_id]] = vector
        objects[space] = _unit(rows)
    return row_of, objects


def _points(store: VectorStore, collection: str, *, captions: bool) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for batch in store.scroll(collection):
        owners = [str(payload["image"]) for payload in batch.payloads] if captions else batch.ids
        yield from zip(owners, batch.vectors, strict=True)


def _references(
    runtime: Runtime,
    encoder: LocalEncoder,
    pictures: Sequence[int | Path | None],
    objects: Mapping[str, Rows],
    collections: Mapping[str, str],
) -> tuple[dict[str, Rows], dict[int, str]]:
    """Return space -> (q, dim) vectors of the reference pictures, NaN where there is none, and query -> why it has none."""
    spaces = [space for space in collections if space != CAPTIONS]
    vectors = {space: np.full((len(pictures), objects[space].shape[1]), np.nan, np.float32) for space in spaces}
    broken: dict[int, str] = {}
    files: dict[Path, list[int]] = {}
    for query, picture in enumerate(pictures):
        if isinstance(picture, int):
            for space in spaces:
                vectors[space][query] = objects[space][picture]
        elif picture is not None:
            files.setdefault(picture, []).append(query)
    waiting: list[tuple[Path, NDArray[np.uint8]]] = []
    for place, path in enumerate(files, 1):
        try:
            waiting.append((path, np.asarray(runtime.decode(path))))
        except ImageError as error:
            broken |= dict.fromkeys(files[path], error.message)
        if waiting and (len(waiting) == _PICTURES_AT_ONCE or place == len(files)):
            embedded = encoder.embed([pixels for _, pixels in waiting])
            for row, (done, _) in enumerate(waiting):
                for space in spaces:
                    vectors[space][files[done]] = embedded[collections[space]][row]
            waiting = []
    return vectors, broken


class _Queries:
    """Turns pairs into parts of queries, one a modality and another for words to avoid."""

    def __init__(
        self,
        composition: Composition,
        pairs: Sequence[ComposedPair],
        collections: Mapping[str, str],
        encoder: LocalEncoder,
        objects: Mapping[str, Rows],
        *,
        captions_by: str,
    ) -> None:
        self._captions_by = captions_by
        self._composition = composition
        self._pairs = pairs
        self._collections = collections
        self._encoder = encoder
        self._objects = objects

    def parts(self, references: Mapping[str, Rows]) -> tuple[PartVectors, ...]:
        """Return the parts of all queries; modalities that no query has are left out."""
        words = self._texts([pair.words for pair in self._pairs])
        avoided = self._texts([pair.without for pair in self._pairs])
        parts = []
        for modality in self._composition.modalities:
            space = modality.space
            if space not in self._collections:
                continue
            if modality.role is Role.TARGET:
                rows = references[space]
                if self._composition.target == "composed" and space in words:
                    both = rows + words[space]
                    rows = np.where(np.isnan(both), rows, both)  # a sum in the joint space (MUST, option 2)
                parts.append(PartVectors(modality.name, space, _unit(self._with_given(modality.name, space, rows))))
            else:
                parts.append(PartVectors(modality.name, space, _unit(self._with_given(modality.name, space, words[space]))))
                parts.append(PartVectors(modality.name, space, _unit(-avoided[space])))
        return tuple(part for part in parts if not np.isnan(part.vectors).all())

    def _with_given(self, modality: str, space: str, rows: Rows) -> Rows:
        """Return the rows with those vectors that the pairs give themselves."""
        rows = rows.copy()
        for query, pair in enumerate(self._pairs):
            given = pair.vectors.get(modality)
            if given is not None:
                if len(given) != rows.shape[1]:
                    raise InvalidRequestError(
                        f"{pair.origin}: the vector of {modality!r} has {len(given)} numbers, and the space {space!r} "
                        f"holds vectors of {rows.shape[1]}",
                        hint="encode with the version of the space that is searched",
                    )
                rows[query] = given
        return rows

    def _texts(self, texts: Sequence[str]) -> dict[str, Rows]:
        """Return space -> (q, dim) vectors of the texts in each space that takes words; NaN for empty ones."""
        vectors = {space: np.full((len(texts), rows.shape[1]), np.nan, np.float32) for space, rows in self._objects.items()}
        distinct = sorted({text for text in texts if text})
        place = {text: row for row, text in enumerate(distinct)}
        asked = np.array([query for query, text in enumerate(texts) if text], np.intp)
        rows = np.array([place[texts[query]] for query in asked], np.intp)
        for start in range(0, len(distinct), _TEXTS_AT_ONCE):
            stop = start + _TEXTS_AT_ONCE
            encoded = self._encoder.encode(distinct[start:stop])
            inside = (rows >= start) & (rows < stop)
            for space, collection in self._collections.items():
                by_encoder = encoded.encoded.get(self._captions_by)
                found = by_encoder if space == CAPTIONS else encoded.projected.get(collection)
                if found is not None:
                    vectors[space][asked[inside]] = found[rows[inside] - start]
        return vectors


def _unit(rows: Rows) -> Rows:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = np.nan  # a vector of zeros has no direction: as good as none
    return np.asarray(rows / lengths, np.float32)
