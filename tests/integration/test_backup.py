"""A backup brings a whole home back, in whatever database and area, without reading a picture."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.home import image_ids, open_runtime, settings_for, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos
from tests.support.s3_server import s3_server

from lodestone.backup import create as creating
from lodestone.backup.create import create_backup
from lodestone.backup.restore import SETTINGS_ASIDE, restore_backup
from lodestone.backup.snapshots import snapshots
from lodestone.backup.verify import prune_backup, verify_backup
from lodestone.catalog import tables
from lodestone.catalog.export import TABLES
from lodestone.catalog.records import RunState, TagRecord
from lodestone.config.home import Home
from lodestone.errors import ConfigurationError, EmbeddingsDamagedError, NotFoundError, RunFailedError
from lodestone.files.area import FileArea
from lodestone.files.opening import open_area
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import sync

_NOT_RESTORED = {"loads", "deletions", "aliases", "tag_outbox"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an indexed home of 10 pictures, a tag and an artifact; not to be changed."""
    folder = tmp_path_factory.mktemp("original")
    write_photos(folder / "photos", 10)
    (folder / "photos" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        first = next(iter(image_ids(runtime).values()))
        runtime.catalog.add_tags([TagRecord.new(first, "Ein Hund 🐕", "user")])
        runtime.deliver_tags()
        artifact = runtime.home.artifacts / "bridge" / "v1" / "weights.bin"
        artifact.parent.mkdir(parents=True)
        artifact.write_bytes(b"learnt")
        runtime.catalog.start_run("index", runtime.catalog.corpus("default").corpus_id)
    return folder


@pytest.fixture
def runtime(original: Path, tmp_path: Path) -> Iterator[Runtime]:
    """A copy of its home."""
    copy_folder(original / "home", tmp_path / "home")
    with open_runtime(tmp_path) as opened:
        yield opened


def _restored(folder: Path, area: FileArea, **options: Any) -> Runtime:
    runtime = open_runtime(folder)
    restore_backup(runtime, area, **options)
    return runtime


def _content(runtime: Runtime) -> dict[str, list[dict[str, Any]]]:
    """All rows of the catalog that a restored one must have."""
    from lodestone.catalog.export import TABLES

    with runtime.catalog.exporting() as export:
        return {
            table.name: [row for page in export.rows(table) for row in page]
            for table in TABLES
            if table.name not in _NOT_RESTORED | {"runs"}
        }


def _flip(path: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _files(area: FileArea) -> dict[str, bytes]:
    return {stored.path: bytes(area.read(stored.path)) for stored in area.files()}


def test_a_restored_home_answers_as_the_lost_one_did(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    made = create_backup(runtime, area)
    assert (made.manifest.images, made.manifest.lacking) == (10, ())
    with open_runtime(tmp_path / "new") as new:
        report = restore_backup(new, area)
        assert (report.images, report.lacking) == (10, 0)
        assert _content(new) == _content(runtime)
        assert _files(new.embeddings) == _files(runtime.embeddings)
        assert (new.home.artifacts / "bridge" / "v1" / "weights.bin").read_bytes() == b"learnt"
        assert new.home.id == runtime.home.id
        assert new.catalog.runs(state=RunState.RUNNING) == []
        synced = sync(new)
        assert all(one.promoted for one in synced.collections)
        for space in ("bridge", "labels"):
            before, after = vectors_of(runtime, space), vectors_of(new, space)
            assert before.keys() == after.keys()
            assert all(np.allclose(before[key], after[key], atol=1e-5) for key in before)
        assert new.store.count(new.store.aliases()["tags"]) == 10


def test_a_second_snapshot_copies_only_what_is_new(runtime: Runtime, original: Path, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    first = create_backup(runtime, area)
    receipts = [r for one in runtime.catalog.slices() for r in runtime.catalog.receipts(one.slice_id).values()]
    assert len(receipts) == first.manifest.embedding_files
    assert first.copied == len({receipt.checksum for receipt in receipts}) + 1  # equal contents are kept once
    assert create_backup(runtime, area).copied == 0
    assert len(snapshots(area)) == 2
    assert [manifest.name for manifest in snapshots(area)] == sorted(manifest.name for manifest in snapshots(area))
    assert verify_backup(area, name=first.manifest.name).damaged == 0


def test_the_last_snapshot_is_the_last_one_made_even_where_the_clock_went_back(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    first = create_backup(runtime, area).manifest.name
    late = tmp_path / "backup" / "snapshots" / "29991231T235959.999999Z-000000"
    (tmp_path / "backup" / "snapshots" / first).rename(late)
    assert create_backup(runtime, area).manifest.name > late.name


def test_pruning_keeps_what_the_last_snapshots_need(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    (runtime.home.artifacts / "bridge" / "v1" / "weights.bin").write_bytes(b"learnt more")
    last = create_backup(runtime, area)
    assert last.copied == 1
    (tmp_path / "backup" / "snapshots" / "20200101T000000.000000Z-000000" / "catalog").mkdir(parents=True)
    (tmp_path / "backup" / "snapshots" / "20200101T000000.000000Z-000000" / "catalog" / "x.parquet").write_bytes(b"killed")
    assert prune_backup(area, keep=1) == (2, 1)
    assert [manifest.name for manifest in snapshots(area)] == [last.manifest.name]
    assert verify_backup(area).damaged == 0


def test_thumbnails_and_settings_are_taken_where_asked_for(runtime: Runtime, tmp_path: Path) -> None:
    (runtime.home.path / "lodestone.toml").write_text("[serve]\nport = 1\n")
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    assert area.names("thumbnails") == ([], [])
    create_backup(runtime, area, thumbnails=True, settings=True)
    with _restored(tmp_path / "careful", area) as new:
        assert not (new.home.path / "lodestone.toml").exists()
        assert (new.home.path / SETTINGS_ASIDE).read_text() == "[serve]\nport = 1\n"
    with _restored(tmp_path / "new", area, settings=True) as new:
        assert not (new.home.path / SETTINGS_ASIDE).exists()
        assert set(new.thumbnails.contents()) == set(runtime.thumbnails.contents())
        assert len(set(new.thumbnails.contents())) == 10
        assert (new.home.path / "lodestone.toml").read_text() == "[serve]\nport = 1\n"


def test_damage_in_the_home_is_left_out_and_embedded_again_after_a_restore(
    runtime: Runtime, original: Path, tmp_path: Path
) -> None:
    victim = next(runtime.home.embeddings.rglob("*.efficientnet-lite0-*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-100])
    area = open_area(tmp_path / "backup")
    made = create_backup(runtime, area)
    assert [part.part.split("-")[1] for part in made.manifest.lacking] == ["lite0"]
    assert verify_backup(area).damaged == 0
    with open_runtime(tmp_path / "new") as new:
        assert restore_backup(new, area).lacking == 1
        report = index_paths(new, IndexRequest((original / "photos",)))
        assert 0 < report.counts["embedded"] <= 8
        assert len(vectors_of(new, "bridge")) == 10


def test_a_backup_cannot_write_outside_the_home_that_it_fills(runtime: Runtime, tmp_path: Path) -> None:
    """A forged one names an embeddings file, or another file of the home, by a path that leads out of it."""
    slice_id = next(iter(runtime.catalog.slices())).slice_id
    receipt = next(iter(runtime.catalog.receipts(slice_id).values()))
    content = (runtime.home.embeddings / receipt.path).read_bytes()
    (runtime.home.embeddings / "../outside.parquet").write_bytes(content)
    runtime.catalog.record_receipts([replace(receipt, path="../outside.parquet")])
    create_backup(runtime, open_area(tmp_path / "by receipt"))
    runtime.catalog.record_receipts([receipt])
    create_backup(runtime, open_area(tmp_path / "by file"))
    (manifest,) = (tmp_path / "by file" / "snapshots").glob("*/manifest.json")
    artifact = "artifacts/bridge/v1/weights.bin"
    forged = {
        f"by file, {path}": path for path in ("../outside.bin", str(tmp_path / "outside.bin"), "artifacts/../../outside.bin")
    }
    for name, path in forged.items():
        shutil.copytree(tmp_path / "by file", tmp_path / name.replace("/", "_"))
        copy = tmp_path / name.replace("/", "_") / manifest.relative_to(tmp_path / "by file")
        assert artifact in copy.read_text("utf-8")
        copy.write_text(copy.read_text("utf-8").replace(artifact, path), encoding="utf-8")
    for number, name in enumerate(["by receipt", *(name.replace("/", "_") for name in forged)]):
        folder = tmp_path / f"restored-{number}"
        with open_runtime(folder) as new, pytest.raises(ConfigurationError, match="names a file that no backup holds"):
            restore_backup(new, open_area(tmp_path / name))
        assert list(folder.rglob("outside*")) == []
        assert not (tmp_path / "outside.bin").exists()


def test_a_file_of_the_home_that_was_altered_at_the_same_size_is_not_taken_for_sound(runtime: Runtime, tmp_path: Path) -> None:
    """Its size and its name are right, so only its checksum tells."""
    slice_id = next(iter(runtime.catalog.slices())).slice_id
    receipt = runtime.catalog.receipts(slice_id)["meta"]
    _flip(runtime.home.embeddings / receipt.path)
    made = create_backup(runtime, open_area(tmp_path / "backup"))
    ((lacking_slice, lacking_part, why),) = [(part.slice_id, part.part, part.why) for part in made.manifest.lacking]
    assert (lacking_slice, lacking_part) == (slice_id, "meta")
    assert "is damaged" in why


def test_a_home_that_sees_none_of_its_embeddings_is_not_backed_up(runtime: Runtime, tmp_path: Path) -> None:
    """As a folder elsewhere with the same catalog on a server."""
    shutil.rmtree(runtime.home.embeddings)
    area = open_area(tmp_path / "backup")
    with pytest.raises(NotFoundError, match="none of"):
        create_backup(runtime, area)
    assert snapshots(area) == []


def test_a_damaged_file_of_the_backup_is_copied_again_by_a_check(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    victims = sorted(path for path in (tmp_path / "backup" / "files").rglob("*") if path.is_file())[:2]
    for victim in victims:
        victim.write_bytes(bytes(victim.stat().st_size))  # as long as it was
    assert verify_backup(area, quick=True).damaged == 0
    assert create_backup(runtime, area, check=True).copied == 2
    assert verify_backup(area).damaged == 0


def test_what_a_killed_copy_left_is_pruned(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    content = {path for path in (tmp_path / "backup").rglob("*") if path.is_file()}
    (tmp_path / "backup" / "files" / "ab").mkdir(exist_ok=True)
    (tmp_path / "backup" / "files" / "ab" / f".{'ab' * 32}.0123456789ab.part").write_bytes(b"half")
    prune_backup(area, keep=1)
    assert {path for path in (tmp_path / "backup").rglob("*") if path.is_file()} == content


def test_a_snapshot_of_the_schema_before_is_restored(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the column that was added since; an unknown schema is refused."""
    area = open_area(tmp_path / "backup")
    with monkeypatch.context() as patch:
        slices = type(tables.slices)(
            "slices", type(tables.metadata)(), *(c._copy() for c in tables.slices.c if c.name != "parts")
        )
        before = tuple(slices if table.name == "slices" else table for table in TABLES)
        patch.setattr("lodestone.backup.tables.TABLES", before)
        patch.setattr("lodestone.catalog.export.Export.__init__.__defaults__", ("0004",))
        create_backup(runtime, area)
    assert snapshots(area)[0].revision == "0004"
    with open_runtime(tmp_path / "new") as new:
        restore_backup(new, area)
        assert _content(new) == _content(runtime)
    manifest = next((tmp_path / "backup").rglob("manifest.json"))
    manifest.write_text(manifest.read_text("utf-8").replace('"0004"', '"0002"'), "utf-8")
    with open_runtime(tmp_path / "newer") as newer, pytest.raises(ConfigurationError, match="schema '0002'"):
        restore_backup(newer, area)


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
def test_verify_finds_every_damaged_file(runtime: Runtime, tmp_path: Path, damage: str) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    for victim in (next((tmp_path / "backup" / "files").rglob("*")), *(tmp_path / "backup" / "snapshots").rglob("images-*")):
        path = victim if victim.is_file() else next(path for path in victim.rglob("*") if path.is_file())
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(content if damage == "flipped" else content[:-5])
    found = verify_backup(area)
    assert found.damaged == len(found.problems) == 2
    with open_runtime(tmp_path / "new") as new, pytest.raises(EmbeddingsDamagedError, match="images-"):
        restore_backup(new, area)


def test_a_lost_file_of_the_backup_costs_one_slice(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    receipts = [r for record in runtime.catalog.slices() for r in runtime.catalog.receipts(record.slice_id).values()]
    lost = next(receipt for receipt in receipts if receipt.part.startswith("efficientnet-lite0"))
    (tmp_path / "backup" / "files" / lost.checksum[:2] / lost.checksum).unlink()
    with open_runtime(tmp_path / "new") as new:
        assert restore_backup(new, area).lacking == 1
        assert lost.part not in new.catalog.receipts(lost.slice_id)


def test_a_home_with_something_in_it_is_never_overwritten(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    before = _content(runtime)
    with pytest.raises(ConfigurationError, match="not empty") as caught:
        restore_backup(runtime, area)
    assert "LODESTONE_HOME" in caught.value.hint
    assert _content(runtime) == before


def test_a_restore_that_was_killed_is_finished_by_the_next(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)

    class Killed(BaseException):
        pass

    with open_runtime(tmp_path / "new") as new:
        insert = new.catalog.import_rows

        def dying(pages: Any) -> Any:
            def some() -> Any:
                for number, page in enumerate(pages):
                    if number == 4:
                        raise Killed
                    yield page

            return insert(some())

        monkeypatch.setattr(new.catalog, "import_rows", dying)
        with pytest.raises(Killed):
            restore_backup(new, area)
        monkeypatch.undo()
        assert not any(new.catalog.count_rows().values())
        restore_backup(new, area)
        assert _content(new) == _content(runtime)


def test_a_copy_beside_the_living_home_has_an_id_of_its_own(runtime: Runtime, tmp_path: Path) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    with _restored(tmp_path / "copy", area, new_id=True) as copy:
        assert copy.home.id != runtime.home.id


def test_a_copy_on_a_server_has_an_id_of_its_own_also_in_the_folder_of_the_living_home(
    runtime: Runtime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_url: str,
) -> None:
    area = open_area(tmp_path / "backup")
    create_backup(runtime, area)
    settings = settings_for(tmp_path / "copy").model_copy(update={"catalog_url": postgres_url})
    Home(settings.home).prepare()
    Home(settings.home).settle(runtime.home.id)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with Runtime.open(settings) as copy:
        monkeypatch.setattr(copy.catalog, "set_home_id", killed)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(copy, area, new_id=True)
    monkeypatch.undo()
    with Runtime.open(settings) as copy:
        report = restore_backup(copy, area, new_id=True)
        assert report.home_id == copy.home.id == copy.catalog.home_id(otherwise="") != runtime.home.id
        assert copy.catalog.count_images() == runtime.catalog.count_images()


def test_a_file_that_is_replaced_while_it_is_copied_makes_a_new_snapshot(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.catalog.interrupt_runs("index", runtime.catalog.corpus("default").corpus_id)
    area = open_area(tmp_path / "backup")
    write, rounds = creating.write_tables, 0

    def compacted_after(*arguments: Any) -> Any:
        nonlocal rounds
        rounds += 1
        yield from write(*arguments)
        if rounds <= compactions:
            assert compact_corpus(runtime, "default").files_deleted > 0

    monkeypatch.setattr("lodestone.embeddings.compaction._WASTE", -1.0)  # every slice is worth it
    monkeypatch.setattr(type(runtime.catalog), "erase_free_space", lambda _: 0)  # it would wait for the backup, which reads
    monkeypatch.setattr(creating, "write_tables", compacted_after)
    compactions = 1
    made = create_backup(runtime, area)
    assert rounds == 2
    assert made.manifest.lacking == ()
    assert [manifest.name for manifest in snapshots(area)] == [made.manifest.name]
    compactions = 100
    with pytest.raises(RunFailedError, match="again and again"):
        create_backup(runtime, open_area(tmp_path / "other"))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        with pytest.raises(NotFoundError, match="no home"):
            create_backup(runtime, open_area(tmp_path / "backup"))
        with pytest.raises(NotFoundError, match="no finished snapshot"):
            restore_backup(runtime, open_area(tmp_path / "backup"))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_cluster_comes_back_from_a_bucket(
    runtime: Runtime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_url: str,
) -> None:
    """SQLite and folders -> a bucket -> PostgreSQL with embeddings in a bucket -> a bucket -> SQLite."""
    with s3_server("snapshots") as s3:
        first, second = open_area(s3.url("snapshots/backups/home")), open_area(s3.url("snapshots/backups/cluster"))
        create_backup(runtime, first)
        base = settings_for(tmp_path / "cluster")
        index = base.index.model_copy(update={"embeddings": s3.url("snapshots/embeddings")})
        with Runtime.open(base.model_copy(update={"catalog_url": postgres_url, "index": index})) as cluster:
            assert cluster.catalog.home_id(otherwise="") != runtime.home.id
            assert restore_backup(cluster, first).home_id == runtime.home.id
            assert _content(cluster) == _content(runtime)
            assert _files(cluster.embeddings) == _files(runtime.embeddings)
            create_backup(cluster, second)
            monkeypatch.setattr("lodestone.embeddings.compaction._WASTE", -1.0)  # every slice is worth it
            before = cluster.catalog.count_rows()
            assert compact_corpus(cluster, "default").files_deleted > 0
            assert {**before, **cluster.catalog.count_rows()}["slice_members"] == before["slice_members"]
            assert compact_corpus(cluster, "default").waiting == 0
        assert verify_backup(second).damaged == 0
        with _restored(tmp_path / "again", second) as again:
            assert _content(again) == _content(runtime)
            sync(again)
            assert len(vectors_of(again, "bridge")) == 10
        assert s3.uploads("snapshots") == []
