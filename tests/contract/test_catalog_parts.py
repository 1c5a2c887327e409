"""The unfinished slices are exactly those that lack a receipt, and they are found without looking at the others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, cycle
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event, text
from tests.support.catalogs import make_root, picture, plan_slice, receipt

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.export import TABLES
from lodestone.catalog.records import AttemptState, ImageState, Receipt, Root, SliceRecord

PARTS = ("captions-text-v1", "lite0-v1", "meta", "siglip@2")
WANTED: tuple[tuple[str, ...], ...] = (("meta",), ("meta", "lite0-v1"), ("siglip@2",), PARTS, ("never",), ())


def check(catalog: Catalog) -> None:
    """Compare with the definition, one slice at a time."""
    parts = {record: catalog.receipts(record.slice_id).keys() for record in catalog.slices()}
    live = [record for record in parts if catalog.slice_images(record.slice_id)]
    corpora: list[str | None] = [None, *(corpus.corpus_id for corpus in catalog.corpora())]
    for wanted in WANTED:
        for corpus_id in corpora:
            lacking = [record for record in live if not parts[record] >= set(wanted) and corpus_id in (None, record.corpus_id)]
            if corpus_id is None:  # of each corpus the oldest first, one corpus after the other
                lacking.sort(key=lambda record: record.corpus_id)
            assert list(catalog.unfinished_slices(wanted, corpus_id)) == lacking, wanted
            assert catalog.count_unfinished(wanted, corpus_id) == (len(lacking), sum(record.rows for record in lacking))


class Life:
    """What may happen to slices, drawn by a seeded generator."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.catalog = catalog
        self.draw = random.Random(seed)
        self.numbers = count()
        self.roots = [make_root(catalog, name, f"/{name}")[1] for name in ("one", "two")]

        self.rare = cycle([self.replan, self.lose, self.compact, self.drop, self.remove])

    def step(self, number: int) -> None:
        if number % 3 == 2:
            next(self.rare)()
        else:
            self.draw.choice([self.plan, self.record, self.attempt, self.forget])()

    def plan(self) -> None:
        root = self.draw.choice(self.roots)
        images = [picture(root, f"{next(self.numbers)}.jpg") for _ in range(self.draw.randint(1, 3))]
        self.catalog.add_images(images)
        plan_slice(self.catalog, images)

    def some(self) -> list[SliceRecord]:
        records = list(self.catalog.slices())
        return self.draw.sample(records, min(len(records), self.draw.randint(1, 3)))

    def parts(self) -> list[str]:
        return self.draw.sample(PARTS, self.draw.randint(1, len(PARTS)))

    def receipts(self, records: list[SliceRecord]) -> list[Receipt]:
        return [receipt(record, part) for record in records for part in self.parts()]

    def record(self) -> None:
        self.catalog.record_receipts(self.receipts(self.some()))

    def attempt(self) -> None:
        for record in self.some()[:1]:
            run = self.catalog.start_run("index", record.corpus_id)
            tried = self.catalog.start_attempt(record.slice_id, run.run_id)
            self.catalog.end_attempt(
                record.slice_id, tried.attempt, AttemptState.DONE, receipts=self.receipts([record]), seconds=1.0
            )

    def forget(self) -> None:
        for record in self.some()[:1]:
            self.catalog.forget_receipts(record.slice_id, self.parts())

    def replan(self) -> None:
        """Pictures move to another slice; theirs may be superseded."""
        for record in self.some()[:1]:
            if images := self.catalog.slice_images(record.slice_id):
                plan_slice(self.catalog, images)

    def lose(self) -> None:
        for record in self.some()[:1]:
            gone = [replace(image, state=ImageState.GONE) for image in self.catalog.slice_images(record.slice_id)]
            self.catalog.update_images(gone)

    def compact(self) -> None:
        root = self.draw.choice(self.roots)
        old = [record for record in self.catalog.slices(root.corpus_id) if self.draw.random() < 0.5]
        members = [image for record in old for image in self.catalog.slice_images(record.slice_id)]
        if members:
            self.catalog.update_images([replace(image, state=ImageState.ACTIVE) for image in members])
            new = SliceRecord(str(uuid4()), root.corpus_id, uuid4().hex, len(members), old[0].created_at)
            ids = [image.image_id for image in members]
            self.catalog.replace_slices(new, ids, self.receipts([new]), old=[record.slice_id for record in old])

    def drop(self) -> None:
        self.catalog.drop_superseded(self.draw.choice(self.roots).corpus_id)

    def remove(self) -> None:
        place = self.draw.randrange(len(self.roots))
        self.catalog.remove_corpus(self.roots[place].corpus_id)
        name = f"again-{next(self.numbers)}"
        self.roots[place] = make_root(self.catalog, name, f"/{name}")[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_happens_the_unfinished_are_those_that_lack_a_receipt(
    catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone.catalog.embeddings.slice_parts.PAGE", 3)
    life = Life(catalog, seed)
    for number in range(60):
        life.step(number)
        if number % 10 == 9:
            check(catalog)


def planned(catalog: Catalog, number: int) -> list[SliceRecord]:
    _, root = make_root(catalog)
    return [plan(catalog, root, f"{place}.jpg") for place in range(number)]


def plan(catalog: Catalog, root: Root, uri: str) -> SliceRecord:
    catalog.add_images([picture(root, uri)])
    return plan_slice(catalog, [picture(root, uri)])


def test_a_slice_that_gains_or_loses_a_part_while_slices_are_listed_is_listed_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodestone.catalog.embeddings.slice_parts.PAGE", 2)
    records = planned(catalog, 9)
    catalog.record_receipts([receipt(record) for record in records[::2]])
    seen = []
    for record in catalog.unfinished_slices(["meta", "lite0-v1"]):
        seen.append(record)
        if len(seen) == 2:
            catalog.record_receipts([receipt(records[1]), receipt(records[5]), receipt(records[7], "siglip@2")])
            catalog.forget_receipts(records[4].slice_id, ["meta"])
            catalog.record_receipts([receipt(records[8], part) for part in PARTS])
    assert seen == records[:8]


def test_names_too_long_for_an_index_are_looked_up_among_the_receipts(catalog: Catalog) -> None:
    many = [f"backbone-{number:03}-{'x' * 100}" for number in range(40)]
    done, half = planned(catalog, 2)
    catalog.record_receipts([receipt(done, part) for part in many] + [receipt(half, part) for part in many[1:]])
    assert list(catalog.unfinished_slices(many)) == [half]
    assert catalog.count_unfinished(many) == (1, 1)
    assert list(catalog.unfinished_slices(many[1:])) == []
    catalog.forget_receipts(half.slice_id, many[2:])
    assert list(catalog.unfinished_slices(many[1:2])) == []
    assert list(catalog.unfinished_slices(many[1:3])) == [half]


def test_a_part_whose_name_begins_or_contains_anothers_is_another(catalog: Catalog) -> None:
    (record,) = planned(catalog, 1)
    catalog.record_receipts([receipt(record, "clip-v10"), receipt(record, "meta.more")])
    assert list(catalog.unfinished_slices(["clip-v1"])) == [record]
    assert list(catalog.unfinished_slices(["meta"])) == [record]
    assert list(catalog.unfinished_slices(["clip-v10", "meta.more"])) == []


def test_rows_that_come_in_without_some_receipts_are_unfinished(catalog: Catalog) -> None:
    """As those of a backup in which a file is damaged."""
    whole, lacking = planned(catalog, 2)
    catalog.record_receipts([receipt(whole), receipt(lacking)])
    with catalog.exporting() as export:
        rows = {table.name: [row for page in export.rows(table) for row in page] for table in TABLES}
    catalog.remove_corpus(whole.corpus_id)
    catalog.tags_delivered(catalog.tag_outbox())
    rows["receipts"] = [row for row in rows["receipts"] if row["slice_id"] == whole.slice_id]
    catalog.import_rows((table, rows[table.name]) for table in TABLES)
    assert list(catalog.unfinished_slices(["meta"])) == [lacking]


def test_what_an_older_version_leaves_in_a_catalog_that_it_still_has_open_is_found_and_put_right(catalog: Catalog) -> None:
    """It writes receipts, and knows nothing of `slices.parts`."""
    records = planned(catalog, 4)
    corpus_id = records[0].corpus_id
    catalog.record_receipts([receipt(record) for record in records[:3]])
    assert catalog.misnoted_slices(corpus_id) == []
    forgot, finished = records[1].slice_id, records[3].slice_id
    for statement in (
        f"DELETE FROM receipts WHERE slice_id = '{forgot}'",
        f"INSERT INTO receipts VALUES ('{finished}', 'meta', 'x', 1, 1, '', 0)",
    ):
        catalog._write(lambda connection, statement=statement: connection.execute(text(statement)))  # type: ignore[misc]
    assert set(catalog.misnoted_slices(corpus_id)) == {forgot, finished}
    assert catalog.misnoted_slices(catalog.ensure_corpus("another").corpus_id) == []
    assert catalog.mend_parts(corpus_id) == 2
    assert catalog.misnoted_slices(corpus_id) == []
    assert list(catalog.unfinished_slices(["meta"])) == [records[1]]
    check(catalog)


# What it costs


def fill(catalog: Catalog, finished: int) -> list[SliceRecord]:
    """So many finished slices, before, between and after ten that are not: five without any part, five with one of two."""
    corpus, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(finished + 10)]
    catalog.add_images(images)
    records = [SliceRecord(str(uuid4()), corpus.corpus_id, uuid4().hex, 1, corpus.created_at) for _ in images]
    catalog.add_slices([(record, [image.image_id]) for record, image in zip(records, images, strict=True)])
    unfinished = records[:: (finished + 10) // 10][:10]
    left = {record.slice_id for record in unfinished}
    done = [receipt(record, part) for record in records if record.slice_id not in left for part in ("lite0-v1", "meta")]
    catalog.record_receipts([*done, *(receipt(record) for record in unfinished[5:])])
    return unfinished


def look(catalog: Catalog, expected: list[SliceRecord]) -> None:
    corpus_id = expected[0].corpus_id
    for of in (corpus_id, None):
        assert list(catalog.unfinished_slices(["meta", "lite0-v1"], of)) == expected
        assert catalog.count_unfinished(["meta", "lite0-v1"], of) == (10, 10)


def test_finished_slices_are_not_looked_at(catalog: Catalog) -> None:
    costs = _steps_on_sqlite if catalog.path else _rows_on_postgres
    few = costs(catalog, 100)
    catalog.remove_corpus(catalog.corpus("holidays").corpus_id)
    many = costs(catalog, 1500)
    assert many < 2 * few  # (a taller tree is a few steps more)


def _steps_on_sqlite(catalog: Catalog, finished: int) -> int:
    """Steps of SQLite's virtual machine, in tens."""
    expected = fill(catalog, finished)
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def watch(connection: Any, *_: object) -> None:
        connection.set_progress_handler(step, 10)

    with _listening(catalog, "checkout", watch):
        look(catalog, expected)
    with catalog._engine.connect() as connection:
        connection.connection.driver_connection.set_progress_handler(None, 0)  # type: ignore[union-attr]
    assert steps > 0
    return steps


def _rows_on_postgres(catalog: Catalog, finished: int) -> int:
    """Rows and index entries of slices that the plans of all statements visit."""
    expected = fill(catalog, finished)
    catalog._write(lambda connection: connection.execute(text("ANALYZE slices, receipts, images, corpora")))
    asked: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    with _listening(catalog, "before_cursor_execute", note):
        look(catalog, expected)
    assert asked
    visited = 0
    with catalog._engine.connect() as connection:
        for statement, parameters in asked:
            explained = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            visited += sum(_visited(plan["Plan"]) for plan in explained.scalar_one())
    assert visited > 0
    return visited


def _visited(plan: dict[str, Any]) -> int:
    rows: float = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if plan.get("Relation Name") == "slices" else 0
    return round(rows * int(plan["Actual Loops"])) + sum(_visited(below) for below in plan.get("Plans", []))


@contextmanager
def _listening(catalog: Catalog, name: str, listener: Callable[..., Any]) -> Iterator[None]:
    event.listen(catalog._engine, name, listener)
    try:
        yield
    finally:
        event.remove(catalog._engine, name, listener)
