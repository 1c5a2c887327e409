"""Tests that the pages of commands, routes, settings and metrics hold all that the program has, and follow it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, Field
from scripts.reference import program
from scripts.reference.commands import commands_page
from scripts.reference.program import metrics_page, settings_page, variable
from scripts.reference.routes import routes_page
from tests.support.documented_commands import root_command
from tests.support.documents import ROOT, anchors_of

from lodestone.config.settings import Settings, flatten
from lodestone_serve.telemetry import metric_table

DOCUMENT = ROOT / "schemas" / "openapi.json"


def test_every_command_has_a_section_with_each_of_its_options() -> None:
    sections = {section.partition("`")[0]: section for section in commands_page().split("## `")[1:]}
    names, waiting = 0, [("lodestone", root_command())]
    while waiting:
        path, command = waiting.pop()
        names += 1
        waiting += [(f"{path} {name}", child) for name, child in getattr(command, "commands", {}).items() if not child.hidden]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert all(f"`{option}`" in sections[path] for option in parameter.opts), path
    assert names == len(sections) > 60


def test_a_command_shows_its_arguments_values_and_defaults() -> None:
    page = commands_page()
    assert "### `lodestone index`" in page
    assert "```text\nlodestone index [PATHS…] [OPTIONS]\n```" in page
    assert "| `--limit`, `-n` | whole number | Pictures to show. Default: `10`. |" in page
    assert "| `--output`, `-o` | `human`, `json`, `yaml` | Form of the result. Default: `human`. |" in page
    assert "| `--without` | text; may be repeated |" in page


def test_every_route_and_every_model_has_a_section() -> None:
    described = json.loads(DOCUMENT.read_text("utf-8"))
    page = routes_page(DOCUMENT)
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert (f"### `{method.upper()} {path}`" in page) is (operation["tags"] != ["internal"]), path
    assert {name.lower() for name in described["components"]["schemas"]} <= anchors_of(page)


def test_a_route_shows_parameters_bounds_body_and_answers(tmp_path: Path) -> None:
    one = {
        "description": "Sell <b>.",
        "tags": ["till"],
        "parameters": [
            {"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 3}, "description": "Pieces."}
        ],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ware"}}}},
        "responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}}},
    }
    schema = {"description": "A ware.", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 9}}}
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps({"paths": {"/sales": {"post": one}}, "components": {"schemas": {"Ware": schema}}}))
    page = routes_page(path)
    assert "## Till\n\n### `POST /sales`\n\nSell &lt;b>." in page
    assert "| `n` | query | integer | Pieces. (≥ 1) Default: `3`. |" in page
    assert "Body: [Ware](#ware) (`application/json`)." in page
    assert "Answers: 200: list of string (`application/json`)." in page
    assert (
        "### Ware\n\nA ware.\n\n| member | type | meaning |\n| --- | --- | --- |\n| `name` (required) | string | (length ≤ 9) |"
        in page
    )


def test_every_setting_has_a_row_below_the_name_of_its_variables() -> None:
    page = settings_page()
    sections = {
        section.partition("`")[0]: section for section in page.replace("## At the top of the file", "## `[]`").split("## `")
    }
    for path in flatten(Settings().model_dump()):
        section, _, name = path.rpartition(".")
        assert f"| `{name}` |" in sections[f"[{section}]"] or f"[{path}]" in sections or f"[{path}.NAME]" in sections, path
        assert variable(section) in sections[f"[{section}]"], path
    for section in ("## `[generators.NAME]`", "## `[profiles.NAME]`", "## `[compositions.NAME]`"):
        assert section in page


def test_a_setting_shows_type_default_bounds_and_description(monkeypatch: pytest.MonkeyPatch) -> None:
    class Till(BaseModel):
        """A till."""

        drawers: int | None = Field(3, ge=1, le=9, description="Drawers | for coins.")

    class Shop(BaseModel):
        """A shop."""

        till: Till = Till()
        open: bool = Field(True, description="Whether it is open.")
        tills: dict[str, Till] = Field(default_factory=dict)

    monkeypatch.setattr(program, "Settings", Shop)
    page = settings_page()
    assert "| `open` | true or false | `true` | Whether it is open. |" in page
    assert "## `[till]`\n\nA till.\n\nIn the environment: `LODESTONE_TILL__` and the name in capitals." in page
    assert "| `drawers` | whole number | `3` | Drawers \\| for coins. (≥ 1, ≤ 9) |" in page
    assert "## `[tills.NAME]`" in page


def test_every_metric_has_a_row() -> None:
    page = metrics_page()
    for definition in vars(metric_table).values():
        if isinstance(definition, metric_table.Definition):
            assert definition.help.replace("<", "&lt;") in page
            assert f"| `{definition.name}" in page
