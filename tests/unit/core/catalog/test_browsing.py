"""Pictures are listed by the day that the clock showed where they were taken, within folders, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.pictures.dated import DatedPlace, PictureFilter, local_seconds
from lodestone.catalog.records import ImageState, Root
from lodestone_schemas.dates import seconds_of

DAY = 86_400
SHOWN = {ImageState.PENDING}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


@pytest.fixture
def root(catalog: Catalog) -> Root:
    """Pictures at 10:00 UTC of five days; the clock of the third one was 12 hours behind, and two have no date."""
    _, made = make_root(catalog)
    catalog.add_images(
        [
            *(picture(made, f"2024/{day}.jpg", taken_at=day * DAY + 36_000) for day in (1, 2, 4)),
            picture(made, "2024/summer/3.jpg", taken_at=3 * DAY + 36_000, utc_offset_minutes=-12 * 60),
            picture(made, "2024-old/5.jpg", taken_at=5 * DAY + 36_000, utc_offset_minutes=60),
            picture(made, "2024.jpg"),
            picture(made, "2024/none.jpg"),
        ]
    )
    return made


def listed(catalog: Catalog, which: PictureFilter, limit: int = 10) -> list[str]:
    return [image.uri for image in catalog.dated_page(which, limit, states=SHOWN)]


def test_pictures_are_newest_first_on_their_own_clocks_and_those_without_a_date_last(catalog: Catalog, root: Root) -> None:
    dated = listed(catalog, PictureFilter())
    assert dated[:5] == ["2024-old/5.jpg", "2024/4.jpg", "2024/summer/3.jpg", "2024/2.jpg", "2024/1.jpg"]
    assert set(dated[5:]) == {"2024.jpg", "2024/none.jpg"}


def test_a_clock_behind_utc_moves_a_picture_behind_those_of_the_same_moment(catalog: Catalog, root: Root) -> None:
    catalog.add_images([picture(root, "late.jpg", taken_at=2 * DAY + 36_000 + 1, utc_offset_minutes=-1)])
    dated = listed(catalog, PictureFilter())
    assert dated.index("late.jpg") == dated.index("2024/2.jpg") + 1


def test_pages_follow_each_other_without_gaps_or_doubles(catalog: Catalog, root: Root) -> None:
    catalog.add_images([picture(root, f"same/{at}.jpg", taken_at=2 * DAY + 36_000) for at in range(4)])
    whole, paged = listed(catalog, PictureFilter(), 100), list[str]()
    after = None
    while page := catalog.dated_page(PictureFilter(), 2, after=after, states=SHOWN):
        paged += [image.uri for image in page]
        after = DatedPlace(local_seconds(page[-1]), page[-1].image_id)
    assert paged == whole
    assert len(whole) == 11


def test_a_folder_holds_what_lies_below_it_and_nothing_that_begins_like_it(catalog: Catalog, root: Root) -> None:
    inside = listed(catalog, PictureFilter(folders=["2024"]))
    assert inside == ["2024/4.jpg", "2024/summer/3.jpg", "2024/2.jpg", "2024/1.jpg", "2024/none.jpg"]
    assert listed(catalog, PictureFilter(folders=["2024/summer", "2024-old"])) == ["2024-old/5.jpg", "2024/summer/3.jpg"]


@pytest.mark.parametrize(
    ("which", "days"),
    [
        (PictureFilter(local_from=2 * DAY, local_to=3 * DAY), ["2024/summer/3.jpg", "2024/2.jpg"]),
        (PictureFilter(utc_from=3 * DAY, utc_to=4 * DAY), ["2024/summer/3.jpg"]),
        (PictureFilter(local_from=2 * DAY + 36_000, local_to=4 * DAY), ["2024/summer/3.jpg", "2024/2.jpg"]),
        (PictureFilter(local_from=2 * DAY + 36_001, local_to=4 * DAY), ["2024/summer/3.jpg"]),
        (PictureFilter(local_to=DAY + 36_000), []),
        (PictureFilter(local_to=DAY + 36_001), ["2024/1.jpg"]),
        (PictureFilter(utc_from=5 * DAY + 36_000), ["2024-old/5.jpg"]),
        (PictureFilter(utc_from=5 * DAY + 36_001), []),
    ],
)
def test_bounds_are_on_the_clock_that_is_named_and_the_last_one_does_not_count(
    catalog: Catalog, root: Root, which: PictureFilter, days: list[str]
) -> None:
    assert listed(catalog, which) == days


def test_corpora_roots_and_states_restrict(catalog: Catalog, root: Root) -> None:
    other_corpus, other = make_root(catalog, "work", "/work")
    catalog.add_images([picture(other, "a.jpg"), picture(other, "b.jpg", state=ImageState.GONE)])
    assert listed(catalog, PictureFilter(corpora=[other_corpus.corpus_id])) == ["a.jpg"]
    assert listed(catalog, PictureFilter(roots=[other.root_id])) == ["a.jpg"]
    assert listed(catalog, PictureFilter(without_roots=[root.root_id])) == ["a.jpg"]
    assert listed(catalog, PictureFilter(corpora=[])) == []


def test_texts_of_tags_are_counted_by_pictures_the_most_first(catalog: Catalog, root: Root) -> None:
    from lodestone.tags.service import IMPLICIT, TagService

    service = TagService(catalog)
    ids = [image.image_id for image in catalog.dated_page(PictureFilter(), 3, states=SHOWN)]
    service.add(ids[:2], "boats")
    service.add(ids[:2], "boats", source=IMPLICIT)
    service.add(ids, "dogs")
    service.add(ids[:1], "ants", source=IMPLICIT)
    told = [(one.text, one.pictures) for one in service.texts().texts]
    assert told == [("dogs", 3), ("boats", 2), ("ants", 1)]
    assert [one.text for one in service.texts(source=IMPLICIT).texts] == ["boats", "ants"]
    assert [one.text for one in service.texts(limit=1).texts] == ["dogs"]
    assert service.texts(corpora=["elsewhere"]).texts == []


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("1993-01-01T00:00:00", []),
        ("1993-06-15T00:00:00", []),
        ("1993-06-16T00:00:00", ["day.jpg"]),
        ("1993-06-30T23:59:59", ["day.jpg"]),
        ("1993-07-01T00:00:00", ["day.jpg", "month.jpg"]),
        ("1993-12-31T00:00:00", ["day.jpg", "month.jpg"]),
        ("1994-01-01T00:00:00", ["day.jpg", "month.jpg", "year.jpg"]),
    ],
)
def test_a_partial_date_is_listed_only_where_its_whole_period_is_over(catalog: Catalog, end: str, expected: list[str]) -> None:
    _, root = make_root(catalog)
    began = {"year": "1993-01-01", "month": "1993-06-01", "day": "1993-06-15"}
    catalog.add_images(
        [
            picture(root, f"{part}.jpg", taken_at=int(seconds_of(datetime.fromisoformat(start))), taken_precision=part)
            for part, start in began.items()
        ]
    )

    assert sorted(listed(catalog, PictureFilter(period_to=seconds_of(datetime.fromisoformat(end))))) == expected
