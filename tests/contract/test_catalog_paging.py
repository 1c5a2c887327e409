"""Lists of every database go on behind a row where moments are equal, names are strange, and rows come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Failure, ImageState, Run, RunState, TagRecord
from lodestone.catalog.use_records import QueryRecord

NOON = datetime(2026, 1, 2, 12, 0, 0, 123_456, tzinfo=UTC)
NAMES = ["Z", "a", "a b", "café", "cafe\u0301", "ö", "ключ", "照片", "🐈"]
SHOWN = (ImageState.ACTIVE, ImageState.PENDING)
_T = TypeVar("_T")


def walked(page: Callable[[_T | None], Sequence[_T]]) -> list[_T]:
    """All rows, each page behind the last row of the one before."""
    found: list[_T] = []
    while rows := page(found[-1] if found else None):
        found += rows
    return found


def test_corpora_go_on_behind_a_name(catalog: Catalog) -> None:
    for name in NAMES:
        catalog.ensure_corpus(name)
    found = walked(lambda last: catalog.corpora(0, 2, after=None if last is None else last.name))
    assert [one.name for one in found] == sorted(NAMES)  # by code point, whatever the database's locale


def test_queries_of_one_moment_are_neither_missed_nor_repeated(catalog: Catalog) -> None:
    for place in range(7):
        moment = NOON - timedelta(seconds=place // 3)
        catalog.add_query(QueryRecord(f"q{place}", moment, "words", "boat", None, {}, b"trace"), keep=100)

    def page(last: QueryRecord | None) -> list[QueryRecord]:
        return catalog.queries(0, 2, after=None if last is None else (last.created_at, last.query_id))

    assert [one.query_id for one in walked(page)] == ["q2", "q1", "q0", "q5", "q4", "q3", "q6"]


def test_tags_of_one_moment_are_neither_missed_nor_repeated(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    images = [picture(root, f"{place}.jpg") for place in range(7)]
    catalog.add_images(images)
    tags = [TagRecord.new(image.image_id, "boat", "user") for image in images]
    catalog.add_tags([replace(tag, created_at=NOON - timedelta(hours=place // 3)) for place, tag in enumerate(tags)])

    def page(last: TagRecord | None) -> list[TagRecord]:
        return catalog.list_tags(limit=2, after=None if last is None else (last.created_at, last.tag_id))

    found = walked(page)
    assert found == catalog.list_tags()
    assert len(found) == 7


def test_runs_go_on_though_newer_ones_start_and_are_chosen_by_corpus_kind_and_state(catalog: Catalog) -> None:
    corpus, _ = make_root(catalog)
    runs = [catalog.start_run("index" if place % 2 else "train-bridge", corpus.corpus_id) for place in range(5)]
    alone = catalog.start_run("verify")
    catalog.finish_run(runs[0].run_id, RunState.DONE)
    first = catalog.run_page(0, 2)
    newer = catalog.start_run("index", corpus.corpus_id)

    def page(last: tuple[int, Run] | None) -> list[tuple[int, Run]]:
        seq, run = last or first[-1]
        return catalog.run_page(0, 2, after=(seq, run.run_id))

    ids = [run.run_id for _, run in [*first, *walked(page)]]
    assert ids == [alone.run_id, *(run.run_id for run in reversed(runs))]
    of_corpus = [run.run_id for _, run in catalog.run_page(corpus_ids=[corpus.corpus_id], kind="index")]
    assert of_corpus == [newer.run_id, runs[3].run_id, runs[1].run_id]
    assert [run.run_id for _, run in catalog.run_page(state=RunState.DONE)] == [runs[0].run_id]
    assert catalog.run_page(corpus_ids=[]) == []
    assert [run.run_id for _, run in catalog.run_page(1, 1)] == [alone.run_id]


def test_failures_of_a_run_go_on_behind_one(catalog: Catalog) -> None:
    corpus, root = make_root(catalog)
    run, other = catalog.start_run("index", corpus.corpus_id), catalog.start_run("index", corpus.corpus_id)
    wanted = [Failure(run.run_id, root.root_id, name, code, "broken") for name in NAMES for code in ("corrupt", "too_large")]
    catalog.add_failures([*wanted, Failure(other.run_id, root.root_id, "else.jpg", "corrupt", "broken")])

    def page(last: Failure | None) -> list[Failure]:
        return catalog.failure_page(run.run_id, 3, after=None if last is None else (last.root_id, last.uri, last.code))

    assert walked(page) == sorted(wanted, key=lambda one: (one.uri, one.code))


def test_pictures_of_several_roots_go_on_behind_one(catalog: Catalog) -> None:
    corpus, first = make_root(catalog)
    second, empty, third = (catalog.ensure_root(corpus.corpus_id, f"/pictures/{name}") for name in ("b", "none", "c"))
    for root in (first, second, third):
        catalog.add_images([picture(root, f"{name}.jpg") for name in NAMES])
    catalog.mark_gone([picture(second, "Z.jpg").image_id])
    roots = [third.root_id, empty.root_id, first.root_id, second.root_id]

    def places(size: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while rows := catalog.image_page(roots, size, after=found[-1] if found else None, states=SHOWN):
            assert len(rows) <= size
            found += [(image.root_id, image.uri) for image in rows]
        return found

    names = sorted(f"{name}.jpg" for name in NAMES)
    whole = [(root, name) for root in roots for name in names if root != empty.root_id and (root, name) != (roots[3], "Z.jpg")]
    assert places(2) == places(100) == whole
    gone = ("00000000-0000-4000-8000-000000000000", "a.jpg")  # the root of a cursor may have been removed
    assert catalog.image_page(roots, 5, after=gone, states=SHOWN) == []
