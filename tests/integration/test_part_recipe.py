"""Tests of the recipe for a part: the page's own code, as it stands, adds a part to an indexed home, and filters by it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from tests.support.home import image_ids, settings_for

from lodestone.backup.rebuild import rebuild_catalog
from lodestone.config.settings import Settings
from lodestone.embeddings.slices import read_part
from lodestone.home.runtime import Runtime
from lodestone.indexing.parts import registry
from lodestone.indexing.parts.contract import Made, PartResult, PictureGroup, Postponed, Reads, SlicePart, own_schema
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.run.compact import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.slices import work
from lodestone.indexing.sync.collections import make_targets
from lodestone.store.base import Between, Filter, MatchAny, VectorQuery
from lodestone.text_encoders.minilm import MiniLM
from lodestone_schemas.collections import FieldKind

PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "add-a-part.md"
FILE = "colours-1"
COLOURS = ("red", "green", "blue", "white", "black")
_STEP = re.compile(r"^## \d\. .*?, in .*?`([^`]+)`$.*?```(\w+)\n(.*?)```", re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, str, str]]:
    """File, language and code of every step."""
    return _STEP.findall(PAGE.read_text("utf-8"))


def code_of_the_filter() -> str:
    """The block of the section about readers."""
    section = PAGE.read_text("utf-8").partition("## 3.")[2]
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Adds the page's part to the registry, and returns its class."""

    def add() -> Any:
        (_, _, part), (_, _, row) = steps()
        module = ModuleType("lodestone.indexing.parts.colours")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(part, "colours.py", "exec"), module.__dict__)
        parts = dict(registry.PARTS)
        exec(row, {"PARTS": parts, "ColoursPart": module.ColoursPart})
        monkeypatch.setattr(registry, "PARTS", parts)
        return module.ColoursPart

    return add


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every image model and the text encoder fail when it is loaded."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a model of another part was loaded")

    monkeypatch.setattr(OutputsPart, "setup", refuse)
    monkeypatch.setattr(MiniLM, "warm_up", refuse)


def write_coloured(folder: Path, *, of_each: int = 2) -> None:
    """Write pictures of one colour each, and one that is too small for a colour."""
    folder.mkdir()
    for name, shade in zip(COLOURS, [(200, 40, 40), (50, 150, 60), (50, 90, 200), (235, 235, 235), (25, 25, 25)], strict=True):
        for number in range(of_each):
            Image.new("RGB", (64 + number, 48), shade).save(folder / f"{name}{number}.png")
    Image.new("RGB", (8, 8), (200, 40, 40)).save(folder / "tiny.png")


def indexed(settings: Settings, folder: Path) -> IndexReport:
    with Runtime.open(settings, purpose="a test") as runtime:
        return index_paths(runtime, IndexRequest((folder,)))


def names_of(runtime: Runtime) -> dict[str, str]:
    """Image id -> name of the file."""
    return {image_id: uri.rpartition("/")[2] for uri, image_id in image_ids(runtime).items()}


def rows_of(runtime: Runtime) -> dict[str, list[dict[str, Any]]]:
    """Rows of the part by the pictures' names."""
    names = names_of(runtime)
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in runtime.catalog.slices():
        receipt = runtime.catalog.receipts(record.slice_id)[FILE]
        for row in read_part(runtime.embeddings, receipt, verify=True).to_pylist():
            rows.setdefault(names.get(row["image_id"], ""), []).append(row)
    return rows


def files_of(runtime: Runtime) -> dict[str, int]:
    """Path -> time of the last change of all stored files but those of the part."""
    stored = runtime.home.embeddings.rglob("*.parquet")
    return {str(path): path.stat().st_mtime_ns for path in stored if f".{FILE}." not in path.name}


def found(runtime: Runtime, space: str, wanted: Filter | None) -> set[str]:
    """Names of the pictures that a space finds under a filter."""
    names = names_of(runtime)
    projection = runtime.projections()[space]
    some = runtime.store.scroll(projection.collection)
    vector = next(iter(some)).vectors[0]
    (neighbours,) = runtime.store.search(projection.collection, [VectorQuery(vector, limit=100, filter=wanted)])
    return {names[image_id] for image_id in neighbours.ids}


def test_a_part_touches_at_most_three_files_of_the_product() -> None:
    assert {file for file, _, _ in steps()} == {
        "core/lodestone/indexing/parts/colours.py",
        "core/lodestone/indexing/parts/registry.py",
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_for(tmp_path, slice_size=4)


def test_the_part_alone_is_made_of_pictures_that_were_indexed_before(
    tmp_path: Path, settings: Settings, added: Callable[[], Any], request: pytest.FixtureRequest
) -> None:
    write_coloured(tmp_path / "photos")
    indexed(settings, tmp_path / "photos")
    with Runtime.open(settings, purpose="a test") as runtime:
        before = files_of(runtime)

    added()
    request.getfixturevalue("no_models")
    report = indexed(settings, tmp_path / "photos")
    again = indexed(settings, tmp_path / "photos")

    assert (report.counts.get("embedded", 0), report.counts["added"]) == (0, 11)
    assert "added" not in again.counts, "what is made is not made again"
    with Runtime.open(settings, purpose="a test") as runtime:
        assert files_of(runtime) == before
        rows = rows_of(runtime)
        assert {name: [row["colour"] for row in own] for name, own in rows.items() if name != "tiny.png"} == {
            f"{colour}{number}.png": [colour] for colour in COLOURS for number in range(2)
        }
        assert [(row["error_code"], row["colour"]) for row in rows["tiny.png"]] == [("too_small", None)]


def test_a_part_that_is_postponed_is_told_and_made_by_the_next_run(
    tmp_path: Path, settings: Settings, added: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_coloured(tmp_path / "photos")
    part = added()
    with monkeypatch.context() as busy:
        busy.setattr(part, "process", lambda _, pictures: [Postponed("the service is busy")] * len(pictures.rows))
        first = indexed(settings, tmp_path / "photos")
    second = indexed(settings, tmp_path / "photos")

    assert (first.images, first.counts["embedded"]) == (11, 11)
    assert first.warnings == ("the part 'colours' was not made of 3 slices (the service is busy); the next run tries again",)
    assert (second.counts.get("embedded", 0), second.counts["added"], second.warnings) == (0, 11, ())


def test_pictures_are_filtered_by_the_field_of_the_part_whether_they_were_indexed_before_or_after(
    tmp_path: Path, settings: Settings, added: Callable[[], Any]
) -> None:
    write_coloured(tmp_path / "photos")
    indexed(settings, tmp_path / "photos")
    added()
    indexed(settings, tmp_path / "photos")
    Image.new("RGB", (80, 80), (200, 40, 40)).save(tmp_path / "photos" / "later.png")
    later = indexed(settings, tmp_path / "photos")
    names: dict[str, Any] = {"Filter": Filter, "MatchAny": MatchAny}
    exec(code_of_the_filter(), names)

    assert (later.counts["embedded"], later.counts.get("added", 0)) == (1, 0), "a new picture gets the part on the way"
    with Runtime.open(settings, purpose="a test") as runtime:
        for target in make_targets(runtime):
            assert ("colour", FieldKind.KEYWORD) in target.spec(runtime.settings.store, runtime.profile).fields
        for space in runtime.projections():
            assert len(found(runtime, space, None)) == 12
            assert found(runtime, space, names["reddish"]) == {"red0.png", "red1.png", "later.png"}


def test_compaction_and_a_rebuilt_catalog_keep_the_part(tmp_path: Path, settings: Settings, added: Callable[[], Any]) -> None:
    write_coloured(tmp_path / "photos")
    added()
    indexed(settings, tmp_path / "photos")
    for name in ("red0", "green0", "blue0", "white0", "black0"):
        (tmp_path / "photos" / f"{name}.png").unlink()
    indexed(settings, tmp_path / "photos")
    with Runtime.open(settings, purpose="a test") as runtime:
        before = {name: rows for name, rows in rows_of(runtime).items() if name in names_of(runtime).values()}
        assert compact_corpus(runtime, "default").written == 2
        assert {name: rows for name, rows in rows_of(runtime).items() if name in names_of(runtime).values()} == before
    (tmp_path / "home" / "catalog.sqlite").unlink()
    with Runtime.open(settings, purpose="a test") as runtime:
        rebuild_catalog(runtime.home, runtime.embeddings)
    report = indexed(settings, tmp_path / "photos")

    assert (report.counts.get("embedded", 0), report.counts.get("added", 0)) == (0, 0)
    with Runtime.open(settings, purpose="a test") as runtime:
        found_red = found(runtime, next(iter(runtime.projections())), Filter(must=(MatchAny("colour", ("red",)),)))
    assert found_red == {"red1.png"}


class AreaPart(SlicePart):
    """A part that reads the stored rows of another one."""

    name = "area"
    version = "1"
    reads = Reads.ROW
    after = ("meta",)
    schema = own_schema(pa.field("pixels", pa.int64()))
    fields = (("pixels", FieldKind.INTEGER),)

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        pixels = {row["image_id"]: row["width"] * row["height"] for row in pictures.others["meta"].to_pylist()}
        return [Made([{"pixels": pixels[row.image_id]}]) for row in pictures.rows]


def test_a_part_that_reads_stored_rows_is_added_without_a_picture_being_opened(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    write_coloured(tmp_path / "photos")
    indexed(settings, tmp_path / "photos")
    monkeypatch.setattr(registry, "PARTS", {"area": AreaPart})
    request.getfixturevalue("no_models")
    monkeypatch.setattr(work, "read_together", lambda *_: pytest.fail("a picture was opened"))
    report = indexed(settings, tmp_path / "photos")

    assert (report.counts["added"], report.warnings) == (11, ())
    with Runtime.open(settings, purpose="a test") as runtime:
        space = next(iter(runtime.projections()))
        assert found(runtime, space, Filter(must=(Between("pixels", gte=65 * 48),))) == {f"{colour}1.png" for colour in COLOURS}
