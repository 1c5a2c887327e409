"""Several slices in flight: what overlaps, what waits, what a failing slice costs, and how a run stops."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pipelines import LengthEncoder, MeanBackbone, Stand

from lodestone.backbones.base import Pixels
from lodestone.embeddings.slices import read_part
from lodestone.errors import ImageError, ModelUnavailableError, OutOfSpaceError, RunCancelledError, RunFailedError, SourceError
from lodestone.imaging.decode import decode
from lodestone.indexing.slices import files as slice_files
from lodestone.indexing.slices.picture_queues import PictureQueues
from lodestone.indexing.slices.pools import Pool
from lodestone.indexing.slices.preparing import decoder
from lodestone.indexing.stage_stats import EmbedStage
from lodestone.indexing.tasks import SliceReceipt, SliceTask

_PATIENCE_S = 180.0


def collected(stand: Stand, tasks: list[SliceTask]) -> dict[str, SliceReceipt]:
    return {receipt.slice_id: receipt for receipt in stand.pipeline.run(tasks)}


def rows_of(stand: Stand, receipt: SliceReceipt, part: str) -> list[dict[str, Any]]:
    written = next(one for one in receipt.receipts if one.part.startswith(part))
    rows: list[dict[str, Any]] = read_part(stand.settings.embeddings, written).to_pylist()
    return rows


def test_batches_are_filled_across_slices_and_each_picture_gets_its_own_outputs(tmp_path: Path) -> None:
    def wait_for_a_batch(pixels: Pixels) -> None:
        """Hold the models until the next batch is full, however slowly pictures are decoded."""
        (flow,) = stand.pipeline._flows
        until = time.monotonic() + _PATIENCE_S
        wanted = min(8, 15 - len(pixels))  # three slices of five are in flight
        while not stand.backbones[0].batches and time.monotonic() < until:
            if sum(map(len, flow._queues._inputs.values())) >= wanted or flow._running[Pool.MODELS] > 1:
                return
            time.sleep(0.01)

    with Stand(tmp_path, batch_size=8, on_embed=wait_for_a_batch) as stand:
        tasks = [stand.task(5, captions=1) for _ in range(5)]
        receipts = collected(stand, tasks)
        batches = stand.backbones[0].batches
        assert sum(batches) == 25
        assert max(batches) == 8  # more than a slice has
        for task in tasks:
            receipt = receipts[task.slice_id]
            assert (receipt.error, receipt.embedded) == (None, 5)
            assert [part.part.partition("-")[0] for part in receipt.receipts] == ["mean", "captions", "meta"]
            outputs = rows_of(stand, receipt, "mean")
            assert [row["image_id"] for row in outputs] == [row.image_id for row in task.rows]
            for row, found in zip(task.rows, outputs, strict=True):
                pixels = MeanBackbone().prepare(decode(stand.files[row.path], min_side=8).image)
                assert np.allclose(found["mean"], pixels.mean(axis=(0, 1)), atol=0.1)
            assert [row["error_code"] for row in rows_of(stand, receipt, "meta")] == [None] * 5
            assert all((tmp_path / "thumbnails" / row.hash[:2] / f"{row.hash}.jpg").stat().st_size for row in task.rows)


def test_slices_that_miss_different_models_share_no_batch(tmp_path: Path) -> None:
    with Stand(tmp_path, backbones=("mean", "other"), batch_size=6) as stand:
        both = [stand.task(4) for _ in range(2)]
        one = [stand.task(4, parts=("other-1", "meta")) for _ in range(2)]
        receipts = collected(stand, [both[0], one[0], both[1], one[1]])
        assert all(receipt.error is None for receipt in receipts.values())
        assert sum(stand.backbones[0].batches) == 8
        assert sum(stand.backbones[1].batches) == 16
        assert [part.part for part in receipts[one[0].slice_id].receipts] == ["other-1", "meta"]


def test_a_slice_is_pulled_only_when_there_is_room_for_it(tmp_path: Path) -> None:
    pulled = taken = most = 0
    with Stand(tmp_path, slices=2) as stand:

        def tasks() -> Iterator[SliceTask]:
            nonlocal pulled, most
            for _ in range(6):
                pulled += 1
                most = max(most, pulled - taken)
                yield stand.task(3)

        for _ in stand.pipeline.run(tasks()):
            taken += 1
    assert (pulled, taken, most) == (6, 6, 2)


def test_the_next_slice_is_embedded_while_the_files_of_the_one_before_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    embedded = threading.Event()

    def count(pixels: np.ndarray) -> None:
        passes.append(len(pixels))
        if len(passes) == 2:
            embedded.set()

    waited: list[bool] = []
    write = slice_files.write_part

    def slow(*arguments: Any) -> Any:
        waited.append(embedded.wait(_PATIENCE_S))
        return write(*arguments)

    monkeypatch.setattr(slice_files, "write_part", slow)
    with Stand(tmp_path, on_embed=count, slices=2) as stand:
        receipts = collected(stand, [stand.task(4) for _ in range(2)])
    assert all(waited)
    assert all(receipt.error is None for receipt in receipts.values())


def test_as_many_pictures_of_an_object_store_are_read_at_once_as_are_allowed(tmp_path: Path) -> None:
    together = threading.Barrier(12)
    with Stand(tmp_path, on_read=lambda _: together.wait(_PATIENCE_S) and None, remote_reads=12, slices=2) as stand:
        receipts = collected(stand, [stand.task(6, remote=True) for _ in range(4)])
        assert all(receipt.embedded == 6 for receipt in receipts.values())
        assert stand.reader.most_reading == 12


def test_a_slow_stage_makes_the_ones_before_it_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of decoded bytes is far below a batch, so that batches have to go as they are."""
    most = {"fetched": 0, "decoded": 0}
    next_batch = PictureQueues.next_batch

    def watched(self: PictureQueues, **options: Any) -> Any:
        most["fetched"] = max(most["fetched"], self.fetched_bytes)
        most["decoded"] = max(most["decoded"], self.decoded_bytes)
        return next_batch(self, **options)

    monkeypatch.setattr(PictureQueues, "next_batch", watched)
    picture = 3 * 8 * 8
    with Stand(tmp_path, batch_size=64, decoded_bytes=10 * picture, fetched_bytes=5_000, slices=4) as stand:
        receipts = collected(stand, [stand.task(20) for _ in range(6)])
        assert all(receipt.embedded == 20 for receipt in receipts.values())
        assert max(stand.backbones[0].batches) <= 10
    assert 5 * picture <= most["decoded"] <= 10 * picture
    assert 0 < most["fetched"] <= 5_000


def test_a_picture_that_cannot_be_read_or_decoded_is_a_failure_of_its_own(tmp_path: Path) -> None:
    def gone(locator: str) -> None:
        if locator.endswith("000001.jpg"):
            raise ImageError("it is not there any more", reason="missing")

    with Stand(tmp_path, on_read=gone) as stand:
        task = stand.task(4)
        stand.files[task.rows[2].path] = b"no picture"
        (receipt,) = stand.pipeline.run([task])
        assert receipt.error is None
        assert [failure.code for failure in receipt.failures] == ["missing", "not_an_image"]
        assert receipt.embedded == 2
        assert [row["image_id"] for row in rows_of(stand, receipt, "mean")] == [task.rows[0].image_id, task.rows[3].image_id]
        assert [row["error_code"] for row in rows_of(stand, receipt, "meta")] == [None, "missing", "not_an_image", None]


@pytest.mark.parametrize("remote", [False, True])
def test_a_source_that_fails_ends_its_slice_and_no_other(tmp_path: Path, *, remote: bool) -> None:
    def fail(locator: str) -> None:
        if "/bad/" in locator:
            raise SourceError("the bucket is away", reason="unreachable")

    with Stand(tmp_path, on_read=fail) as stand:
        tasks = [stand.task(6, name=name, remote=remote) for name in ("a", "bad", "b", "c")]
        receipts = collected(stand, tasks)
        assert isinstance(receipts["bad"].error, SourceError)
        assert receipts["bad"].receipts == ()
        assert [receipts[name].embedded for name in ("a", "b", "c")] == [6, 6, 6]
        assert stand.pipeline.run([stand.task(3)]).__next__().error is None  # nothing is left counted as in flight


def test_pictures_that_are_all_denied_are_no_failures_of_pictures(tmp_path: Path) -> None:
    def denied(_: str) -> None:
        raise ImageError("reading it is denied", reason="denied")

    with Stand(tmp_path, on_read=denied) as stand:
        (receipt,) = stand.pipeline.run([stand.task(3, remote=True)])
    assert isinstance(receipt.error, SourceError)
    assert receipt.receipts == ()


def test_a_slice_without_space_keeps_what_it_wrote_and_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = slice_files.write_part

    def full(area: Any, corpus_id: str, fingerprint: str, part: str, table: Any) -> Any:
        if fingerprint == bad.fingerprint and part == "meta":
            raise OutOfSpaceError("no space left", hint="free some space")
        return write(area, corpus_id, fingerprint, part, table)

    monkeypatch.setattr(slice_files, "write_part", full)
    with Stand(tmp_path) as stand:
        bad, good = stand.task(4), stand.task(4)
        receipts = collected(stand, [bad, good])
        assert isinstance(receipts[bad.slice_id].error, OutOfSpaceError)
        assert [part.part.partition("-")[0] for part in receipts[bad.slice_id].receipts] == ["mean", "captions"]
        assert receipts[good.slice_id].error is None


def test_a_full_disk_at_a_thumbnail_ends_the_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stand(tmp_path) as stand:

        def full(*_: Any) -> None:
            raise OutOfSpaceError("no space left", hint="free some space")

        monkeypatch.setattr(stand.work, "put_thumbnails", full)
        (receipt,) = stand.pipeline.run([stand.task(4)])
    assert isinstance(receipt.error, OutOfSpaceError)
    assert receipt.receipts == ()
    assert not list(tmp_path.rglob("*.meta.parquet"))


def test_models_that_fail_at_one_picture_end_its_slice_alone(tmp_path: Path) -> None:
    with Stand(tmp_path, batch_size=8) as stand:
        tasks = [stand.task(4) for _ in range(4)]
        poison = MeanBackbone().prepare(decode(_white(), min_side=8).image)
        bad = tasks[1].rows[2]
        stand.files[bad.path] = _white()

        def fail(pixels: np.ndarray) -> None:
            if any(np.array_equal(picture, poison) for picture in pixels):
                raise ValueError("no such colour")

        stand.backbones[0].hook = fail
        receipts = collected(stand, tasks)
        error = receipts[tasks[1].slice_id].error
        assert isinstance(error, RunFailedError)
        assert "ValueError: no such colour" in error.message
        assert tasks[1].rows[0].uri in error.message
        assert [receipts[task.slice_id].embedded for task in (tasks[0], *tasks[2:])] == [4, 4, 4]


def _white() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), "white").save(buffer, "PNG")
    return buffer.getvalue()


def test_captions_that_cannot_be_encoded_keep_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stand(tmp_path) as stand:

        def broken(*_: Any) -> None:
            raise RuntimeError("no encoder")

        monkeypatch.setattr(LengthEncoder, "encode", broken)
        (receipt,) = stand.pipeline.run([stand.task(4, captions=1)])
    assert isinstance(receipt.error, RunFailedError)
    assert [part.part for part in receipt.receipts] == ["mean-1"]


def test_what_lies_on_disk_is_adopted_without_reading_a_picture(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        tasks = [stand.task(4, captions=1) for _ in range(3)]
        first = collected(stand, tasks)
        stand.reader.hook = lambda locator: pytest.fail(f"{locator} was read")
        again = collected(stand, tasks)
        for task in tasks:
            assert again[task.slice_id].embedded == 0
            assert set(again[task.slice_id].adopted) == set(task.parts)
            parts = [{part.part: part.checksum for part in receipts[task.slice_id].receipts} for receipts in (first, again)]
            assert parts[0] == parts[1]


def test_captions_alone_are_encoded_without_reading_a_picture(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        stand.reader.hook = lambda locator: pytest.fail(f"{locator} was read")
        task = stand.task(3, captions=2, parts=("captions-length-1",))
        (receipt,) = stand.pipeline.run([task])
        assert receipt.error is None
        assert len(rows_of(stand, receipt, "captions")) == 6


def test_progress_counts_pictures_and_leaves_the_end_to_the_receipt(tmp_path: Path) -> None:
    reported: list[tuple[str, int]] = []
    with Stand(tmp_path, decoders=1, batch_size=4, slices=1) as stand:
        tasks = [stand.task(10, name="a"), stand.task(4, name="b")]
        list(stand.pipeline.run(tasks, lambda slice_id, pictures: reported.append((slice_id, pictures))))
    assert reported == [("a", 4), ("a", 8)]


class _Child:
    """Pretends to be an isolated child: decodes here, counts how often it was asked and closed."""

    def __init__(self, stand: Stand) -> None:
        self._decode = decoder(stand.settings, ["mean", "meta"], stand.work.parts, stand.reader)
        self.decoded = 0
        self.closed = threading.Event()

    def decode(self, row: Any, content: Any, *, parts: tuple[str, ...]) -> Any:
        assert parts == ("mean", "captions", "meta")
        self.decoded += 1
        return self._decode(row, content)

    def close(self) -> None:
        self.closed.set()


def test_a_slice_that_needs_the_worker_gets_no_company_and_its_pictures_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[str] = []
    taken: list[str] = []
    with Stand(tmp_path, slices=3) as stand:
        child = _Child(stand)
        monkeypatch.setattr(stand.work, "isolated", lambda: child)
        tasks = [
            stand.task(3, name="a"),
            stand.task(3, name="alone", alone=True),
            stand.task(3, name="isolated", isolate=True),
            stand.task(3, name="b"),
            stand.task(3, name="c"),
        ]
        admitted: list[tuple[str, int]] = []
        reading = threading.Lock()

        def note(locator: str) -> None:
            with reading:
                admitted.append((locator.split("/")[2], len(taken)))

        stand.reader.hook = note

        def source() -> Iterator[SliceTask]:
            for task in tasks:
                pulled.append(task.slice_id)
                yield task

        for receipt in stand.pipeline.run(source()):
            assert receipt.error is None
            taken.append(receipt.slice_id)
        assert taken[:3] == ["a", "alone", "isolated"]
        assert {name: done for name, done in admitted if name in {"alone", "isolated"}} == {"alone": 1, "isolated": 2}
        assert all(done >= 3 for name, done in admitted if name in {"b", "c"})
        assert child.decoded == 3
        assert child.closed.wait(_PATIENCE_S)


def test_a_run_that_is_left_stops_and_leaves_only_whole_files(tmp_path: Path) -> None:
    with Stand(tmp_path, slices=4) as stand:
        tasks = [stand.task(8) for _ in range(20)]
        running = stand.pipeline.run(tasks)
        next(running)
        running.close()
        passes = len(stand.backbones[0].batches)
        assert passes < 30
        files = list((tmp_path / "embeddings").rglob("*"))
        assert all(path.suffix == ".parquet" for path in files if path.is_file())
        time.sleep(0.05)
        assert len(stand.backbones[0].batches) == passes  # nothing goes on behind the caller's back
        stand.reader.hook = lambda _: None
        receipts = collected(stand, tasks)
        assert all(receipt.error is None for receipt in receipts.values())
        assert len(receipts) == 20


def test_stopping_does_not_wait_for_an_object_store(tmp_path: Path) -> None:
    answered, asked, given_up = threading.Event(), threading.Event(), threading.Event()

    def stall(locator: str) -> None:
        if "/stalled/" in locator:
            asked.set()
            if not answered.wait(_PATIENCE_S):
                given_up.set()

    with Stand(tmp_path, on_read=stall) as stand:
        running = stand.pipeline.run([stand.task(3, remote=True), stand.task(3, name="stalled", remote=True)])
        assert next(running).error is None
        assert asked.wait(_PATIENCE_S)
        running.close()
        stand.pipeline.close()
        assert not given_up.is_set()
        answered.set()


def test_an_error_of_the_tasks_stops_the_run(tmp_path: Path) -> None:
    with Stand(tmp_path, slices=2) as stand:

        def tasks() -> Iterator[SliceTask]:
            yield stand.task(4)
            yield stand.task(4)
            raise RunCancelledError("the run was cancelled")

        with pytest.raises(RunCancelledError):
            list(stand.pipeline.run(tasks()))
        assert len(collected(stand, [stand.task(4)])) == 1


@pytest.mark.parametrize("stage", [EmbedStage.FETCH, EmbedStage.EMBED])
def test_the_statistics_count_the_pictures_and_the_time_of_every_stage(tmp_path: Path, stage: EmbedStage) -> None:
    slept: list[float] = []

    def slow(_: object) -> None:
        time.sleep(0.01)
        slept.append(0.01)

    hooks = {EmbedStage.FETCH: "on_read", EmbedStage.EMBED: "on_embed"}
    with Stand(tmp_path, batch_size=2, **{hooks[stage]: slow}) as stand:
        receipts = collected(stand, [stand.task(8) for _ in range(4)])
        shares = stand.pipeline.shares()
    assert [share.stage for share in shares] == list(EmbedStage)
    assert [share.pictures for share in shares] == [32, 32, 32, 32]
    assert all(0 < share.busy <= 1 for share in shares)
    counted = {share.stage: share for share in shares}
    assert counted[stage].busy_seconds >= sum(slept) * 0.99
    assert counted[EmbedStage.EMBED].slots == 1
    last = max((receipt.stages for receipt in receipts.values()), key=lambda stages: stages[-1].pictures)
    assert [share.pictures for share in last] == [32, 32, 32, 32]


def test_a_batch_that_the_gpu_has_no_memory_for_is_halved_and_the_receipts_tell(tmp_path: Path) -> None:
    """A fake: the model raises what torch raises."""

    def full(pixels: Pixels) -> None:
        if len(pixels) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")

    with Stand(tmp_path, batch_size=8, on_embed=full) as stand:
        receipts = list(stand.pipeline.run([stand.task(8), stand.task(8)]))
        assert [receipt.error for receipt in receipts] == [None, None]
        assert {receipt.most_in_pass for receipt in receipts} == {2}
        assert sum(stand.backbones[0].batches) == 16
        assert max(stand.backbones[0].batches) == 2


def test_a_model_that_the_gpu_has_no_memory_for_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object, *, threads: int = 0) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(MeanBackbone, "warm_up", full)
    with Stand(tmp_path) as stand, pytest.raises(ModelUnavailableError, match="no room for mean"):
        stand.pipeline.warm_up()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_slice_of_eight_thousand_pictures_is_embedded_whole(tmp_path: Path) -> None:
    with Stand(tmp_path) as stand:
        (receipt,) = stand.pipeline.run([stand.task(8_192)])
        assert (receipt.error, receipt.embedded) == (None, 8_192)
        assert sorted(part.rows for part in receipt.receipts) == [0, 8_192, 8_192]  # there are no captions
