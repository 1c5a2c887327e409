"""Tests of the client of a home on this machine: what it asks a running service for, and what it answers by itself."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.cli import environment
from tests.support.home import settings_for
from tests.support.pictures import write_photos
from tests.support.scripted_server import answer, problem, scripted

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.home.quick_search import QuickSearcher
from lodestone.home.running_service.address import TOKEN_HEADER, ServiceAddress, instance_of
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.lazy import USE_CASES
from lodestone.services.local import LocalClient
from lodestone.services.use_cases import Services
from lodestone_cli.home_client import HomeClient, deliver_tags
from lodestone_schemas.api import FeedbackRequest, Hit, SearchRequest, SearchResponse
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryInfo,
    DirectoryRelocation,
    DirectoryRequest,
    DirectorySplit,
    JobInfo,
)
from lodestone_schemas.operation_rows import CommandPlace, Declared
from lodestone_schemas.operations import OPERATIONS
from lodestone_schemas.searching import BrowseRequest, FacetsRequest
from lodestone_schemas.service import Alive

ID = "00000000-0000-4000-8000-000000000000"


class FakeService:
    """Notes what it is asked, and answers with the name of the call."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*_: object, **__: object) -> Any:
            self.asked.append(name)
            return iter(()) if name == "sync" else name

        return answer


ASKED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "search": ((SearchRequest(query="a boat"),), {}),
    "similar": ((ID,), {}),
    "browse": ((BrowseRequest(),), {}),
    "facets": ((FacetsRequest(of="place"),), {}),
    "by_picture": ((b"",), {}),
    "tag_picture": ((b"",), {}),
    "tag_image": ((ID,), {}),
    "replay": ((ID,), {"fresh": True}),
    "feedback": ((FeedbackRequest(query_id=ID, relevant=[ID]),), {}),
    "withdraw_feedback": ((FeedbackRequest(query_id=ID, relevant=[ID]),), {}),
    "generators": ((), {}),
    "find_duplicates": ((), {}),
    "verify": ((), {}),
    "rename_corpus": (("family", "relatives"), {}),
    "remove_corpus": (("family",), {}),
    "index_directory": ((ID,), {}),
    "split_directory": ((ID, DirectorySplit(folder="2018")), {}),
    "relocate_directory": ((ID, DirectoryRelocation(path="/pictures")), {}),
    "remove_directory": ((ID,), {}),
    "remove_image": ((ID,), {}),
    "jobs": ((), {}),
    "cancel_job": ((ID,), {}),
}


def test_every_operation_that_a_service_does_first_is_tried_here() -> None:
    first = {name for name, operation in OPERATIONS.items() if operation.row.where is CommandPlace.SERVICE_FIRST}

    assert set(ASKED) == first | {"replay"}


@pytest.mark.parametrize("name", ASKED)
def test_what_needs_the_store_or_models_is_asked_of_the_running_service(name: str) -> None:
    service = FakeService()
    client = HomeClient(cast("Any", None), find_service=lambda: cast("Any", service))
    arguments, options = ASKED[name]

    getattr(client, name)(*arguments, **options)

    assert service.asked == [name]


def test_a_folder_is_added_here_and_indexed_by_the_service(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    with Runtime.open(settings_for(tmp_path / "home")) as runtime:
        runtime.home.prepare()
        request = DirectoryRequest(path=str(tmp_path / "pictures"), index=True)
        with HomeClient.over(runtime) as client:
            assert client.add_directory(request).job is None
            assert [directory.name for directory in client.iter_directories()] == ["pictures"]
            assert client.jobs().jobs == []


def test_a_record_is_replayed_here_and_a_folder_is_told_to_the_service_by_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[DirectoryRelocation] = []
    service = SimpleNamespace(relocate_directory=lambda _, request: sent.append(request))
    client = HomeClient(cast("Any", None), find_service=lambda: cast("Any", service))
    here: list[inspect.BoundArguments] = []
    monkeypatch.setattr(LocalClient, "_perform", lambda _, __, arguments: here.append(arguments))
    monkeypatch.chdir(tmp_path)

    client.relocate_directory(ID, DirectoryRelocation(path="moved"))
    client.replay(ID)
    HomeClient(cast("Any", None)).relocate_directory(ID, DirectoryRelocation(path="moved"))

    assert sent == [DirectoryRelocation(path=str(tmp_path / "moved"), index=True)]
    replayed, relocated = here
    assert replayed.args == (ID,)
    assert relocated.arguments["request"] == DirectoryRelocation(path="moved", index=False)


def test_an_added_folder_is_indexed_by_the_service_and_described_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    made = {"corpus": "c", "name": "n", "path": "/p", "enabled": True, "watched": False}
    before, after = (DirectoryInfo.model_construct(directory_id=ID, indexing=going_on, **made) for going_on in (False, True))
    job = JobInfo.model_construct(job_id="j")

    def index(directory_id: str, **options: Any) -> JobInfo:
        asked.append((directory_id, options))
        return job

    def perform(_: LocalClient, operation: Declared, arguments: inspect.BoundArguments) -> Any:
        if operation.name == "directory":
            return after
        assert not arguments.arguments["request"].index
        return DirectoryAdded.model_construct(directory=before, job=None, relocated=None)

    monkeypatch.setattr(LocalClient, "_perform", perform)
    client = HomeClient(cast("Any", None), find_service=lambda: cast("Any", SimpleNamespace(index_directory=index)))

    added = client.add_directory(DirectoryRequest(path="/p"), idempotency_key="k")
    assert (added.job, added.directory) == (job, after)
    assert asked == [(ID, {"idempotency_key": "k"})]
    assert client.add_directory(DirectoryRequest(path="/p", index=False)).job is None
    assert len(asked) == 1


def test_tags_are_delivered_by_the_service_that_owns_the_store() -> None:
    service = FakeService()

    deliver_tags(cast("Runtime", None), cast("Any", service))

    assert service.asked == ["sync"]


def test_the_use_cases_made_late_are_those_of_a_service() -> None:
    kinds = inspect.get_annotations(Services, eval_str=True)

    assert set(USE_CASES) | {"session"} == {field.name for field in dataclasses.fields(Services)}
    assert all(getattr(import_module(module), name) is kinds[subject] for subject, (module, name) in USE_CASES.items())


@pytest.mark.parametrize("arguments", [("runs", "list"), ("corpus", "list"), ("tags", "list"), ("explain", "--list")])
def test_commands_that_read_the_catalog_load_neither_models_nor_a_client_over_http(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        runtime.home.prepare()
    script = (
        "import sys; from lodestone_cli import main; main._load_commands(); code = main.run(sys.argv[1:]);"
        "heavy = {'httpx', 'onnxruntime', 'torch', 'qdrant_edge', 'qdrant_client', 'ray'} & set(sys.modules);"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment(settings_for(tmp_path).home),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


HEAVY = ("torch", "ray", "pandas", "pyarrow", "fastapi", "qdrant_client", "scipy", "sklearn", "onnxruntime", "PIL", "umap")
SLOW = (*HEAVY, "numpy", "sqlalchemy", "httpx", "lodestone_client", "qdrant_edge")


def _loads(home: Path, *arguments: str, banned: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a command, and report which of the banned modules it imported."""
    script = (
        "import sys; from lodestone_cli import main\n"
        f"try: sys.argv[1:] = {list(arguments)!r}; main.main()\n"
        "except SystemExit as end: code = end.code\n"
        f"found = {set(banned)!r} & set(sys.modules)\n"
        "sys.exit(f'{code} {sorted(found)}' if code or found else 0)"
    )
    return subprocess.run([sys.executable, "-c", script], env=environment(home), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [("--help",), ("search", "--help"), ("--version",)])
def test_help_loads_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = _loads(tmp_path, *arguments, banned=SLOW)

    assert done.returncode == 0, done.stderr


def test_a_search_without_a_service_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 2)
    with Runtime.open(settings_for(tmp_path)) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "pictures",)))
        home = runtime.home.path
    others = ("torch", "ray", "pandas", "pyarrow", "fastapi", "qdrant_client", "scipy", "sklearn", "umap", "httpx")
    catalogs = ("alembic", "asyncpg", "psycopg", "sqlalchemy.dialects.postgresql")
    done = _loads(home, "search", "a dog", "--format", "paths", banned=(*others, *catalogs))

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith((".jpg", ".jpeg", ".png"))


def test_a_search_of_the_running_service_loads_nothing_slow_and_shows_paths(tmp_path: Path) -> None:
    with Runtime.open(settings_for(tmp_path)) as runtime:
        catalog, home = runtime.catalog, runtime.home
        corpus = catalog.ensure_corpus("default")
        root = catalog.ensure_root(corpus.corpus_id, "/home/ann/Pictures")
        image = ImageRecord(ID, corpus.corpus_id, root.root_id, "a boat.jpg", "0" * 64, 1, 1, ImageState.ACTIVE)
        catalog.add_images([image])
    alive = Alive(version="0.1.0", instance=instance_of("a-token"))
    hit = Hit(
        rank=1, image_id=ID, score=1, corpus="default", root="Pictures", uri="a boat.jpg", width=1, height=1, thumbnail=""
    )
    found = SearchResponse(query_id=ID, stage="text", hits=[hit], fusion="rrf", space_weights={})
    scenes = [answer(200, message.model_dump_json().encode()) for message in (alive, found)]
    with scripted(*scenes) as service:
        ServiceAddress(service.url, os.getpid(), "a-token", "0.1.0", datetime.now(UTC)).write(home)
        done = _loads(home.path, "search", "a", "boat", banned=SLOW)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1  /home/ann/Pictures/a boat.jpg"
    assert [(asked.method, asked.path) for asked in service.asked] == [("GET", "/healthz"), ("POST", "/v1/search")]
    assert service.asked[1].json == {"query": "a boat", "limit": 10, "offset": 0, **service.asked[1].json}
    assert service.asked[1].headers[TOKEN_HEADER.lower()] == "a-token"


def test_an_answer_that_is_none_is_asked_again_by_the_client_which_explains_it(tmp_path: Path) -> None:
    address = ServiceAddress("http://127.0.0.1:9", os.getpid(), "a-token", "0.1.0", datetime.now(UTC))
    for scene in (problem(429, "overloaded"), answer(200, b"<html>"), b""):
        with scripted(scene) as service:
            client = FakeService()
            searcher = QuickSearcher(dataclasses.replace(address, url=service.url), lambda client=client: cast("Any", client))
            assert searcher.search(SearchRequest(query="a boat")) == "search"
            assert client.asked == ["search"]


def test_thumbnails_are_fetched_plainly_and_by_the_client_where_that_fails(tmp_path: Path) -> None:
    address = ServiceAddress("http://127.0.0.1:9", os.getpid(), "a-token", "0.1.0", datetime.now(UTC))
    scenes = ((answer(200, b"a picture"), b"a picture"), (problem(404, "not_found"), "thumbnail"), (b"", "thumbnail"))
    for scene, expected in scenes:
        with scripted(scene) as service:
            client = FakeService()
            searcher = QuickSearcher(dataclasses.replace(address, url=service.url), lambda client=client: cast("Any", client))
            assert searcher.thumbnail(ID) == expected
            assert client.asked == ([] if expected == b"a picture" else ["thumbnail"])
            assert service.asked[0].path == f"/v1/images/{ID}/thumbnail"
            assert service.asked[0].headers[TOKEN_HEADER.lower()] == "a-token"
