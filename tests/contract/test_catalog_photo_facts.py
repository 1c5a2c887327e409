"""Facts from photos' headers: which pictures still lack them, and what writing them leaves alone, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from tests.support.catalogs import embed_slice, make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState

FACTS = {
    "latitude": 47.5,
    "longitude": -8.25,
    "utc_offset_minutes": -570,
    "taken_subsec_ms": 42,
    "camera_make": "Lödecam",
    "camera_model": "One 'II'",
}


def by_id(catalog: Catalog, image: ImageRecord) -> ImageRecord:
    return catalog.images([image.image_id])[image.image_id]


def test_facts_come_back_as_they_were_added(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [picture(root, "a.jpg", **FACTS, metadata_version=1), picture(root, "b.jpg")]
    catalog.add_images(images)
    assert list(catalog.images_of_root(root.root_id)) == images


def test_active_pictures_that_were_not_read_are_listed_by_uri_page_by_page(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    _, other = make_root(catalog, path="/pictures/other")
    states = [ImageState.ACTIVE] * 9 + [ImageState.PENDING, ImageState.FAILED, ImageState.GONE]
    images = [picture(root, f"{number:02}.jpg", state=state) for number, state in enumerate(states)]
    images[3], images[4] = replace(images[3], metadata_version=1), replace(images[4], metadata_version=-1)
    catalog.add_images([*images, picture(other, "00.jpg", state=ImageState.ACTIVE)])
    unread = []
    for image in catalog.images_with_unread_metadata(root.root_id, at_once=2):
        catalog.set_photo_facts([replace(image, metadata_version=1)])  # as a run does: it writes while it reads
        unread.append(image)
    assert unread == [*images[:3], *images[5:9]]
    assert list(catalog.images_with_unread_metadata(root.root_id)) == []


def test_the_list_is_read_from_its_own_index(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [
        picture(root, f"{number}.jpg", state=ImageState.ACTIVE, metadata_version=int(number > 0)) for number in range(500)
    ]
    catalog.add_images(images)
    query = "SELECT * FROM images WHERE root_id = :root AND metadata_version = 0 AND state = 'active' ORDER BY uri LIMIT 2000"
    on_postgres = catalog.url.startswith("postgresql")
    with catalog._engine.connect() as connection:
        if on_postgres:
            connection.execute(text("ANALYZE images"))
        explain = "EXPLAIN" if on_postgres else "EXPLAIN QUERY PLAN"
        plan = "\n".join(str(row) for row in connection.execute(text(f"{explain} {query}"), {"root": root.root_id}))
    assert "ix_images_unread_metadata" in plan


def test_writing_facts_leaves_everything_else_alone(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    catalog.add_images([picture(root, f"{number}.jpg", taken_at=5) for number in range(2)])
    record = embed_slice(catalog, list(catalog.images_of_root(root.root_id)))
    catalog.begin_loading("c", [record.slice_id])
    catalog.mark_loaded("c", [record.slice_id])
    before = list(catalog.images_of_root(root.root_id))
    facts = {name: value for name, value in FACTS.items() if name != "utc_offset_minutes"}
    catalog.set_photo_facts([replace(before[0], **facts, metadata_version=1, uri="elsewhere.jpg", width=1)])
    assert list(catalog.images_of_root(root.root_id)) == [replace(before[0], **facts, metadata_version=1), before[1]]
    assert not list(catalog.tombstones("c"))


@pytest.mark.parametrize(
    ("before", "after", "written_again"),
    [
        ({"taken_at": 5}, {"taken_at": 5, "taken_source": "exif"}, False),
        ({"taken_at": 5}, {"taken_at": 6}, True),
        ({"taken_at": 5}, {"taken_at": None}, True),
        ({"taken_at": 5}, {"taken_at": 5, "utc_offset_minutes": 60}, True),
        ({"taken_at": 5}, {"taken_at": 5, "taken_precision": "year"}, True),
        # An older version left no source, and wrote the time in UTC into the stores.
        ({"taken_at": 5, "utc_offset_minutes": 60}, {}, True),
        ({"taken_at": 5, "utc_offset_minutes": 0}, {}, False),
        ({"taken_at": 5, "utc_offset_minutes": 60, "taken_source": "exif"}, {"taken_zone": "stated"}, False),
        ({"taken_source": "exif"}, {"camera_make": "Lodecam"}, True),
        ({"taken_source": "exif"}, {"camera_model": "L1"}, True),
        ({"taken_source": "exif"}, {"latitude": 1.0}, True),
        ({"taken_source": "exif"}, {"longitude": 1.0}, True),
    ],
)
def test_points_are_written_again_where_they_hold_another_time_place_or_camera(
    catalog: Catalog, before: dict[str, Any], after: dict[str, Any], *, written_again: bool
) -> None:
    _, root = make_root(catalog)
    catalog.add_images([picture(root, "a.jpg", **before), picture(root, "b.jpg")])
    images = list(catalog.images_of_root(root.root_id))
    record = embed_slice(catalog, images)
    catalog.set_captions({image.image_id: [CaptionRecord(image.image_id, "sidecar", "x")] for image in images})
    catalog.tags_delivered(catalog.tag_outbox(9))
    catalog.begin_loading("c", [record.slice_id])
    catalog.mark_loaded("c", [record.slice_id])
    first = next(image for image in catalog.images_of_root(root.root_id) if image.uri == "a.jpg")
    catalog.set_photo_facts([replace(first, **after, metadata_version=2)])
    assert (catalog.count_unloaded("c", parts=("meta",))[0] == 1) is written_again
    assert [change.image_id for change in catalog.tag_outbox(9)] == [first.image_id]  # for its camera, if for nothing else


def test_facts_of_a_content_that_is_gone_are_not_written(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    image = picture(root, "a.jpg", state=ImageState.ACTIVE)
    catalog.add_images([image])
    read = replace(image, **FACTS, metadata_version=1)
    catalog.update_images([replace(image, hash="0" * 64)])
    catalog.set_photo_facts([read, replace(picture(root, "never.jpg"), metadata_version=1)])
    assert by_id(catalog, image) == replace(image, hash="0" * 64)
    catalog.set_photo_facts([])
