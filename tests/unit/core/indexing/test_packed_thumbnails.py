"""Thumbnails in a bucket: one object a slice, written with its files, adopted with them, and made again without a model."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.buckets import BucketInMemory
from tests.support.pipelines import Stand

from lodestone.embeddings.slices import part_path
from lodestone.errors import OutOfSpaceError
from lodestone.imaging.thumbnail_packs import PackName, ThumbnailPacks
from lodestone.indexing.tasks import SliceReceipt, SliceTask


def collected(stand: Stand, tasks: list[SliceTask]) -> list[SliceReceipt]:
    return list(stand.pipeline.run(tasks))


def pack_of(task: SliceTask) -> PackName:
    return PackName(task.corpus_id, task.fingerprint)


def test_a_slice_costs_one_write_for_all_its_thumbnails(tmp_path: Path) -> None:
    bucket = BucketInMemory()
    with Stand(tmp_path, thumbnails=bucket) as stand:
        tasks = [stand.task(8) for _ in range(3)]
        tasks[1] = stand.task(7)
        broken = tasks[1].rows[2]
        stand.files[broken.path] = b"no picture"
        receipts = collected(stand, tasks)
    assert [receipt.error for receipt in receipts] == [None] * 3
    assert bucket.counts == {"PUT": 3}
    assert set(bucket.objects) == {pack_of(task).path for task in tasks}
    packs = ThumbnailPacks(bucket)
    for task in tasks:
        assert packs.contents(pack_of(task)) == sorted({row.hash for row in task.rows if row is not broken})
        assert packs.verify(pack_of(task), deep=True).problem is None


def test_a_slice_without_any_picture_has_no_pack(tmp_path: Path) -> None:
    bucket = BucketInMemory()
    with Stand(tmp_path, thumbnails=bucket) as stand:
        task = stand.task(2)
        stand.files.update(dict.fromkeys((row.path for row in task.rows), b"no picture"))
        (receipt,) = collected(stand, [task])
    assert (receipt.error, len(receipt.failures), bucket.counts) == (None, 2, {})


def test_meta_is_written_only_after_the_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OutOfSpaceError("no space left in 'bucket'")

    bucket = BucketInMemory()
    monkeypatch.setattr(bucket, "write", full)
    with Stand(tmp_path, thumbnails=bucket) as stand:
        (receipt,) = collected(stand, [stand.task(3)])
        assert isinstance(receipt.error, OutOfSpaceError)
        assert receipt.receipts == ()
        assert not list((tmp_path / "embeddings").rglob("*.parquet"))


def test_a_slice_whose_receipts_were_lost_is_adopted_with_its_pack(tmp_path: Path) -> None:
    bucket = BucketInMemory()
    with Stand(tmp_path, thumbnails=bucket) as stand:
        task = stand.task(4)
        collected(stand, [task])
        bucket.counts.clear()
        (receipt,) = collected(stand, [task])
        assert set(receipt.adopted) == set(task.parts)
        assert bucket.counts == {"HEAD": 1, "GET": 1}
        assert sum(stand.backbones[0].batches) == 4


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_pack_that_is_damaged_is_made_again_without_a_model(tmp_path: Path, damage: str) -> None:
    bucket = BucketInMemory()
    with Stand(tmp_path, thumbnails=bucket) as stand:
        task = stand.task(4)
        collected(stand, [task])
        path = pack_of(task).path
        whole = bucket.objects.pop(path)
        if damage == "cut":
            bucket.objects[path] = whole[:-1]
        bucket.counts.clear()
        (receipt,) = collected(stand, [task])
        assert (receipt.error, set(receipt.adopted)) == (None, set(task.parts) - {"meta"})
        assert bucket.objects == {path: whole}
        assert bucket.counts["PUT"] == 1
        assert sum(stand.backbones[0].batches) == 4


def test_another_model_leaves_the_pack_as_it_is(tmp_path: Path) -> None:
    bucket = BucketInMemory()
    with Stand(tmp_path, backbones=("mean", "other"), thumbnails=bucket) as stand:
        task = stand.task(4, parts=("mean-1", "captions-length-1", "meta"))
        collected(stand, [task])
        later = SliceTask(task.slice_id, task.corpus_id, task.fingerprint, task.rows[1:], ("other-1",))
        bucket.counts.clear()
        (receipt,) = collected(stand, [later])
        assert (receipt.error, receipt.embedded) == (None, 3)
        assert bucket.counts == {}
        assert len(ThumbnailPacks(bucket).contents(pack_of(task))) == len({row.hash for row in task.rows})


def test_a_folder_keeps_single_files(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        task = stand.task(4)
        collected(stand, [task])
        assert not (tmp_path / "thumbnails" / "packs").exists()
        assert all((tmp_path / "thumbnails" / row.hash[:2] / f"{row.hash}.jpg").is_file() for row in task.rows)
        assert isinstance(stand.settings.embeddings.read(part_path(task.corpus_id, task.fingerprint, "meta")), pa.Buffer)
