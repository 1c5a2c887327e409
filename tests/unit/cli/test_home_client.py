"""Tests of the client of a home on this machine: what it asks a running service for, and what it answers by itself."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.cli import environment
from tests.support.home import settings_for

from lodestone.home.runtime import Runtime
from lodestone.services.lazy import USE_CASES
from lodestone.services.use_cases import Services
from lodestone_cli.home_client import HomeClient, deliver_tags
from lodestone_schemas.api import FeedbackRequest, SearchRequest
from lodestone_schemas.directories import DirectoryRelocation, DirectoryRequest

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
    "by_picture": ((b"",), {}),
    "replay": ((ID,), {"fresh": True}),
    "feedback": ((FeedbackRequest(query_id=ID, relevant=[ID]),), {}),
    "generators": ((), {}),
    "remove_corpus": (("family",), {}),
    "index_directory": ((ID,), {}),
    "relocate_directory": ((ID, DirectoryRelocation(path="/pictures")), {}),
    "remove_directory": ((ID,), {}),
    "jobs": ((), {}),
}


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
