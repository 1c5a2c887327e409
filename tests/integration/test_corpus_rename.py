"""A renamed corpus keeps everything, and every key sees exactly what it saw before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.cli import run_here
from tests.support.home import settings_for
from tests.support.home_copies import IndexedHomes
from tests.support.pictures import write_photos
from tests.support.served import TOKEN, served_here
from tests.support.tenants import OTHER, OWN, make_tenants

from lodestone.access.caller import Caller
from lodestone.access.keys import ApiKey
from lodestone.errors import ForbiddenError, InvalidRequestError, StoreLockedError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.corpus_changes import rename_corpus
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.corpora import CorpusUseCases
from lodestone.services.local import LocalClient
from lodestone.services.sessions.in_process import InProcessSession
from lodestone_client import Lodestone
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_schemas.api import SearchRequest


@pytest.fixture
def runtime(indexed_homes: IndexedHomes, tmp_path: Path) -> Iterator[Runtime]:
    """A home whose corpus `old` has four pictures."""

    def make(folder: Path) -> None:
        write_photos(folder / "pictures", 4)
        with Runtime.open(settings_for(folder)) as runtime:
            index_paths(runtime, IndexRequest((folder / "pictures",), corpus="old"))

    indexed_homes.put(tmp_path, "old", make)
    with Runtime.open(settings_for(tmp_path)) as runtime:
        yield runtime


def add_key(runtime: Runtime, name: str, corpora: list[str] | None) -> str:
    key, _ = ApiKey.new(KeyRequest(name=name, scopes=[Scope.SEARCH], corpora=corpora))
    runtime.catalog.add_key(key)
    return key.key_id


def sees(runtime: Runtime, key_id: str) -> tuple[str, ...] | None:
    key = runtime.catalog.key(key_id)
    assert key is not None
    return key.corpora


def test_pictures_stay_and_nothing_is_embedded_again(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.query.answering.hydrate.NAMES_HOLD_S", 0.0)
    before = runtime.catalog.corpus("old")
    with LocalClient.over(runtime) as client:
        found = [hit.image_id for hit in client.search(SearchRequest(query="dots", guides=0)).hits]
        renamed = client.rename_corpus("old", "new")
        assert (renamed.corpus.name, renamed.corpus.corpus_id, renamed.corpus.images) == ("new", before.corpus_id, 4)
        again = client.search(SearchRequest(query="dots", guides=0, filters={"corpora": ["new"]})).hits
        assert [hit.image_id for hit in again] == found
        assert {hit.corpus for hit in again} == {"new"}
        with pytest.raises(UnknownNameError, match="'old'"):
            client.search(SearchRequest(query="dots", guides=0, filters={"corpora": ["old"]}))
    record = json.loads((runtime.home.embeddings / before.corpus_id / "corpus.json").read_text())
    assert record["name"] == "new", "a catalog that is rebuilt has the new name"
    report = index_paths(runtime, IndexRequest((tmp_path / "pictures",), corpus="new"))
    assert (report.counts.get("unchanged"), report.counts.get("embedded", 0)) == (4, 0)
    assert [corpus.name for corpus in runtime.catalog.corpora()] == ["new"]


def test_keys_neither_lose_nor_gain(runtime: Runtime) -> None:
    runtime.catalog.ensure_corpus("other")
    own, both, other, everything = (
        add_key(runtime, name, corpora)
        for name, corpora in (("own", ["old"]), ("both", ["other", "old"]), ("other", ["other"]), ("all", None))
    )
    report = rename_corpus(runtime, "old", "new")
    assert sorted(report.keys) == sorted([own, both])
    assert [set(sees(runtime, key_id) or ()) for key_id in (own, both, other)] == [{"new"}, {"other", "new"}, {"other"}]
    assert sees(runtime, everything) is None
    runtime.catalog.ensure_corpus("old")  # a later corpus of the old name is nobody's
    every = runtime.catalog.keys(0, 100)
    assert not any("old" in (key.corpora or ()) for key in every)


def test_a_key_that_waits_for_the_new_name_does_not_gain_the_corpus(runtime: Runtime) -> None:
    own, waiting = add_key(runtime, "own", ["old"]), add_key(runtime, "for later", ["new"])
    with pytest.raises(InvalidRequestError, match=f"{waiting} .for later.") as caught:
        rename_corpus(runtime, "old", "new")
    assert "revoke" in caught.value.hint
    assert runtime.catalog.corpus("old")
    assert sees(runtime, own) == ("old",), "all or nothing"
    runtime.catalog.revoke_key(waiting)
    assert rename_corpus(runtime, "old", "new").keys == (own,)


def test_a_key_that_names_both_names_it_once(runtime: Runtime) -> None:
    key_id = add_key(runtime, "both", ["new", "old"])
    rename_corpus(runtime, "old", "new")
    assert sees(runtime, key_id) == ("new",)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, "taken"])
def test_a_name_that_cannot_be_is_refused(runtime: Runtime, name: str) -> None:
    runtime.catalog.ensure_corpus("taken")
    with pytest.raises(InvalidRequestError):
        rename_corpus(runtime, "old", name)
    assert [corpus.name for corpus in runtime.catalog.corpora()] == ["old", "taken"]


def test_its_own_name_changes_nothing(runtime: Runtime) -> None:
    key_id = add_key(runtime, "own", ["old"])
    assert rename_corpus(runtime, "old", "old").keys == ()
    assert sees(runtime, key_id) == ("old",)


def test_a_corpus_that_is_being_indexed_keeps_its_name(runtime: Runtime) -> None:
    corpus = runtime.catalog.corpus("old")
    with corpus_lock(runtime.home, corpus), pytest.raises(StoreLockedError):
        rename_corpus(runtime, "old", "new")
    assert runtime.catalog.corpus("old")


def test_who_sees_one_corpus_alone_renames_none(runtime: Runtime) -> None:
    caller = Caller.named("a", {Scope.INDEX}, frozenset({"old"}))
    use_cases = CorpusUseCases(InProcessSession(runtime))
    with pytest.raises(ForbiddenError):
        asyncio.run(use_cases.rename("old", "new", caller))
    assert runtime.catalog.corpus("old")


def test_a_running_service_renames_and_keys_go_on(tmp_path: Path) -> None:
    tenants = make_tenants(tmp_path)
    with served_here(tenants.settings.model_copy(update={"serve": tenants.settings.serve.model_copy(
        update={"index_folders": {}})})) as served:  # fmt: skip
        url = served.address.url
        with Lodestone(url, api_key=tenants.keys[OWN]) as own, pytest.raises(ForbiddenError):
            own.rename_corpus(OWN, "beta")
        with Lodestone(url, headers={"X-Lodestone-Token": TOKEN}) as local:
            assert local.rename_corpus(OWN, "beta").corpus.name == "beta"
            with pytest.raises(InvalidRequestError, match="already"):
                local.rename_corpus("beta", OTHER)
        httpx.get(f"{url}/v1/corpora", headers=tenants.headers(OWN))
        with Lodestone(url, api_key=tenants.keys["everywhere"]) as everywhere:
            assert [corpus.name for corpus in everywhere.iter_corpora()] == ["beta", OTHER]


def test_folders_that_the_settings_name_come_first(tmp_path: Path) -> None:
    tenants = make_tenants(tmp_path)
    with Runtime.open(tenants.settings) as runtime:
        for old, new in ((OWN, "beta"), (OTHER, OWN + "2")):
            if old == OWN:
                with pytest.raises(InvalidRequestError, match="index_folders"):
                    rename_corpus(runtime, old, new)
            else:
                assert rename_corpus(runtime, old, new).corpus.name == new
        with pytest.raises(InvalidRequestError, match="index_folders"):
            rename_corpus(runtime, OWN + "2", OWN)


def test_the_command_renames(runtime: Runtime, tmp_path: Path) -> None:
    key_id = add_key(runtime, "own", ["old"])
    home = runtime.home.path
    runtime.close()
    done = run_here("corpus", "rename", "old", "new", home=home)
    assert done.code == 0, done.err
    assert "old is called new now" in done.out
    assert key_id in done.out
    assert run_here("corpus", "list", "-o", "json", home=home).json[0]["name"] == "new"
    missing = run_here("corpus", "rename", "old", "newer", home=home)
    assert (missing.code, "unknown_name" in missing.err) == (2, True)
