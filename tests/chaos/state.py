"""What an index run left everywhere (catalog, Parquet files, every node of the store), in a form to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tests.chaos.cluster import CORPUS, ChaosCluster
from tests.support.qdrant_cluster import QdrantNode

from lodestone.config.settings import load_settings
from lodestone.embeddings.corpus_records import FILE as CORPUS_RECORD
from lodestone.embeddings.slices import read_part
from lodestone.home.runtime import Runtime
from lodestone.indexing.parts.captions import CAPTIONS_PREFIX
from lodestone.indexing.tasks import META_PART

Vectors = Mapping[str, NDArray[Any]]
SAME = 1e-6  # of a vector's values: threads and batches do not change one, an interrupted write would


@dataclass(frozen=True)
class State:
    """What is found afterwards.

    Attributes:
        images: uri -> (id, state, hash) in the catalog.
        failures: (uri, reason), sorted.
        outputs: Image id (for captions with source and text) -> what a model gave, out of the Parquet files of the slices that
            the images are in.
        collections: Collection, node of the store -> point id -> vector, as that node answers: what all replicas agree on.
        counts: Collection -> number of points that each node of the store counts.
        thumbnails: Names of their files.
        strays: Files in the embedding area that no receipt names, but for the records of the corpora.
        doubles: Image ids that several slices' files hold.
    """

    images: Mapping[str, tuple[str, str, str]]
    failures: tuple[tuple[str, str], ...]
    outputs: Vectors
    collections: Mapping[tuple[str, int], Vectors]
    counts: Mapping[str, tuple[int, ...]]
    thumbnails: frozenset[str]
    strays: tuple[str, ...]
    doubles: tuple[str, ...]


def state_of(cluster: ChaosCluster, home: Path) -> State:
    """Look at everything of a home."""
    with Runtime.open(load_settings({"home": home}).settings, purpose="looking") as runtime:
        catalog = runtime.catalog
        corpus = catalog.corpus(CORPUS)
        images = {
            image.uri: (image.image_id, image.state.value, image.hash)
            for root in catalog.roots(corpus.corpus_id)
            for image in catalog.images_of_root(root.root_id)
        }
        outputs: dict[str, NDArray[Any]] = {}
        rows: Counter[str] = Counter()
        named: set[str] = set()
        for record in catalog.slices(corpus.corpus_id):
            for receipt in catalog.receipts(record.slice_id).values():
                named.add(receipt.path)
                found = _vectors_in(receipt.part, read_part(runtime.embeddings, receipt))
                rows.update(f"{key} in {receipt.part}" for key in found)
                outputs |= found
        names = sorted(collection for alias, collection in runtime.store.aliases().items() if alias != "tags")
        full = {name: f"{runtime.home.id}.{name}" for name in names}
        collections = {(name, node.number): _points(node, full[name]) for name in names for node in cluster.qdrant.nodes}
        counts = {name: _counts(cluster, full[name]) for name in names}
        thumbnails = frozenset(file.path for file in runtime.thumbnails.area.files())
        failures = sorted((failure.uri, failure.code) for failure in catalog.failures(corpus_id=corpus.corpus_id))
        named.add(f"{corpus.corpus_id}/{CORPUS_RECORD}")
        strays = sorted(file.path for file in runtime.embeddings.files() if file.path not in named)
    doubles = sorted(row for row, times in rows.items() if times > 1)
    return State(images, tuple(failures), outputs, collections, counts, thumbnails, tuple(strays), tuple(doubles))


def _vectors_in(part: str, table: pa.Table) -> dict[str, NDArray[Any]]:
    """What a part says of each of its rows; of `meta` that there is one."""
    ids = table.column("image_id").to_pylist()
    if part == META_PART:
        return {f"{key} (meta)": np.zeros(0, np.float32) for key in ids}
    if part.startswith(CAPTIONS_PREFIX):
        columns = (ids, *(table.column(name).to_pylist() for name in ("source", "text", "vector")))
        return {f"{key} {source} {text}": np.asarray(row, np.float32) for key, source, text, row in zip(*columns, strict=True)}
    return {key: np.asarray(row, np.float32) for key, row in zip(ids, table.column("features").to_pylist(), strict=True)}


def _points(node: QdrantNode, collection: str) -> dict[str, NDArray[Any]]:
    """Points that every replica of their shard has, and has alike."""
    found: dict[str, NDArray[Any]] = {}
    following: Any = None
    while True:
        ask = {"limit": 1000, "with_vector": True, "with_payload": False, "offset": following}
        page = node.post(f"/collections/{collection}/points/scroll?consistency=all", ask)
        found |= {str(point["id"]): np.asarray(point["vector"], np.float32) for point in page["points"]}
        following = page["next_page_offset"]
        if following is None:
            return found


def _counts(cluster: ChaosCluster, collection: str) -> tuple[int, ...]:
    return tuple(
        node.post(f"/collections/{collection}/points/count", {"exact": True})["count"] for node in cluster.qdrant.nodes
    )


def differences(found: State, wanted: State) -> list[str]:
    """What is not as in the undisturbed run; nothing when all is well."""
    pairs = {"images": (found.images, wanted.images), "failures": (found.failures, wanted.failures)}
    problems = [f"{name} differ: {_unlike(*pair)}" for name, pair in pairs.items() if pair[0] != pair[1]]
    problems += [f"a stray file: {path}" for path in found.strays]
    problems += [f"a picture in several slices: {image_id}" for image_id in found.doubles]
    problems += _vectors("outputs in Parquet", found.outputs, wanted.outputs)
    if found.thumbnails != wanted.thumbnails:
        problems.append(f"thumbnails differ: {sorted(found.thumbnails ^ wanted.thumbnails)[:3]}")
    if found.collections.keys() != wanted.collections.keys():
        problems.append(f"collections are {sorted(found.collections)}, not {sorted(wanted.collections)}")
    for place in sorted(found.collections.keys() & wanted.collections.keys()):
        problems += _vectors(f"{place[0]} on node {place[1]}", found.collections[place], wanted.collections[place])
    for collection, counted in found.counts.items():
        expected = wanted.counts.get(collection)
        if counted != expected:
            problems.append(f"{collection}: the store's nodes count {counted} points, not {expected}")
    return problems


def gaps(found: State, *, pictures: int, bad: int, captioned: int, nodes: int) -> list[str]:
    """What a whole run over so many good, bad and captioned pictures leaves, and this has not. Two empty states are alike."""
    points = {"captions": captioned, "pixels": pictures}
    spaces = [name.rpartition("-")[0] for name in sorted(found.counts)]
    meta = sum(key.endswith(" (meta)") for key in found.outputs)
    captions = sum(" sidecar " in key for key in found.outputs)
    expected: list[tuple[str, object, object]] = [
        ("images by state", Counter(state for _, state, _ in found.images.values()), {"active": pictures, "failed": bad}),
        ("failures", len(found.failures), bad),
        ("outputs: meta", meta, pictures + bad),
        ("outputs: captions", captions, captioned),
        ("outputs: features", len(found.outputs) - meta - captions, pictures),
        ("thumbnails", len(found.thumbnails), pictures),
        ("spaces", spaces, sorted(points)),
        ("nodes", set(found.collections), {(name, node) for name in found.counts for node in range(nodes)}),
    ]
    for name, space in zip(sorted(found.counts), spaces, strict=True):
        count = points.get(space)
        expected.append((f"points counted in {space}", found.counts[name], (count,) * nodes))
        places = sorted(place for place in found.collections if place[0] == name)
        expected += [(f"points in {space} on node {place[1]}", len(found.collections[place]), count) for place in places]
    return [f"{what}: {there}, not {wanted}" for what, there, wanted in expected if there != wanted]


def _vectors(what: str, found: Vectors, wanted: Vectors) -> list[str]:
    if found.keys() != wanted.keys():
        return [f"{what}: {len(wanted.keys() - found.keys())} are lost, {len(found.keys() - wanted.keys())} are too many"]
    unlike = [key for key, vector in found.items() if not np.allclose(vector, wanted[key], rtol=0, atol=SAME)]
    return [f"{what}: {len(unlike)} vectors differ, e.g. of {unlike[0]}"] if unlike else []


def _unlike(found: Any, wanted: Any) -> str:
    if isinstance(found, Mapping):
        keys = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
        return "; ".join(f"{key}: {found.get(key)} instead of {wanted.get(key)}" for key in sorted(keys)[:3])
    return f"{sorted(set(found) ^ set(wanted))[:3]} (found {len(found)}, wanted {len(wanted)})"
