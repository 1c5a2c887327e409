"""Parts of a picture: their order, their files, what they drop, and the files that homes of before have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.support.pipelines import LengthEncoder, MeanBackbone, Stand

from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import fingerprint, read_part
from lodestone.errors import ImageError
from lodestone.indexing.parts import registry
from lodestone.indexing.parts.captions import CaptionsPart
from lodestone.indexing.parts.contract import (
    Dropped,
    Made,
    OpenedPicture,
    PartResources,
    PartResult,
    PictureGroup,
    Postponed,
    Reads,
    SlicePart,
    in_order,
    own_schema,
)
from lodestone.indexing.parts.metadata import MetadataPart
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.parts.registry import SliceParts, make_parts
from lodestone.indexing.tasks import SliceReceipt, SliceRow, SliceTask
from lodestone.models.context import ModelContext
from lodestone.sources.trouble import Trouble
from lodestone_schemas.collections import FieldKind

NUMBER = own_schema(pa.field("number", pa.int64()), pa.field("word", pa.string()))


class NumberPart(SlicePart):
    """A part with one row a picture; what it makes of it is up to the test."""

    name = "number"
    version = "1"
    schema = NUMBER
    reads = Reads.ROW
    results: ClassVar[dict[str, PartResult]] = {}
    calls: ClassVar[list[tuple[int, list[str]]]] = []
    ready: ClassVar[list[str]] = []

    def setup(self, context: ModelContext) -> None:
        self.ready.append(self.name)

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        assert self.ready
        self.calls.append((len(pictures.rows), sorted(pictures.others)))
        return [
            self.results.get(row.uri.rpartition("/")[2], Made([{"number": place}])) for place, row in enumerate(pictures.rows)
        ]


class PixelPart(NumberPart):
    reads = Reads.PIXELS
    resources = PartResources(prepared_bytes=8)

    def prepare(self, picture: OpenedPicture) -> Any:
        return Dropped("odd") if int(picture.row.uri[-5]) % 2 else picture.decoded.width


class WidthPart(NumberPart):
    """A part that reads the rows of `meta`."""

    name = "width"
    after = ("meta",)

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        widths = {row["image_id"]: row["width"] for row in pictures.others["meta"].to_pylist()}
        return [Made([{"number": widths[row.image_id]}]) for row in pictures.rows]


@pytest.fixture(autouse=True)
def fresh() -> None:
    NumberPart.results.clear()
    NumberPart.calls.clear()
    NumberPart.ready.clear()


def register(monkeypatch: pytest.MonkeyPatch, *parts: type[SlicePart]) -> None:
    monkeypatch.setattr(registry, "PARTS", {part.name: part for part in parts})


def rows(stand: Stand, receipt: SliceReceipt, part: str) -> list[dict[str, Any]]:
    (written,) = [one for one in receipt.receipts if one.part == part]
    table: list[dict[str, Any]] = read_part(stand.settings.embeddings, written).to_pylist()
    return table


def run(stand: Stand, task: SliceTask) -> SliceReceipt:
    (receipt,) = stand.pipeline.run([task])
    return receipt


def alone(task: SliceTask, *parts: str, done: Sequence[Receipt] = ()) -> SliceTask:
    return replace(task, parts=parts, done=tuple(done))


def test_every_slice_has_the_parts_of_the_table_and_meta_is_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, NumberPart, WidthPart)
    with Stand(tmp_path) as stand:
        receipt = run(stand, stand.task(3))
        parts = SliceParts.of(stand.backbones, LengthEncoder())
        assert [one.part for one in receipt.receipts] == ["mean-1", "number-1", "width-1", "captions-length-1", "meta"]
        assert parts.names() == stand.pipeline.parts == tuple(one.part for one in receipt.receipts)
        assert parts.missing({"meta", "mean-1", "captions-length-1"}) == ("number-1", "width-1")
        assert [row["number"] for row in rows(stand, receipt, "number-1")] == [0, 1, 2]
        assert [row["number"] for row in rows(stand, receipt, "width-1")] == [24] * 3


def test_a_part_alone_runs_no_other_and_opens_no_file_where_it_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, NumberPart)
    with Stand(tmp_path) as stand:
        stand.reader.hook = lambda locator: pytest.fail(f"{locator} was read")
        receipt = run(stand, alone(stand.task(3), "number-1"))
        assert (receipt.error, receipt.embedded) == (None, 0)
        assert [one.part for one in receipt.receipts] == ["number-1"]
        assert stand.backbones[0].batches == []


def test_a_part_that_reads_another_one_finds_its_stored_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, WidthPart)
    with Stand(tmp_path) as stand:
        task = stand.task(3)
        before = run(stand, alone(task, "mean-1", "captions-length-1", "meta"))
        stand.reader.hook = lambda locator: pytest.fail(f"{locator} was read")
        after = run(stand, alone(task, "width-1", done=before.receipts))
        assert [row["number"] for row in rows(stand, after, "width-1")] == [24] * 3
        without = run(stand, alone(stand.task(2), "width-1"))
        assert (without.error, without.receipts) == (None, ()), "the part that it reads is missing, so it is postponed"


def test_parts_stand_behind_those_that_they_read() -> None:
    first, second = NumberPart(), WidthPart()
    meta = MetadataPart()
    assert [part.name for part in in_order([second, first, meta])] == ["number", "meta", "width"]
    first.after = ("width",)  # type: ignore[misc]
    second.after = ("number",)  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"\['number', 'width'\] wait for each other"):
        list(in_order([second, first, meta]))


def test_pixels_are_processed_in_batches_across_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, PixelPart)
    with Stand(tmp_path, batch_size=4) as stand:
        tasks = [alone(stand.task(4), "number-1") for _ in range(2)]
        receipts = list(stand.pipeline.run(tasks))
        assert all(receipt.error is None for receipt in receipts)
        assert sum(count for count, _ in NumberPart.calls) == 4, "dropped pictures are not processed"
        for receipt in receipts:
            assert [(row["error_code"], row["number"] is None) for row in rows(stand, receipt, "number-1")] == [
                (None, False),
                ("odd", True),
                (None, False),
                ("odd", True),
            ]
        assert stand.backbones[0].batches == []


def test_a_model_is_set_up_once_a_worker_and_only_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, PixelPart)
    warmed: list[str] = []
    monkeypatch.setattr(MeanBackbone, "warm_up", lambda self, **_: warmed.append(self.name))
    with Stand(tmp_path) as stand:
        stand.work.settings = replace(stand.settings, eager=False)
        stand.pipeline.warm_up()
        for _ in range(2):
            run(stand, alone(stand.task(2), "number-1"))
        assert (NumberPart.ready, warmed) == (["number"], [])
        for _ in range(2):
            run(stand, stand.task(2))
        assert (NumberPart.ready, warmed) == (["number"], ["mean"])
    with Stand(tmp_path / "eager") as stand:
        stand.pipeline.warm_up()
        assert (NumberPart.ready, warmed) == (["number", "number"], ["mean", "mean"])


def test_rows_tell_what_was_made_dropped_and_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, NumberPart)
    NumberPart.results.update(
        {
            "000000.jpg": Made([{"number": 7, "word": "a"}, {"number": 8}]),
            "000001.jpg": Made([]),
            "000002.jpg": Dropped("small", "it is small"),
        }
    )
    with Stand(tmp_path) as stand:
        task = stand.task(4)
        stand.files[task.rows[3].path] = b"no picture"
        receipt = run(stand, task)
        ids = [row.image_id for row in task.rows]
        found = rows(stand, receipt, "number-1")
    assert [row["image_id"] for row in found] == [ids[0], *ids]
    assert [(row["number"], row["word"]) for row in found] == [(7, "a"), (8, None), (None, None), (None, None), (None, None)]
    assert [row["error_code"] for row in found] == [None, None, None, "small", "not_an_image"]
    assert found[3]["error_message"] == "it is small"
    assert {row["image_id"]: row["hash"] for row in found} == {row.image_id: row.hash for row in task.rows}


def test_progress_goes_on_from_one_part_of_a_slice_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class First(NumberPart):
        def work(self, rows: Sequence[SliceRow]) -> float:
            return len(rows)

        def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
            pictures.tell(len(pictures.rows) / 2)
            return [Made([]) for _ in pictures.rows]

    class Second(First):
        name = "second"

    register(monkeypatch, First, Second)
    reported: list[int] = []
    with Stand(tmp_path) as stand:
        task = alone(stand.task(8), "number-1", "second-1")
        list(stand.pipeline.run([task], lambda _, pictures: reported.append(pictures)))
    assert reported == [2, 6]


def test_a_part_that_is_postponed_is_not_written_and_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, NumberPart)
    NumberPart.results["000001.jpg"] = Postponed("the service is busy")
    with Stand(tmp_path) as stand:
        receipt = run(stand, stand.task(3))
    assert (receipt.error, receipt.postponed) == (None, {"number": "the service is busy"})
    assert [one.part for one in receipt.receipts] == ["mean-1", "captions-length-1", "meta"]


@pytest.mark.parametrize(
    ("code", "written"),
    [
        (Trouble.MISSING.value, False),
        (Trouble.UNREACHABLE.value, False),
        ("file_changed", False),
        ("unreadable", False),
        ("truncated", True),
    ],
)
def test_a_part_waits_for_files_that_are_away_and_drops_those_that_are_broken(
    code: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, PixelPart)

    def refuse(locator: str) -> None:
        if locator.endswith("000000.jpg"):
            raise ImageError("no", hint="", reason=code)

    with Stand(tmp_path, on_read=refuse) as stand:
        receipt = run(stand, alone(stand.task(2), "number-1"))
        assert receipt.error is None
        assert [one.part for one in receipt.receipts] == (["number-1"] if written else [])
        assert receipt.postponed.keys() == (set() if written else {"number"})
        whole = run(stand, stand.task(2))
        assert "number-1" in [one.part for one in whole.receipts], "a picture that is new fails as a whole, with its reason"


def test_what_a_killed_run_left_of_a_part_is_adopted_where_it_has_rows_of_all_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, NumberPart)
    with Stand(tmp_path) as stand:
        task = alone(stand.task(3), "number-1")
        run(stand, task)
        assert run(stand, task).adopted == ("number-1",)
        another = replace(task, rows=(*task.rows, SliceRow(str(uuid4()), "0" * 64, task.rows[0].path, "b/000004.jpg", 1, 1)))
        assert run(stand, another).adopted == ()
        changed = replace(task, rows=(task.rows[0]._replace(hash="0" * 64), *task.rows[1:]))
        assert run(stand, changed).adopted == ()
        NumberPart.results["000001.jpg"] = Dropped("missing")
        run(stand, replace(task, fingerprint="a" * 32))
        assert run(stand, replace(task, fingerprint="a" * 32)).adopted == (), "a picture may be there again"


def test_fields_are_read_from_the_rows_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    part = NumberPart()
    part.fields = (("word", FieldKind.KEYWORD), ("number", FieldKind.INTEGER))  # type: ignore[misc]
    table = pa.Table.from_pylist(
        [
            {"image_id": "a", "hash": "h", "word": "x", "number": None},
            {"image_id": "a", "hash": "h", "word": "y", "number": 5},
            {"image_id": "a", "hash": "h", "word": "x", "number": 6},
            {"image_id": "b", "hash": "h"},
        ],
        NUMBER,
    )
    assert part.payloads(table) == {"a": {"word": ["x", "y"], "number": 5}, "b": {}}


def test_a_column_of_a_part_has_no_name_of_meta() -> None:
    with pytest.raises(ValueError, match=r"\['size', 'uri'\], as those of `meta` are"):
        own_schema(pa.field("uri", pa.string()), pa.field("size", pa.int64()), pa.field("mine", pa.int64()))


def test_a_part_is_refused_that_reads_pixels_and_parts_or_takes_a_field_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Both(PixelPart):
        after = ("meta",)

    class Taken(NumberPart):
        fields = (("taken_at", FieldKind.INTEGER),)

    for part, reason in ((Both, "reads pixels and other parts"), (Taken, "'taken_at', which is taken")):
        register(monkeypatch, part)
        with pytest.raises(ValueError, match=reason):
            registry.further_parts()


def test_files_and_columns_are_those_of_homes_of_before() -> None:
    """Names and columns are written down here: where one differs, pictures that are indexed would be embedded again."""
    outputs, captions, meta = make_parts([MeanBackbone()], LengthEncoder())
    assert isinstance(outputs, OutputsPart)
    assert isinstance(captions, CaptionsPart)
    assert (outputs.file, captions.file, meta.file) == ("mean-1", "captions-length-1", "meta")
    assert outputs.schema.names == ["image_id", "hash", "mean"]
    assert captions.schema.names == ["image_id", "caption_id", "source", "text", "vector"]
    assert meta.schema.names == [
        *("image_id", "uri", "hash", "size", "mtime_ns", "width", "height", "format", "taken_at", "latitude", "longitude"),
        *("camera", "captions", "error_code", "error_message", "utc_offset_minutes", "taken_subsec_ms", "camera_make"),
        *("camera_model", "metadata_version", "taken_precision", "taken_source", "taken_zone", "decoded_share"),
    ]
    row = SliceRow("i", "h", "/p", "p", 1, 1, (("sidecar", "a dog"), ("xmp", "inside")))
    whole = SliceTask("s", "c", "f" * 32, (row,), ("mean-1", "captions-length-1", "meta"))
    assert [part.file_key(whole) for part in (outputs, meta)] == ["f" * 32] * 2
    assert captions.file_key(whole) == fingerprint([("i", "sidecar\ta dog")], "f" * 32)
    texts_alone = replace(whole, parts=("captions-length-1",))
    assert captions.file_key(texts_alone) == fingerprint([("i", "sidecar\ta dog\nxmp\tinside")], f"{'f' * 32}+")
    assert captions.file_key(whole) == "e352a6660340b97610c8ec957bc3306b"  # of the release that had no parts


def test_captions_of_pictures_that_are_away_stay_while_another_part_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, PixelPart)

    def refuse(locator: str) -> None:
        if locator.endswith("000000.jpg"):
            raise ImageError("its disk is away", hint="", reason="missing")

    with Stand(tmp_path, on_read=refuse) as stand:
        task = alone(stand.task(3, captions=1), "number-1", "captions-length-1")
        receipt = run(stand, task)
        assert (receipt.error, [one.part for one in receipt.receipts]) == (None, ["captions-length-1"])
        assert [row["image_id"] for row in rows(stand, receipt, "captions-length-1")] == [row.image_id for row in task.rows]
        assert "its disk is away" in receipt.postponed["number"]
