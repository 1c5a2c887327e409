"""Tests of every fenced block of the documentation, as far as it can be checked without running it."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shutil
import subprocess
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.documented_commands import NOT_RUN, SHELLS, calls, parse, patterns_of, reason_not_to_run, root_command
from tests.support.documents import ROOT, Block, Statement, all_blocks, blocks_of, name_of, pages, prose_of, statements

from lodestone.config.settings import load_settings

LANGUAGES = {*SHELLS, "python", "toml", "json", "sql", "text"}
SCHEMA = json.loads((ROOT / "schemas" / "openapi.json").read_text("utf-8"))["components"]["schemas"]
COMMANDS = [statement for block in all_blocks() if block.language in SHELLS for statement in statements(block)]


def in_language(*languages: str) -> list[Block]:
    return [block for block in all_blocks() if block.language in languages]


def place(block: Block | Statement) -> str:
    return block.place


def test_every_block_has_a_language_that_is_checked() -> None:
    assert [block.place for block in all_blocks() if block.language not in LANGUAGES] == []
    assert len(all_blocks()) > 150


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_code_hides_outside_of_fenced_blocks(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not re.search(r"^\s*~~~|<pre\b", text, re.MULTILINE)
    lines = ["", *(line for _, line in prose_of(text))]
    assert [line for before, line in itertools.pairwise(lines) if re.match(r" {4,}\S", line) and not before.strip()] == []
    assert len(re.findall(r"^ *`{3}", text, re.MULTILINE)) == 2 * len(blocks_of(page))


@pytest.mark.parametrize("block", in_language("text"), ids=place)
def test_texts_hold_no_commands(block: Block) -> None:
    assert not re.search(r"^\s*(\$ |lodestone |curl |pip )", block.code, re.MULTILINE)


# -- shells ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", in_language(*SHELLS), ids=place)
def test_shell_blocks_are_correct_shell(block: Block) -> None:
    code = "".join(f"{statement.text}\n" for statement in statements(block))
    assert code
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-n"], input=re.sub(r"<the \w[\w ]*>", "NAME", code), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("statement", COMMANDS, ids=place)
def test_calls_of_lodestone_are_accepted_by_its_parser(statement: Statement) -> None:
    for words in calls(statement.text):
        parse(words)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_and_options_in_the_text_exist(page: Path) -> None:
    """In a sentence a call may lack its arguments, so only names are compared."""
    if page.name == "CHANGELOG.md":
        return  # it tells of versions whose commands were others
    for call in re.findall(r"`(lodestone [^`\n]+)`", page.read_text("utf-8")):
        (words, *_) = [*calls(call), []]
        command = root_command()
        while words and hasattr(command, "commands") and re.match(r"[a-z]", words[0]):
            assert words[0] in command.commands, call
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}, call


@pytest.mark.parametrize("statement", COMMANDS, ids=place)
def test_files_modules_and_targets_of_the_checkout_exist(statement: Statement) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for words in calls(statement.text, "make"):
        assert {word for word in words if "=" not in word and not word.startswith("-")} <= targets
    for words in (*calls(statement.text, "python"), *calls(statement.text, "python3")):
        if words[0] == "-m" and words[1].partition(".")[0] in {
            "scripts",
            "benchmarks",
            "research",
            "monitoring",
            "lodestone_serve",
        }:
            assert module_exists(words[1].removesuffix(".*")), words
        elif words[0].endswith(".py") and not words[0].startswith("/"):
            assert (ROOT / words[0]).exists(), words
    for words in calls(statement.text, "pip"):
        files = [after for word, after in itertools.pairwise(words) if word == "-r"]
        assert all((ROOT / file).exists() for file in files), words
        named = [name for word in words for name in re.findall(r"^\.\[([^\]]+)\]", word)]
        assert {extra for name in named for extra in name.split(",")} <= extras.keys(), words


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module or a package of a folder at the top, or of one below it."""
    path = Path(*name.split("."))
    tops = (ROOT, ROOT / "serve")
    return any((top / path).is_dir() or (top / path).with_suffix(".py").exists() for top in tops)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_programs_of_the_checkout_that_the_text_names_exist(page: Path) -> None:
    text = page.read_text("utf-8") if page.name != "CHANGELOG.md" else ""
    modules = re.findall(r"`(?:python -m )?((?:benchmarks|research|scripts|monitoring)(?:\.[a-z_0-9]+)+)(?=[ `])", text)
    files = re.findall(r"`((?:benchmarks|research|scripts|monitoring|tests|deploy)/[\w/.-]+\.(?:py|sh))`", text)
    assert [name for name in modules if not module_exists(name)] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("folder", ["benchmarks", "core", "evaluation", "jobs", "research", "scripts", "serve"])
def test_programs_of_the_checkout_that_the_code_names_exist(folder: str) -> None:
    """A program says in its own text how it is called, and settings say which benchmark chose them."""
    missing = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text("utf-8")
        missing += [
            f"{path}: {name}"
            for name in re.findall(r"python -m ((?:benchmarks|research)(?:\.[a-z_0-9]+)+)", text)
            if not module_exists(name)
        ]
        missing += [
            f"{path}: {name}"
            for name in re.findall(r"(?<![\w/])(?:benchmarks|research)/[\w/]+\.py", text)
            if not (ROOT / name).exists()
        ]
    assert missing == []


def test_no_reason_to_leave_a_command_out_is_stale() -> None:
    used = {patterns_of(statement)[0] for statement in COMMANDS if patterns_of(statement)}

    assert NOT_RUN.keys() - used == set()


def test_most_commands_that_need_no_cluster_are_run() -> None:
    run = [statement for statement in COMMANDS if reason_not_to_run(statement) is None]
    assert len(run) > 80


@pytest.mark.parametrize(
    "call", ["lodestone serch a", "lodestone search --no-such-option", "lodestone backup create", "lodestone index --slice x"]
)
def test_calls_that_lodestone_would_refuse_are_found(call: str) -> None:
    ((words),) = calls(call)
    with pytest.raises(Exception, match=r".") as refused:
        parse(words)
    assert "Usage" in type(refused.value).__mro__[1].__name__ or hasattr(refused.value, "format_message")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('A=1 lodestone search "a b" # c', [["search", "a b"]]),
        ("lodestone status; lodestone doctor | head", [["status"], ["doctor"]]),
        ("kubectl exec x -- lodestone keys list   # d", [["keys", "list"]]),
        ("x --entrypoint 'lodestone verify --all' |\n  y", [["verify", "--all"]]),
        (
            "lodestone serve build > a.yaml && lodestone serve deploy --config a.yaml",
            [["serve", "build"], ["serve", "deploy", "--config", "a.yaml"]],
        ),
    ],
)
def test_calls_are_found_in_command_lines(text: str, expected: list[list[str]]) -> None:
    assert list(calls(text)) == expected


# -- Python, TOML, JSON ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", in_language("python"), ids=place)
def test_python_blocks_are_correct_python(block: Block) -> None:
    ast.parse(textwrap.dedent(block.code))


@pytest.mark.parametrize("block", in_language("toml"), ids=place)
def test_toml_blocks_are_settings_that_are_accepted(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = tomllib.loads(block.code)
    if "project" in values:  # another package's pyproject.toml
        assert values["project"].keys() == {"entry-points"}
        assert values["project"]["entry-points"].keys() <= {
            f"lodestone.{kind}" for kind in ("backbones", "generators", "spaces")
        }
        return
    path = tmp_path / "lodestone.toml"
    path.write_text(block.code, encoding="utf-8")
    monkeypatch.setenv("LODESTONE_CONFIG", str(path))
    load_settings()


def unknown_keys(value: Any, schema: dict[str, Any]) -> list[str]:
    """Keys of a value that its schema does not have, with those of nested values."""
    schema = SCHEMA[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "anyOf" in schema:
        return min((unknown_keys(value, one) for one in schema["anyOf"]), key=len)
    if isinstance(value, list):
        return [key for item in value for key in unknown_keys(item, schema.get("items", {}))]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    nested = [key for name, item in value.items() if name in known for key in unknown_keys(item, known[name])]
    return [*(name for name in value if name not in known), *nested]


def has_keys_of(name: str) -> Callable[[Any], bool]:
    return lambda value: unknown_keys(value, SCHEMA[name]) == []


# Page -> what each JSON value on it has to be.
SHAPES: dict[str, Callable[[Any], bool]] = {
    "docs/api.md": has_keys_of("BatchAnswer"),
    "docs/generators.md": lambda value: value.keys() in ({"prompt", "n", "seed", "size", "model"}, {"images"}),
    "docs/modality-weights.md": lambda value: value.keys() <= {"reference", "words", "without", "target"},
    "docs/recipes/add-a-part.md": has_keys_of("SearchRequest"),
    "docs/searching.md": lambda value: has_keys_of("FacetsRequest" if "of" in value else "SearchRequest")(value),
    "docs/trust.md": has_keys_of("FeedbackRequest"),
    "docs/monitoring.md": lambda value: {"event", "request_id", "level", "timestamp"} <= value.keys(),
}


def values_of(code: str) -> list[Any]:
    """JSON values one after the other; `[…]` stands for a list that is not shown."""
    code = code.replace("[…]", "[]").strip()
    values, at = [], 0
    while at < len(code):
        value, end = json.JSONDecoder().raw_decode(code, at)
        values.append(value)
        at = end + len(code[end:]) - len(code[end:].lstrip())
    return values


@pytest.mark.parametrize("block", in_language("json"), ids=place)
def test_json_blocks_have_the_shape_that_the_page_speaks_of(block: Block) -> None:
    values = values_of(block.code)
    assert values
    assert all(SHAPES[block.page](value) for value in values)


@pytest.mark.parametrize("statement", [one for one in COMMANDS if "/v1/" in one.text], ids=place)
def test_requests_over_http_name_routes_that_exist(statement: Statement) -> None:
    paths = json.loads((ROOT / "schemas" / "openapi.json").read_text("utf-8"))["paths"]
    for path in re.findall(r"(/v1/[\w/{}-]+)", statement.text):
        assert any(re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", known), path) for known in paths), path
