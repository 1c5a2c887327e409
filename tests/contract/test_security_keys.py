"""API keys are kept, ended, replaced and narrowed alike on every database, and lists show what the caller may see."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from lodestone.access.keys import ApiKey, key_id_of
from lodestone.access.visibility import Visibility
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.use_records import QueryRecord
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.query.asking.filters import FilterSources, restriction
from lodestone.store.base import Filter, MatchAny
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_schemas.api import SearchFilters


def new(catalog: Catalog, **request: object) -> tuple[ApiKey, str]:
    key, written = ApiKey.new(KeyRequest.model_validate({"name": "app", **request}))
    catalog.add_key(key)
    return key, written


def test_a_key_comes_back_as_it_was_made(catalog: Catalog) -> None:
    until = datetime.now(UTC) + timedelta(days=1)
    key, written = new(catalog, scopes=["index", "search"], corpora=["b", "a", "a"], rate="5/minute", expires_at=until)
    assert catalog.key(key.key_id) == key
    assert (key.scopes, key.corpora, key.rate, key.expires_at) == ((Scope.SEARCH, Scope.INDEX), ("a", "b"), "5/minute", until)
    assert key.is_of(written)
    assert not key.is_of(written[:-1] + ("A" if written[-1] != "A" else "B"))
    assert catalog.key("0" * 16) is None
    everywhere, _ = new(catalog)
    assert catalog.key(everywhere.key_id) == everywhere
    assert everywhere.corpora is None
    assert [one.key_id for one in catalog.keys(0)] == [everywhere.key_id, key.key_id]
    assert [one.key_id for one in catalog.keys(1, 1)] == [key.key_id]


def test_a_key_is_ended_once(catalog: Catalog) -> None:
    key, _ = new(catalog)
    now = datetime.now(UTC)
    ended = catalog.revoke_key(key.key_id)
    assert ended.invalid(datetime.now(UTC)) == "revoked"
    assert ended.invalid(now - timedelta(seconds=1)) == ""
    assert catalog.revoke_key(key.key_id) == ended
    with pytest.raises(NotFoundError):
        catalog.revoke_key("nope")


def test_a_rotated_key_keeps_its_rights_and_owner(catalog: Catalog) -> None:
    key, written = new(catalog, corpora=["a"], rate="5/minute")
    until = datetime.now(UTC) + timedelta(minutes=5)
    second, rewritten = catalog.rotate_key(key.key_id, until=until)
    third, _ = catalog.rotate_key(second.key_id, until=until)
    assert [second.key_id, third.key_id] == [f"{key.key_id}-2", f"{key.key_id}-3"]
    assert {one.owner for one in (key, second, third)} == {f"key:{key.key_id}"}
    assert (third.corpora, third.rate, third.scopes, third.expires_at) == (key.corpora, key.rate, key.scopes, None)
    assert key_id_of(rewritten) == second.key_id
    assert second.is_of(rewritten)
    assert not second.is_of(written)
    old = catalog.key(key.key_id)
    assert old is not None
    assert old.expires_at == until
    assert old.invalid(until) == "expired"
    again, _ = catalog.rotate_key(key.key_id, until=until + timedelta(days=1))  # it never lives longer than before
    assert again.key_id == f"{key.key_id}-4"
    assert catalog.key(key.key_id).expires_at == until  # type: ignore[union-attr]
    catalog.revoke_key(third.key_id)
    for gone in (third.key_id, "nope"):
        with pytest.raises(NotFoundError):
            catalog.rotate_key(gone, until=until)


def test_rotations_at_once_make_different_keys(catalog: Catalog) -> None:
    key, _ = new(catalog)
    until = datetime.now(UTC) + timedelta(minutes=5)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: catalog.rotate_key(key.key_id, until=until)[0].key_id, range(4)))
    assert sorted(made) == [f"{key.key_id}-{number}" for number in range(2, 6)]


def test_last_use_only_moves_forward(catalog: Catalog) -> None:
    (one, _), (other, _) = new(catalog), new(catalog)
    now = datetime.now(UTC)
    catalog.keys_used({one.key_id: now, other.key_id: now, "0" * 16: now})
    catalog.keys_used({one.key_id: now - timedelta(hours=1), other.key_id: now + timedelta(hours=1)})
    catalog.keys_used({})
    found = {key.key_id: key.last_used_at for key in catalog.keys(0)}
    assert found == {one.key_id: now, other.key_id: now + timedelta(hours=1)}


@pytest.mark.parametrize(
    "request_", [{"name": " "}, {"scopes": []}, {"scopes": ["admin"], "corpora": ["a"]}, {"corpora": []}, {"rate": "0/minute"}]
)
def test_what_makes_no_key_is_named(request_: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ApiKey.new(KeyRequest.model_validate({"name": "app", **request_}))
    assert caught.value.hint


@pytest.mark.parametrize("written", ["", "lodestone_", "lodestone_x_y", f"lodestone_{'a' * 16}-0_{'A' * 43}", "x" * 100_000])
def test_what_is_no_key_has_no_id(written: str) -> None:
    assert key_id_of(written) is None


def test_searches_are_kept_to_the_corpora_that_are_seen(catalog: Catalog) -> None:
    ids = {name: catalog.ensure_corpus(name).corpus_id for name in ("one", "two", "three")}
    for name, corpus_id in ids.items():
        catalog.ensure_root(corpus_id, f"/pictures/{name}")
    visibility = Visibility("key:a", frozenset({"one", "two", "to come"}), all_queries=False)

    def filter_of(**filters: object) -> Filter | None:
        return restriction(SearchFilters.model_validate(filters), FilterSources(catalog, visibility))[0]

    assert filter_of() == Filter((MatchAny("corpus", (ids["one"], ids["two"])),))
    assert filter_of(corpora=["two"]) == Filter((MatchAny("corpus", (ids["two"],)),))
    for hidden in ("three", "to come", "nowhere"):
        with pytest.raises(InvalidRequestError) as caught:
            filter_of(corpora=["one", hidden])
        assert caught.value.details["known"] == ["one", "two"]
    with pytest.raises(InvalidRequestError) as caught:
        filter_of(roots=["three"])
    assert caught.value.details["known"] == ["one", "two"]
    nowhere, _ = restriction(
        SearchFilters(), FilterSources(catalog, Visibility("key:a", frozenset({"to come"}), all_queries=False))
    )
    assert nowhere is not None
    assert nowhere.must[0] not in [MatchAny("corpus", (one,)) for one in ids.values()]
    assert nowhere.must[0].values  # type: ignore[union-attr]  # an empty list might match everything


def test_disabled_directories_of_others_are_not_named(catalog: Catalog) -> None:
    root = catalog.ensure_root(catalog.ensure_corpus("other").corpus_id, "/pictures/secret")
    catalog.set_root(root.root_id, enabled=False)
    catalog.ensure_corpus("own")
    _, notes = restriction(SearchFilters(), FilterSources(catalog, Visibility("key:a", frozenset({"own"}), all_queries=False)))
    assert notes == []
    with pytest.raises(InvalidRequestError):
        restriction(
            SearchFilters(roots=["secret"]), FilterSources(catalog, Visibility("key:a", frozenset({"own"}), all_queries=False))
        )


def test_queries_are_listed_by_owner(catalog: Catalog) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(6):
        owner = ("", "key:a", "key:b")[number % 3]
        catalog.add_query(
            QueryRecord(str(number), start + timedelta(seconds=number), "words", "w", None, {}, b"t", owner), keep=10
        )
    assert [one.query_id for one in catalog.queries(owner="key:a")] == ["4", "1"]
    assert [one.query_id for one in catalog.queries(0, 1, owner="key:a", after=(start + timedelta(seconds=4), "4"))] == ["1"]
    assert len(catalog.queries()) == 6
