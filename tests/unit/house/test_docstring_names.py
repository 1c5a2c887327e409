"""What docstrings and comments name exists: the modules, and the arguments and attributes that they describe."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("client", "core", "evaluation", "jobs", "serve", "cli", "benchmarks", "research", "scripts", "monitoring")
# A module of a project that ours is compared with, by its path there; and one that users may have.
ELSEWHERE = frozenset({"backend/initialize.py", "lodestone.py"})
_MODULE = re.compile(r"(?<![\w./-])(?:\w+/)*\w+\.py\b")
_NAMES = re.compile(r"(?:^|(?<=\. ))\*{0,2}([a-z_]\w*(?:, [a-z_]\w*)*)(?: \([^)]*\))?:")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(folder: str) -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if name.endswith(".py") and (ROOT / name).exists():
            yield name, (ROOT / name).read_text("utf8")


def prose(source: str) -> Iterator[str]:
    """Yield the docstrings and the comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, *Function.__args__)):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def described(docstring: str, section: str) -> list[str]:
    """Return the names that a section of a docstring describes; only lines at its own indentation begin with one."""
    _, found, rest = docstring.partition(f"{section}:\n")
    names: list[str] = []
    if not found:
        return names
    margin = len(rest) - len(rest.lstrip(" "))
    for line in rest.splitlines():
        indentation = len(line) - len(line.lstrip(" "))
        if line.strip() and indentation < margin:
            break
        if indentation == margin:
            names += [name for group in _NAMES.findall(line.strip()) for name in group.split(", ")]
    return names


def arguments(function: Function) -> set[str]:
    given = function.args
    several = [one for one in (given.vararg, given.kwarg) if one is not None]
    return {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several)}


def members(one: ast.ClassDef) -> set[str]:
    """Return the fields, attributes and methods of a class, and what it is made of."""
    found = {node.id for statement in one.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    for node in ast.walk(one):
        if isinstance(node, Function):
            found |= {node.name} | (arguments(node) if node.name == "__init__" else set())
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add(node.attr)
    return found


def unknown(source: str) -> list[str]:
    """Return what the docstrings of a module describe and its code has not, as `function or class: name`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            has, says = arguments(node), described(ast.get_docstring(node) or "", "Args")
        elif isinstance(node, ast.ClassDef) and not node.bases:  # others may have inherited it
            docstring = ast.get_docstring(node) or ""
            has, says = members(node), described(docstring, "Attributes") + described(docstring, "Args")
        else:
            continue
        found += [f"{node.name}: {name}" for name in says if name not in has]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_described_arguments_and_attributes_exist(folder: str) -> None:
    assert [f"{path}: {fault}" for path, source in sources(folder) for fault in unknown(source)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_that_prose_names_exist(folder: str) -> None:
    files = {f"/{path}" for one in (*FOLDERS, "tests") for path, _ in sources(one)}
    missing = [
        f"{path}: {name}"
        for path, source in sources(folder)
        for text in prose(source)
        for name in _MODULE.findall(text)
        if name not in ELSEWHERE and not any(file.endswith(f"/{name}") for file in files)
    ]
    assert missing == []


def test_what_is_described_and_gone_is_found() -> None:
    source = '''
class Draw:
    """State of a draw.

    Attributes:
        purse: Budget of the query.
        log: Notes
            of: the query. done: What is over.
    """

    budget: int
    log: str

    def ask(self, engine, *others):
        """Ask.

        Args:
            engine, prompt: Whom, and what (see gone.py).
            others (list): More of them.

        Returns:
            nothing: really.
        """
'''
    assert unknown(source) == ["Draw: purse", "ask: prompt"]
    assert [name for text in prose(source + "# as in away.py\n") for name in _MODULE.findall(text)] == ["gone.py", "away.py"]
