"""Vectors of a benchmark of composed queries: its pictures, indexed in a home, and the parts of its queries, as a vector set.

The modalities are the pictures of a query (one for each picture that a query has), its words against pictures, in a space that
takes text, and its words against the texts of pictures, where the benchmark has such texts (MUST's auxiliary modality).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lodestone.errors import ImageError, InvalidRequestError
from lodestone.indexing.progress import Progress, silent
from lodestone_eval.composed.answers import ComposedAnswer
from lodestone_eval.composed.modalities import Integers, ModalityRows, VectorModality
from lodestone_eval.composed.queries import ComposedQuery, ComposedSet, QueryPicture
from lodestone_eval.composed.vector_search import VectorSearch
from lodestone_eval.composed.vector_sets import VectorSet
from lodestone_eval.datasets.base import UNASKABLE, EvalSet
from lodestone_eval.staging import IndexCall, IndexedSet, index_set

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.query.encoder import LocalEncoder

_BATCH: Final = 32  # pictures or texts of one pass
_READ: Final = 1_000  # vectors of one read
UNREADABLE: Final = "reference pictures that cannot be used"

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddedSet:
    """Holds a benchmark with the vectors of its pictures and queries.

    Attributes:
        composed: The benchmark, without pictures that could not be indexed.
        vectors: Its vectors; objects are the pictures in the order of `names`, queries are in the benchmark's order.
        names: Names of the pictures.
        models: What the vectors were made with.
    """

    composed: ComposedSet
    vectors: VectorSet
    names: tuple[str, ...]
    models: dict[str, str]

    def answer_by(self, method: VectorSearch, *, effort: int) -> ComposedAnswer:
        """Return the answering function of a method over the vectors."""
        places = {query.query_id: place for place, query in enumerate(self.composed.queries)}

        def answer(query: ComposedQuery, depth: int | None) -> list[str]:
            found = method.search(places[query.query_id], depth or len(self.names), effort)
            return [self.names[place] for place in found]

        return answer


def embed_set(
    runtime: Runtime,
    composed: ComposedSet,
    *,
    index: IndexCall | None = None,
    progress: Progress = silent,
    report_progress: Callable[[int, int], None] | None = None,
) -> EmbeddedSet:
    """Index the pictures of a benchmark, embed its queries, and return the vectors of both.

    Args:
        runtime: The evaluation's home.
        composed: The benchmark.
        index: Function that indexes; None to index in this process.
        progress: Progress of the index run.
        report_progress: Gets the number of reference pictures embedded that are not in the collection, and their total.

    Raises:
        InvalidRequestError: no picture can be used, or the profile has no space that takes words and pictures.
        LodestoneError: indexing failed.
    """
    staged = EvalSet(composed.name.replace("+", "-plus"), "ranking", composed.split, composed.pictures)
    indexed = index_set(runtime, staged, index=index, progress=progress)
    composed = _findable(composed, frozenset(indexed.names.values()))
    spaces = _spaces(runtime)
    encoder = runtime.local_encoder(runtime.projections())
    names = tuple(composed.pictures)
    collections = [encoder.collections[space] for space in spaces]
    bases = [_stored(runtime, collection, indexed, names) for collection in collections]
    parts = _PictureParts.of(composed.queries, encoder, collections, bases)
    places = {path: place for place, path in enumerate(composed.pictures.values())}
    others = []
    for picture in parts.uses:
        place = places.get(picture.path) if picture.region is None else None
        if place is None:
            others.append(picture)
        else:
            parts.put(picture, [base[place] for base in bases])
    for first in range(0, len(others), _BATCH):
        parts.embed(runtime, others[first : first + _BATCH])
        if report_progress is not None:
            report_progress(min(first + _BATCH, len(others)), len(others))
    if parts.unreadable:
        composed = replace(composed, skipped={**composed.skipped, UNREADABLE: parts.unreadable})
    pictures = parts.rows
    modalities: list[ModalityRows] = []
    for number, space in enumerate(spaces[: composed.picture_spaces]):
        for slot, rows in enumerate(pictures[number]):
            label = "picture" if slot == 0 else f"picture{slot + 1}"
            modalities.append(VectorModality(label if number == 0 else f"{label} in {space}", bases[number], rows))
    words = list(_text_slots(composed, encoder, collections[0]))
    modalities += [VectorModality(_numbered("words", slot), bases[0], rows) for slot, rows in enumerate(words)]
    if composed.texts:
        described = _texts([composed.texts.get(name, "") for name in names], _encoded(runtime, encoder))
        asked = _texts([" ".join(query.words) for query in composed.queries], _encoded(runtime, encoder))
        modalities.append(VectorModality("text", described, asked))
    both = [pictures[0][0], *words[:1]] if pictures[0] and words else []
    models = {f"space {name}": encoder.collections[name] for name in spaces}
    return EmbeddedSet(composed, _vector_set(composed, modalities, names, both), names, models)


def _findable(composed: ComposedSet, indexed: frozenset[str]) -> ComposedSet:
    """Remove pictures that could not be indexed, and the queries that have no right picture without them."""
    kept = []
    skipped = Counter(composed.skipped)
    for query in composed.queries:
        candidates = None if query.candidates is None else query.candidates & indexed
        found = replace(query, relevant=query.relevant & indexed, subset=query.subset & indexed, candidates=candidates)
        if query.relevant and not found.relevant - query.excluded:
            skipped[UNASKABLE] += 1
        else:
            kept.append(found)
    if lost := len(composed.pictures.keys() - indexed):
        skipped["pictures that cannot be used"] += lost
    if not kept:
        raise InvalidRequestError(
            f"{composed.name}: none of the right pictures can be used", hint="lodestone status --failures"
        )
    pictures = {name: path for name, path in composed.pictures.items() if name in indexed}
    return replace(composed, pictures=pictures, queries=tuple(kept), skipped=dict(skipped))


def _spaces(runtime: Runtime) -> list[str]:
    """Return the profile's spaces, a space that takes words first: the bridge where there is one."""
    projections = runtime.projections()
    with_words = [name for name, projection in projections.items() if projection.text_encoder is not None]
    if not with_words:
        raise InvalidRequestError(
            f"no space of profile {runtime.profile.name!r} takes words", hint="use --profile embedded, or fast and above"
        )
    first = "bridge" if "bridge" in with_words else with_words[0]
    return [first, *(name for name in projections if name != first)]


def _stored(runtime: Runtime, collection: str, indexed: IndexedSet, names: Sequence[str]) -> Floats:
    """Return the vectors of the pictures from the store, in the order of `names`."""
    places = {name: place for place, name in enumerate(names)}
    ids = list(indexed.names)
    vectors: Floats | None = None
    for first in range(0, len(ids), _READ):
        batch = runtime.store.retrieve(collection, ids[first : first + _READ], with_payload=False)
        if vectors is None:
            vectors = np.zeros((len(names), batch.vectors.shape[1]), np.float32)
        vectors[[places[indexed.names[image_id]] for image_id in batch.ids]] = batch.vectors
    if vectors is None:
        raise InvalidRequestError(f"collection {collection!r} holds no vectors", hint="index the pictures again")
    return vectors


@dataclass(slots=True)
class _PictureParts:
    """Vectors of the pictures of all queries, in every space.

    Attributes:
        encoder: Embeds pictures that are not in the collection.
        collections: Collection of each space.
        rows: Space -> slot -> (queries, dim): the vector of the first picture of each query, of the second, and so on.
        uses: Picture -> (slot, query) of its uses.
        unreadable: Number of pictures that cannot be decoded.
    """

    encoder: LocalEncoder
    collections: Sequence[str]
    rows: list[list[Floats]]
    uses: dict[QueryPicture, list[tuple[int, int]]]
    unreadable: int = 0

    @classmethod
    def of(
        cls, queries: Sequence[ComposedQuery], encoder: LocalEncoder, collections: Sequence[str], bases: Sequence[Floats]
    ) -> _PictureParts:
        """Return the parts of these queries, all zero."""
        slots = max((len(query.pictures) for query in queries), default=0)
        rows = [[np.zeros((len(queries), base.shape[1]), np.float32) for _ in range(slots)] for base in bases]
        uses: dict[QueryPicture, list[tuple[int, int]]] = {}
        for number, query in enumerate(queries):
            for slot, picture in enumerate(query.pictures):
                uses.setdefault(picture, []).append((slot, number))
        return cls(encoder, collections, rows, uses)

    def put(self, picture: QueryPicture, vectors: Sequence[Floats]) -> None:
        """Keep the vectors of a picture, one a space, where queries use it."""
        for slot, number in self.uses[picture]:
            for rows, vector in zip(self.rows, vectors, strict=True):
                rows[slot][number] = vector

    def embed(self, runtime: Runtime, pictures: Sequence[QueryPicture]) -> None:
        """Embed pictures, and keep their vectors."""
        decoded = []
        for picture in pictures:
            try:
                decoded.append((picture, _pixels(runtime, picture)))
            except ImageError:
                self.unreadable += 1
        if decoded:
            embedded = self.encoder.embed([pixels for _, pixels in decoded])
            for row, (picture, _) in enumerate(decoded):
                self.put(picture, [embedded[collection][row] for collection in self.collections])


def _pixels(runtime: Runtime, picture: QueryPicture) -> NDArray[np.uint8]:
    """Return the pixels of a picture or of its region.

    Raises:
        ImageError: it cannot be decoded.
    """
    image = runtime.decode(picture.path)
    if picture.region is not None:
        with Image.open(picture.path) as original:
            scale_x, scale_y = image.width / original.width, image.height / original.height
        left, top, width, height = picture.region
        box = (left * scale_x, top * scale_y, (left + width) * scale_x, (top + height) * scale_y)
        low = (min(int(box[0]), image.width - 1), min(int(box[1]), image.height - 1))
        image = image.crop((*low, max(round(box[2]), low[0] + 1), max(round(box[3]), low[1] + 1)))
    return np.asarray(image)


def _text_slots(composed: ComposedSet, encoder: LocalEncoder, collection: str) -> Iterable[Floats]:
    """Yield (queries, dim) for the first text of each query, for the second, and so on."""
    slots = max((len(query.words) for query in composed.queries), default=0)
    for slot in range(slots):
        texts = [query.words[slot] if slot < len(query.words) else "" for query in composed.queries]
        yield _texts(texts, lambda batch: encoder.encode(batch).projected[collection])


def _encoded(runtime: Runtime, encoder: LocalEncoder) -> Callable[[Sequence[str]], Floats]:
    """Return the function that encodes texts by the profile's own text encoder."""
    return lambda batch: encoder.encode(batch).encoded[runtime.text_encoder.name]


def _texts(texts: Sequence[str], encode: Callable[[Sequence[str]], Floats]) -> Floats:
    """Return (texts, dim) float32, L2-normalised; zero for an empty text. Equal texts are encoded once."""
    distinct = [text for text in dict.fromkeys(texts) if text]
    vectors: dict[str, Floats] = {}
    for first in range(0, len(distinct), _BATCH):
        batch = distinct[first : first + _BATCH]
        vectors.update(zip(batch, encode(batch), strict=True))
    dim = len(next(iter(vectors.values()))) if vectors else 1
    rows = np.zeros((len(texts), dim), np.float32)
    for number, text in enumerate(texts):
        if text:
            rows[number] = vectors[text] / max(float(np.linalg.norm(vectors[text])), 1e-12)
    return rows


def _numbered(name: str, slot: int) -> str:
    return name if slot == 0 else f"{name}{slot + 1}"


def _vector_set(
    composed: ComposedSet, modalities: Sequence[ModalityRows], names: Sequence[str], both: Sequence[Floats]
) -> VectorSet:
    places = {name: place for place, name in enumerate(names)}
    truths = tuple(np.array(sorted(places[name] for name in query.relevant), np.int32) for query in composed.queries)
    composition = None
    if both:
        total = np.sum(both, axis=0)
        length = np.linalg.norm(total, axis=1, keepdims=True)
        composition = np.divide(total, length, out=np.zeros_like(total), where=length > 0)
    return VectorSet(
        composed.name,
        tuple(modalities),
        composition,
        truths if composed.has_truth else None,
        ExcludedPlaces(composed.queries, places),
        equally_right=True,
    )


class ExcludedPlaces(Sequence[Integers]):
    """Objects that each query leaves out, worked out when they are asked for: a query may search few of very many."""

    def __init__(self, queries: Sequence[ComposedQuery], places: dict[str, int]) -> None:
        self._queries = queries
        self._places = places

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, place: int) -> Integers: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Integers]: ...

    def __getitem__(self, place: int | slice) -> Integers | Sequence[Integers]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        query = self._queries[place]
        excluded = [self._places[name] for name in query.excluded if name in self._places]
        if query.candidates is None:
            return np.array(excluded, np.int32)
        searched = [self._places[name] for name in query.candidates]
        everything = np.arange(len(self._places), dtype=np.int32)
        return np.union1d(np.setdiff1d(everything, searched), excluded).astype(np.int32)
