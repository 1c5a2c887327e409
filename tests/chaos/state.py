"""What did an index run leave, everywhere? Catalog, Parquet files and every node of the store, in a form to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.chaos.cluster import CORPUS, ChaosCluster

from lodestone.config.settings import load_settings
from lodestone.embeddings.slices import read_part
from lodestone.runtime import Runtime

Vectors = Mapping[str, NDArray[Any]]
SAME = 1e-6  # of a vector's values: threads and batches do not change one, an interrupted write would


@dataclass(frozen=True)
class State:
    """What is found afterwards.

    Attributes:
        images: uri -> (id, state, hash) in the catalog.
        failures: (uri, reason), sorted.
        outputs: Image id -> what the model gave, out of the Parquet files of the slices that the images are in.
        collections: Collection -> point id -> vector, as the store answers.
        counts: Collection -> number of points that each node of the store counts.
        strays: Files in the embedding area that no receipt names.
        doubles: Image ids that several slices' files hold.
    """

    images: Mapping[str, tuple[str, str, str]]
    failures: tuple[tuple[str, str], ...]
    outputs: Vectors
    collections: Mapping[str, Vectors]
    counts: Mapping[str, tuple[int, ...]]
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
                table = read_part(runtime.embeddings, receipt)
                if not receipt.part.startswith("efficientnet"):
                    continue
                ids = table.column("image_id").to_pylist()
                rows.update(ids)
                outputs |= {
                    key: np.asarray(row, np.float32) for key, row in zip(ids, table["features"].to_pylist(), strict=True)
                }
        collections = {
            collection: {
                point: vector
                for batch in runtime.store.scroll(collection)
                for point, vector in zip(batch.ids, batch.vectors, strict=True)
            }
            for alias, collection in runtime.store.aliases().items()
            if alias != "tags"
        }
        prefix = runtime.home.id
        counts = {name: _counts(cluster, f"{prefix}.{name}") for name in collections}
        failures = sorted((failure.uri, failure.code) for failure in catalog.failures(corpus_id=corpus.corpus_id))
        strays = sorted(file.path for file in runtime.embeddings.files() if file.path not in named)
    doubles = sorted(image_id for image_id, times in rows.items() if times > 1)
    return State(images, tuple(failures), outputs, collections, counts, tuple(strays), tuple(doubles))


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
    if found.collections.keys() != wanted.collections.keys():
        problems.append(f"collections are {sorted(found.collections)}, not {sorted(wanted.collections)}")
    for collection in found.collections.keys() & wanted.collections.keys():
        problems += _vectors(collection, found.collections[collection], wanted.collections[collection])
        expected = len(wanted.collections[collection])
        if set(found.counts[collection]) != {expected}:
            problems.append(f"{collection}: the store's nodes count {found.counts[collection]} points, not {expected}")
    return problems


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
