"""Both kinds of catalog let one of many replicas do a write, and take many records at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import WriteKey
from lodestone.catalog.use_records import QueryRecord

WRITE = WriteKey("key:a", "k1", "f" * 64)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_one_of_many_replicas_does_a_write_and_all_get_its_answer(catalog_url: str) -> None:
    replicas = [Catalog.open(catalog_url) for _ in range(3)]
    with ThreadPoolExecutor(12) as pool:
        claims = list(pool.map(lambda number: replicas[number % 3].claim_write(WRITE), range(12)))
        assert claims.count(None) == 1
        replicas[claims.index(None) % 3].answer_write(WRITE, status=200, body=b"application/json\n{}")
        again = list(pool.map(lambda number: replicas[number % 3].claim_write(WRITE), range(12)))
    assert {(one.status, one.body) for one in again if one is not None} == {(200, b"application/json\n{}")}
    assert replicas[0].claim_write(replace(WRITE, owner="key:b")) is None, "keys of different owners never meet"
    for replica in replicas:
        replica.close()


def test_a_key_that_is_given_back_and_one_that_is_old_can_be_claimed_again(catalog: Catalog) -> None:
    other = replace(WRITE, fingerprint="0" * 64)
    assert catalog.claim_write(WRITE, now=NOON) is None
    catalog.forget_write(other)
    assert catalog.claim_write(WRITE, now=NOON) is not None, "only whoever claimed it gives it back"
    catalog.forget_write(WRITE)
    assert catalog.claim_write(other, now=NOON) is None
    catalog.answer_write(other, status=204, body=b"")
    assert catalog.claim_write(WRITE, now=NOON + timedelta(hours=23)) is not None
    assert catalog.claim_write(WRITE, now=NOON + timedelta(hours=25)) is None
    assert catalog.writes() == 1


def test_many_records_are_taken_at_once_and_the_oldest_forgotten(catalog: Catalog) -> None:
    records = [
        QueryRecord(f"q{number}", NOON + timedelta(seconds=number), "words", "a boat", None, {}, b"x", "key:a")
        for number in range(6)
    ]
    catalog.add_queries(records, 4)
    assert [found.query_id for found in catalog.queries()] == ["q5", "q4", "q3", "q2"]
    assert catalog.has_query("q5")
    assert not catalog.has_query("q0")
    catalog.add_queries([replace(records[5], text="again")], 4)
    found = catalog.query("q5")
    assert found is not None
    assert (found.text, found.owner) == ("again", "key:a")
