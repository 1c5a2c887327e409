"""Tests of the prose in the code: docstrings are full sentences, and no first line is a question."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("client", "core", "jobs", "serve", "cli", "benchmarks", "scripts", "monitoring")
FEWEST_WORDS = 4


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "lineno", 1), text


def faults(source: str) -> list[str]:
    """What is wrong with the docstrings of a module, as `line: docstring: fault`."""
    found = []
    for line, text in _docstrings(source):
        first = text.split("\n\n", 1)[0].replace("\n", " ")
        sentence = re.split(r"(?<=[.?!])\s", first, maxsplit=1)[0]
        if sentence.rstrip("`*'\"").endswith("?"):
            found.append(f"{line}: {sentence!r}: a question")
        if len(text.split()) < FEWEST_WORDS:
            found.append(f"{line}: {text!r}: fewer than {FEWEST_WORDS} words")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_sentences_and_no_questions(folder: str) -> None:
    paths = [
        path
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "build" not in path.relative_to(ROOT / folder).parts[:1] or folder != "client"
    ]
    assert paths

    assert [f"{path.relative_to(ROOT)}:{fault}" for path in paths for fault in faults(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("docstring", "count"),
    [
        ("How is a query answered? By one pipeline that yields events.", 1),
        ("Of the point.", 1),
        ("See `Services.explain`.", 1),
        ("Which picture is meant?", 1),
        ("Why?", 2),
        ("Return the pictures most like this one.", 0),
        ("A bounded queue. What is refused? All that comes too late.", 0),
    ],
)
def test_questions_and_fragments_are_found(docstring: str, count: int) -> None:
    assert len(faults(f'def f():\n    """{docstring}"""')) == count
