"""The running service that owns the store finds copies and compares collections."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.cli import run_here
from tests.support.home import settings_for
from tests.support.pictures import write_photos
from tests.support.served import Served, served_here

from lodestone.errors import UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_schemas.api import DuplicatesRequest, VerifyRequest


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upkeep")
    first, *_ = write_photos(folder / "pictures", 5)
    shutil.copy(first, folder / "pictures" / "copy.jpg")
    with Runtime.open(settings_for(folder)) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
    return folder


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    with served_here(settings_for(home)) as served:
        yield served


def test_the_service_finds_copies_and_tells_how_far_it_is(served: Served) -> None:
    with served.client() as client:
        *steps, last = client.find_duplicates(DuplicatesRequest(corpus="photos"))
        assert last.type == "done"
        assert last.result is not None
        (report,) = last.result
        assert (report["corpus"], report["exact"], report["exact_groups"]) == ("photos", 2, 1)
        assert [step.collection for step in steps if step.stage == "ask"] and steps[-1].done == steps[-1].total == 6
        with pytest.raises(UnknownNameError, match="'nothing'"):
            list(client.find_duplicates(DuplicatesRequest(corpus="nothing")))


def test_the_service_compares_its_collections(served: Served) -> None:
    with served.client() as client:
        *_, last = client.verify(VerifyRequest(sample=None))
        assert last.result
        assert all(row["ok"] for row in last.result)
        assert {row["collection"].partition("-")[0] for row in last.result} >= {"bridge", "labels"}


def test_the_commands_go_through_the_service(served: Served, home: Path) -> None:
    found = run_here("duplicates", "find", "-o", "json", home=served.services.session.runtime.home.path)
    assert found.code == 0, found.err
    assert [(one["corpus"], one["exact"]) for one in found.json] == [("photos", 2)]
    listed = run_here("duplicates", "list", "--kind", "exact", home=served.services.session.runtime.home.path)
    assert "copy.jpg" in listed.out
    for more in ((), ("--all",), ("--sample", "3")):
        verified = run_here("verify", *more, "-o", "json", home=served.services.session.runtime.home.path)
        assert verified.code == 0, verified.err
        assert verified.json["ok"] is True
        assert len(verified.json["collections"]) >= 2


def test_others_may_not(served: Served) -> None:
    for path in ("duplicates", "verify"):
        assert httpx.post(f"{served.address.url}/v1/internal/{path}", json={}).status_code == 401
