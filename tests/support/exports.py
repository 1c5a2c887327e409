"""A home with facts worth exporting, and what an export of it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.home import open_runtime
from tests.support.pictures import write_photo

from lodestone.catalog.records import TagRecord
from lodestone.home.runtime import Runtime
from lodestone.indexing.parts import registry
from lodestone.indexing.parts.contract import Made, PartResult, PictureGroup, Reads, SlicePart, own_schema
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.collections import FieldKind

SLICE = 4


def make_home(folder: Path) -> None:
    """Index twelve photos of two folders, in three slices: every third described, one a PNG, two tagged."""
    photos = folder / "photos"
    for number in range(12):
        place = photos / ("summer" if number < 5 else "winter")
        path = write_photo(place / f"{number:02}.{'png' if number == 7 else 'jpg'}", seed=number)
        if number % 3 == 0:
            path.with_suffix(".txt").write_text(f"photo number {number}", encoding="utf-8")
    with open_runtime(folder, slice_size=SLICE) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        ids = {
            image.uri: image.image_id
            for root in runtime.catalog.roots()
            for image in runtime.catalog.images_of_root(root.root_id)
        }
        runtime.catalog.add_tags([TagRecord.new(ids[uri], "keep", "user") for uri in ("summer/01.jpg", "winter/08.jpg")])


def files_of(folder: Path) -> dict[str, str]:
    """Name -> checksum of everything in a folder but locks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".export.lock"
    }


class NumbersPart(SlicePart):
    """A part with a field: even pictures are red, multiples of four blue too, others green."""

    name = "colours"
    version = "1"
    reads = Reads.ROW
    schema = own_schema(pa.field("colour", pa.string()))
    fields = (("colour", FieldKind.KEYWORD),)

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        return [Made([{"colour": colour} for colour in colours_of(row.uri)]) for row in pictures.rows]


def colours_of(uri: str) -> list[str]:
    number = int(Path(uri).stem)
    if number % 2:
        return ["green"]
    return ["red", "blue"] if number % 4 == 0 else ["red"]


def write_colours(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the part to the registry, and make it for all pictures of a home."""
    monkeypatch.setattr(registry, "PARTS", {"colours": NumbersPart})
    (root,) = runtime.catalog.roots()
    index_paths(runtime, IndexRequest((Path(root.path),)))
