"""Tests of the recipe for a part: the page's own code, as it stands, adds a part to an indexed home, and filters by it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from tests.support.cli import run_here
from tests.support.home import image_ids, settings_for
from tests.support.in_process import app_of, client_of, opened_services

from lodestone.backup.rebuild import rebuild_catalog
from lodestone.config.settings import Settings
from lodestone.embeddings.slices import read_part
from lodestone.home.runtime import Runtime
from lodestone.indexing.parts import registry
from lodestone.indexing.parts.contract import Made, PartResult, PictureGroup, Postponed, Reads, SlicePart, own_schema
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.run.corpus_changes import compact_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.slices import work
from lodestone.indexing.sync.collections import make_targets
from lodestone.indexing.sync.repair import examine_home
from lodestone.services import pictures
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


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Adds the page's part to the registry, and returns its class."""

    def add() -> Any:
        (_, _, part), (_, _, row) = steps()
        module = ModuleType("lodestone.indexing.parts.colours")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(part, "encoders.py", "exec"), module.__dict__)
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
    with Runtime.open(settings, purpose="a test") as runtime:
        told = [(finding.what, finding.remedy) for finding in examine_home(runtime).findings]
    assert told == [("11 embedded pictures of the corpus 'default' have no part 'colours' yet", "resume")]
    with Runtime.open(settings, purpose="a test") as runtime:
        report = index_paths(runtime, IndexRequest((), resume=""))
        assert examine_home(runtime).ok
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
    reddish = Filter(must=(MatchAny("colour", ("red",)),))

    assert (later.counts["embedded"], later.counts.get("added", 0)) == (1, 0), "a new picture gets the part on the way"
    with Runtime.open(settings, purpose="a test") as runtime:
        for target in make_targets(runtime):
            assert ("colour", FieldKind.KEYWORD) in target.spec(runtime.settings.store, runtime.profile).fields
        for space in runtime.projections():
            assert len(found(runtime, space, None)) == 12
            assert found(runtime, space, reddish) == {"red0.png", "red1.png", "later.png"}


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


def asked_of_the_page() -> dict[str, Any]:
    """The request of the section about readers."""
    section = PAGE.read_text("utf-8").partition("## 3.")[2]
    return dict(json.loads(section.partition("```json\n")[2].partition("```")[0]))


async def over_http(settings: Settings) -> dict[str, Any]:
    """What is answered about the fields of the parts `colours` and `area`, in names of files."""
    answers: dict[str, Any] = {}
    async with opened_services(settings) as services, client_of(app_of(services, settings)) as http:
        names = names_of(services.session.runtime)
        ids = {name: image_id for image_id, name in names.items()}

        def of(body: dict[str, Any]) -> set[str]:
            return {names[hit["image_id"]] for hit in body["hits"]}

        async def search(**request: Any) -> tuple[set[str], dict[str, Any]]:
            body = (await http.post("/v1/search", json={"limit": 100, **request})).json()
            return of(body), body

        answers["page"], body = await search(**asked_of_the_page())
        record = (await http.get(f"/v1/queries/{body['query_id']}")).json()
        answers["recorded"] = record["request"]["match"]
        replayed = (await http.post(f"/v1/queries/{body['query_id']}/replay", params={"fresh": "true"})).json()
        answers["replayed"] = {names[image_id] for image_id in replayed["ids"]}
        answers["one of two"], _ = await search(query="a wall", filters={"where": {"colour": ["red", "blue"]}})
        answers["both"], _ = await search(query="a wall", filters={"where": {"colour": ["red"], "pixels": ["3100.."]}})
        answers["numbers"], _ = await search(query="a wall", filters={"where": {"pixels": [64 * 48, "3121..4000"]}})
        await http.post("/v1/tags", json={"image_ids": [ids["red0.png"]], "text": "a wall"})
        for _ in range(600):  # until the tag is where searches look for it
            _, body = await search(query="a wall", explain=True)
            if any(one["space"] == "tags" for hit in body["hits"] for one in hit["contributions"]):
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("the tag was not delivered")
        answers["negated"], body = await search(query="a wall", match={"none": [{"filters": {"where": {"colour": ["red"]}}}]})
        answers["warned"] = [one for one in body["warnings"] if "colour" in one]
        _, body = await search(query="a wall")
        answers["unwarned"] = [one for one in body["warnings"] if "tags" in one]
        similar = await http.get(
            f"/v1/images/{ids['red0.png']}/similar", params={"where": ["colour=red", "colour=black"], "limit": 50}
        )
        answers["similar"] = of(similar.json())
        answers["simple"] = of((await http.get("/v1/search", params={"q": "a wall", "where": "colour=green"})).json())
        first = (
            await http.post("/v1/images/browse", json={"filters": {"where": {"colour": ["white", "red"]}}, "limit": 3})
        ).json()
        rest = {"filters": {"where": ["colour=white", "colour=red"]}, "limit": 3, "cursor": first["next_cursor"]}
        second = (await http.post("/v1/images/browse", json=rest)).json()
        answers["browsed"] = [[names[one["image_id"]] for one in page["images"]] for page in (first, second)]
        with pytest.MonkeyPatch.context() as few:
            few.setattr(pictures, "_LOOKED_AT", 2)
            few.setattr(pictures, "_LOOKS", 2)
            page: dict[str, Any] = {"filters": {"where": ["colour=white", "colour=red"]}, "limit": 3}
            answers["looked for"] = []
            while page.get("cursor", "") is not None:
                listed = (await http.post("/v1/images/browse", json=page)).json()
                answers["looked for"].append([names[one["image_id"]] for one in listed["images"]])
                page["cursor"] = listed["next_cursor"]
        answers["last"] = second["next_cursor"]
        answers["refused"] = [
            (refused.status_code, refused.json()["detail"], refused.json().get("hint"))
            for where in ({"color": ["red"]}, {"colour": [3]}, {"pixels": ["many"]}, {"pixels": ["9..3"]})
            for refused in [await http.post("/v1/search", json={"query": "a wall", "filters": {"where": where}})]
        ]
        for path in ("/v1/search?q=a&where=colour", f"/v1/search?q=a&where=colour={'x' * 1_001}"):
            answers["refused"].append((await http.get(path)).status_code)
        answers["refused"].append(
            (await http.post("/v1/images/browse", json={"filters": {"where": ["color=red"]}})).status_code
        )
    return answers


def test_the_fields_of_parts_are_filtered_by_over_http_and_on_the_command_line_without_another_file(
    tmp_path: Path, settings: Settings, added: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_coloured(tmp_path / "photos")
    added()
    monkeypatch.setattr(registry, "PARTS", {**registry.PARTS, "area": AreaPart})
    indexed(settings, tmp_path / "photos")
    every = {f"{colour}{number}.png" for colour in COLOURS for number in range(2)} | {"tiny.png"}
    reddish = {"red0.png", "red1.png"}

    answers = asyncio.run(over_http(settings))
    assert answers["page"] == {*reddish, "white0.png", "white1.png"} and answers["replayed"] == answers["page"]
    assert answers["recorded"] == asked_of_the_page()["match"]
    assert answers["one of two"] == {*reddish, "blue0.png", "blue1.png"}
    assert answers["both"] == {"red1.png"}
    assert answers["numbers"] == every - {"tiny.png"} - {f"{colour}1.png" for colour in COLOURS}
    assert answers["negated"] == every - reddish, "a tag's point has no colour, and would meet what is negated"
    assert answers["warned"] == ["tags are left out: they do not know the field 'colour'"] and answers["unwarned"] == []
    assert answers["similar"] == {"red1.png", "black0.png", "black1.png"}
    assert answers["simple"] == {"green0.png", "green1.png"}
    assert [len(page) for page in answers["browsed"]] == [3, 1] and answers["last"] is None
    browsed = [name for page in answers["browsed"] for name in page]
    assert set(browsed) == {*reddish, "white0.png", "white1.png"}
    assert [name for page in answers["looked for"] for name in page] == browsed
    assert len(answers["looked for"]) >= 3, "at most four of eleven pictures are looked at for a page"
    assert answers["refused"] == [
        (404, "unknown field 'color'", "known: camera, colour, during, has, pixels, place, shape"),
        (422, "the field 'colour' holds words, and 3 is a number", 'give it as a text: "3"'),
        (422, *wrong("many", "it holds numbers")),
        (422, *wrong("9..3", "no number lies in the range")),
        422,
        422,
        404,
    ]

    def command(*arguments: str) -> Any:
        return run_here("search", "a wall", "-n", "50", *arguments, home=settings.home)

    def shown(*arguments: str) -> set[str]:
        done = command(*arguments, "-o", "json")
        assert done.code == 0, done.err
        return {Path(hit["uri"]).name for hit in done.json["hits"]}

    assert shown("--where", "colour=red") == reddish
    assert shown("--where", "colour=red", "--not", "pixels=..3100") == {"red1.png"}
    assert "sets: colour red, and not pixels ..3100" in run_here("explain", home=settings.home).out
    refused = command("--where", "color=red")
    assert refused.code == 2 and "unknown restriction 'color'" in refused.err
    assert "colour" in refused.err and "tagged" in refused.err


def wrong(value: str, why: str) -> tuple[str, str]:
    either = "a whole number, 3000, or a range, 3000..4000"
    hint = f"{either}; the first number is included, the last is not, and either may be left out"
    return f"the field 'pixels' has no value {value!r}: {why}", hint


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
