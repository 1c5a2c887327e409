"""After a few of many files change, the next run touches those alone, and search follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_photo, write_photos
from tests.support.upkeep import copied

from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.scan.changes import ChangeFinder
from lodestone.tags.search import TagSearch
from lodestone_schemas.api import SearchOptions, SearchRequest

PICTURES = 48
ROUNDING = 1e-5  # largest difference between elements of unit vectors that kernels make; other pictures differ by more
EACH = 2  # files that are added, changed, moved, deleted


@dataclass(frozen=True)
class Before:
    ids: dict[str, str]
    vectors: dict[str, Any]
    files: dict[str, int]  # Parquet file -> time of its last change
    parts: set[tuple[str, str]]  # receipts


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    write_photos(folder / "pictures", PICTURES)
    with open_runtime(folder) as opened:
        index(opened, folder)
    return folder


@pytest.fixture
def runtime(indexed: Path, tmp_path: Path) -> Iterator[Runtime]:
    copied(indexed, tmp_path)
    with open_runtime(tmp_path) as opened:
        yield opened


def index(runtime: Runtime, folder: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest((folder / "pictures",)))


def look(runtime: Runtime) -> Before:
    parts = {
        (record.slice_id, part) for record in runtime.catalog.slices() for part in runtime.catalog.receipts(record.slice_id)
    }
    return Before(
        ids=image_ids(runtime),
        vectors=vectors_of(runtime, "bridge"),
        files={str(path): path.stat().st_mtime_ns for path in (runtime.home.embeddings).rglob("*.parquet")},
        parts=parts,
    )


async def test_a_run_after_a_few_changes_touches_these_alone(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    names = sorted(path.name for path in folder.iterdir())
    changed, moved, deleted = names[:EACH], names[10 : 10 + EACH], names[20 : 20 + EACH]
    before = look(runtime)
    former = {image.slice_id for image in runtime.catalog.images([before.ids[f"pictures/{name}"] for name in changed]).values()}
    runtime.tags.add([before.ids[f"pictures/{moved[0]}"]], "a moved treasure")
    runtime.deliver_tags()

    for number in range(EACH):
        write_photo(folder / "added" / f"{number}.jpg", seed=1000 + number)
        write_photo(folder / changed[number], seed=2000 + number)
        (folder / "elsewhere").mkdir(exist_ok=True)
        (folder / moved[number]).rename(folder / "elsewhere" / moved[number])
        (folder / deleted[number]).unlink()
    report = index(runtime, tmp_path)

    wanted = {"new": EACH, "changed": EACH, "moved": EACH, "unchanged": PICTURES - 3 * EACH, "embedded": 2 * EACH}
    assert {name: report.counts.get(name) for name in wanted} == wanted
    assert report.counts["gone"] == 2 * EACH  # a moved file has gone from where it was
    after = look(runtime)
    # Only new and changed pictures have new vectors. The others are projected again where their slice was touched, from the
    # same stored outputs: in another batch, a processor's kernels may round the last bits otherwise.
    kept = before.vectors.keys() & after.vectors.keys()
    same = {key for key in kept if np.allclose(after.vectors[key], before.vectors[key], rtol=0, atol=ROUNDING)}
    touched = {after.ids[f"pictures/{name}"] for name in changed} | {after.ids[f"pictures/added/{n}.jpg"] for n in range(EACH)}
    assert set(after.vectors) - same == touched
    assert set(before.vectors) - set(after.vectors) == {before.ids[f"pictures/{name}"] for name in deleted}
    # No file that was there was written again. New are a slice of new and changed pictures, and slices of the neighbours of
    # changed ones, whose old rows say what was in them before.
    assert {path: after.files[path] for path in before.files if path in after.files}.items() <= before.files.items()
    left = {slice_id for slice_id, _ in before.parts - after.parts}
    assert left == former
    assert len({slice_id for slice_id, _ in after.parts - before.parts}) == 1 + len(left)

    for name in moved:
        assert after.ids[f"pictures/elsewhere/{name}"] == before.ids[f"pictures/{name}"]
    again = index(runtime, tmp_path)
    assert again.counts["unchanged"] == PICTURES
    assert again.counts.get("embedded", 0) == 0
    assert again.sync is not None
    assert all(one.loaded == 0 for one in again.sync.collections)

    engine = runtime.engine()
    await engine.warm_up()
    found = {hit.uri: hit.image_id for hit in (await engine.answer(SearchRequest(query="dots", limit=200, guides=0))).hits}
    assert {f"pictures/{uri}": image_id for uri, image_id in found.items()} == after.ids
    tagged = TagSearch(runtime.store).search("a moved treasure", runtime.store.aliases()["tags"]).found
    assert list(tagged.ids) == [found[f"elsewhere/{moved[0]}"]]
    like = await engine.similar(found["added/0.jpg"], SearchOptions(limit=PICTURES))
    assert {hit.uri for hit in like.hits} == set(found) - {"added/0.jpg"}


async def test_a_folder_that_is_renamed_keeps_every_id(runtime: Runtime, tmp_path: Path) -> None:
    inner = tmp_path / "pictures" / "album"
    inner.mkdir()
    for path in sorted((tmp_path / "pictures").glob("*.jpg"))[:4]:
        path.rename(inner / path.name)
    index(runtime, tmp_path)
    before = image_ids(runtime)
    inner.rename(tmp_path / "pictures" / "an album")
    report = index(runtime, tmp_path)
    assert report.counts["moved"] == 4
    assert report.counts.get("embedded", 0) == 0
    assert image_ids(runtime) == {name.replace("/album/", "/an album/"): image_id for name, image_id in before.items()}


def test_a_run_that_is_killed_while_pictures_change_places_is_made_good_by_the_next(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pictures"
    names = sorted(path.name for path in folder.iterdir())
    before = image_ids(runtime)
    long_gone = (folder / names[0]).read_bytes()
    (folder / names[0]).unlink()
    index(runtime, tmp_path)
    (folder / names[10]).unlink()
    for number in (10, 11, 12):  # a series is numbered anew
        (folder / names[number + 1]).rename(folder / names[number])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ChangeFinder, "_exchange", die)
        with pytest.raises(KeyboardInterrupt):
            index(runtime, tmp_path)
    (folder / names[20]).write_bytes(long_gone)  # an edit: it is long ago that another picture had this content
    report = index(runtime, tmp_path)

    assert (report.counts["moved"], report.counts["changed"], report.counts["embedded"]) == (3, 1, 1)
    moved = {f"pictures/{names[number]}": before[f"pictures/{names[number + 1]}"] for number in (10, 11, 12)}
    left = {f"pictures/{names[number]}" for number in (0, 13)}
    assert image_ids(runtime) == {name: image_id for name, image_id in before.items() if name not in left} | moved
