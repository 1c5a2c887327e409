"""A change that breaks clients is told from one that does not."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("openapi_changes", ROOT / "scripts" / "openapi_changes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = _tool()

OLD: dict[str, Any] = {
    "paths": {
        "/search": {
            "post": {
                "operationId": "search",
                "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 200}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
                "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}}},
            },
            "delete": {"operationId": "forget", "responses": {"204": {}}},
        }
    },
    "components": {
        "schemas": {
            "Ask": {
                "type": "object",
                "additionalProperties": False,
                "required": ["query"],
                "properties": {
                    "query": {"type": "string", "maxLength": 100},
                    "mode": {"enum": ["fast", "good"], "type": "string"},
                    "seed": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "inner": {"$ref": "#/components/schemas/Ask"},
                },
            },
            "Answer": {
                "type": "object",
                "required": ["hits", "stage"],
                "properties": {
                    "hits": {"type": "array", "items": {"$ref": "#/components/schemas/Hit"}},
                    "stage": {"enum": ["text", "guides"], "type": "string"},
                    "scores": {"type": "object", "additionalProperties": {"type": "number"}},
                },
            },
            "Hit": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "rank": {"type": "integer"}},
            },
        }
    },
}


def changed(change: Callable[[dict[str, Any]], object]) -> Any:
    new = copy.deepcopy(OLD)
    change(new)
    return tool.changes(OLD, new)


def schemas(new: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = new["components"]["schemas"][name]
    return found


def search(new: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = new["paths"]["/search"]["post"]
    return found


BREAKING: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "method": (lambda new: new["paths"]["/search"].pop("delete"), "DELETE /search: gone"),
    "answer": (lambda new: search(new)["responses"].update({"201": search(new)["responses"].pop("200")}), "answer 200 is gone"),
    "parameter": (lambda new: search(new)["parameters"].clear(), "query parameter 'limit' is gone"),
    "new required parameter": (
        lambda new: search(new)["parameters"].append({"name": "key", "in": "header", "required": True}),
        "header parameter 'key' is new and must be given",
    ),
    "parameter required now": (lambda new: search(new)["parameters"][0].update(required=True), "must be given now"),
    "narrower bound": (lambda new: search(new)["parameters"][0]["schema"].update(maximum=100), "maximum is 100, was 200"),
    "body required now": (lambda new: search(new)["requestBody"].update(required=True), "a body must be sent now"),
    "media type": (
        lambda new: search(new)["requestBody"].update(content={"text/plain": {}}), "takes no application/json any more",
    ),
    "sent member": (lambda new: schemas(new, "Ask")["properties"].pop("mode"), "body.mode: is not taken any more"),
    "sent member required now": (lambda new: schemas(new, "Ask")["required"].append("seed"), "body.seed: must be given now"),
    "sent value": (lambda new: schemas(new, "Ask")["properties"]["mode"]["enum"].remove("fast"), "the value 'fast' is gone"),
    "sent null": (lambda new: schemas(new, "Ask")["properties"].update(seed={"type": "integer"}), "body.seed: cannot be null"),
    "sent type": (lambda new: schemas(new, "Ask")["properties"].update(query={"type": "integer"}), "cannot be string any more"),
    "sent pattern": (lambda new: schemas(new, "Ask")["properties"]["query"].update(pattern="^a"), "pattern is '^a'"),
    "answered member": (lambda new: schemas(new, "Hit")["properties"].pop("rank"), "hits[].rank: is gone"),
    "answered member optional now": (lambda new: schemas(new, "Hit")["required"].clear(), "hits[].id: may be missing now"),
    "answered null": (
        lambda new: schemas(new, "Hit")["properties"].update(id={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        "hits[].id: can be null now",
    ),
    "answered type": (
        lambda new: schemas(new, "Answer")["properties"]["scores"].update(additionalProperties={"type": "string"}),
        "scores.*: can be string now",
    ),
}  # fmt: skip

HARMLESS: dict[str, Callable[[dict[str, Any]], object]] = {
    "nothing": lambda _: None,
    "path": lambda new: new["paths"].update({"/more": {"get": {"responses": {"200": {}}}}}),
    "optional parameter": lambda new: search(new)["parameters"].append({"name": "fields", "in": "query"}),
    "optional member sent": lambda new: schemas(new, "Ask")["properties"].update(more={"type": "string"}),
    "no longer required": lambda new: schemas(new, "Ask")["required"].clear(),
    "wider bound": lambda new: schemas(new, "Ask")["properties"]["query"].update(maxLength=200),
    "more values sent": lambda new: schemas(new, "Ask")["properties"]["mode"]["enum"].append("best"),
    "new member answered": lambda new: schemas(new, "Hit")["properties"].update(more={"type": "string"}),
    "fewer values answered": lambda new: schemas(new, "Answer")["properties"]["stage"]["enum"].remove("text"),
    "other problems": lambda new: search(new)["responses"].update({"429": {"description": "busy"}}),
    "words": lambda new: schemas(new, "Hit").update(title="Another", description="of it"),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_clients_is_told_with_its_place(name: str) -> None:
    change, said = BREAKING[name]
    found = changed(change).breaking
    assert len(found) == 1, found
    assert said in found[0]


def test_all_methods_of_a_path_that_is_gone_are_told() -> None:
    assert changed(lambda new: new["paths"].clear()).breaking == ["POST /search: gone", "DELETE /search: gone"]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_breaks_nobody_is_let_through(name: str) -> None:
    assert changed(HARMLESS[name]).breaking == []


def test_new_values_of_answers_are_shown_and_let_through() -> None:
    found = changed(lambda new: schemas(new, "Answer")["properties"]["stage"]["enum"].append("picture"))
    assert found.breaking == []
    assert "'picture' as a new value" in found.look[0]


def test_the_command_ends_with_a_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(OLD))
    new.write_text(json.dumps(OLD))
    assert tool.main([str(old), str(new)]) == 0
    new.write_text(json.dumps({**OLD, "paths": {}}))
    assert tool.main([str(old), str(new)]) == 1
    assert "breaking: POST /search: gone" in capsys.readouterr().out


def test_this_version_breaks_no_client_of_the_released_ones() -> None:
    from lodestone_serve.http.openapi import document

    released = sorted((ROOT / "schemas" / "openapi").glob("*.json"))
    assert released
    for one in released:
        found = tool.changes(json.loads(one.read_text("utf-8")), json.loads(document()))
        assert found.breaking == [], f"against {one.name}; a new major version may, see docs/api.md"
