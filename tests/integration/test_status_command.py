"""`lodestone status` about parts of queries that are on and can do nothing, on the command line and in a service's answer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime
from tests.support.pictures import write_photos

from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.operations import Readiness


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("idle")
    write_photos(folder / "pictures", 2)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",)))
    return folder / "home"


def test_a_home_in_which_everything_works_has_no_idle_part(home: Path) -> None:
    assert run_here("status", "-o", "json", home=home).json["idle"] == {}


def test_a_filter_without_enough_guides_is_named(home: Path) -> None:
    told = run_here("status", home=home, LODESTONE_QUERY__GUIDES="2")
    assert "outliers: judges nothing: a query has 2 guides at most" in " ".join(told.out.split())
    assert run_here("status", "-o", "json", home=home, LODESTONE_QUERY__GUIDES="2").json["idle"].keys() == {"outliers"}


def test_a_damaged_gate_is_named_and_the_rest_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.errors import ConfigurationError
    from lodestone.home.runtime import Runtime

    def broken(_: Runtime) -> None:
        raise ConfigurationError("gate-1.json is no gate model", hint="fit it again")

    monkeypatch.setattr(Runtime, "gate", broken)
    told = run_here("status", home=home)
    assert told.code == 0
    assert "gate: gate-1.json is no gate model" in told.out
    assert "space bridge" in told.out


def test_models_that_are_not_installed_are_named_and_not_fetched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def absent(*_: object, local_files_only: bool = False, **__: object) -> str:
        asked.append(local_files_only)
        raise OSError("there is no network in this test")

    monkeypatch.setattr("huggingface_hub.snapshot_download", absent)
    answer = run_here("status", "--profile", "fast", "-o", "json", home=home)
    assert answer.code == 0, answer.err
    missing = {model["model"]: model for model in answer.json["missing_models"]}
    name = "timm:regnety_1280.swag_ft_in1k"
    assert missing[name]["message"] == "the model 'timm/regnety_1280.swag_ft_in1k' is not on this machine"
    assert "hf download timm/regnety_1280.swag_ft_in1k" in missing[name]["hint"]
    assert answer.json["spaces"]["regnet"] == {"collection": None, "current": False, "available": False}
    assert asked
    assert all(asked)

    shown = run_here("status", "--profile", "fast", home=home)
    assert shown.code == 0
    words = " ".join(shown.out.split())
    assert "space regnet: not built (its models are missing)" in words
    assert f"model {name}: the model" in words
    assert "default" in words  # the corpora are shown as ever


def test_a_home_whose_models_are_installed_misses_none(home: Path) -> None:
    answer = run_here("status", "-o", "json", home=home).json
    assert answer["missing_models"] == []
    assert answer["spaces"]["bridge"]["current"]


async def test_a_service_tells_the_same() -> None:
    async def engine() -> Any:
        async def encode(*_: object, **__: object) -> None:
            return None

        return SimpleNamespace(encoder=SimpleNamespace(encode_texts=encode))

    runtime = SimpleNamespace(
        configured=SimpleNamespace(name="fast"),
        store=SimpleNamespace(ping=lambda: None),
        catalog=SimpleNamespace(count_images=lambda *_: 7),
        idle_parts=lambda: {"gate": "off: it was fitted elsewhere"},
    )
    session: Any = SimpleNamespace(runtime=runtime, engine=engine, started_at=datetime(2026, 1, 1, tzinfo=UTC))
    status = await Readiness(session).status()
    assert (status.ready, status.images, status.idle) == (True, 7, {"gate": "off: it was fitted elsewhere"})
