"""Tests of the prose in the code: docstrings are full sentences, and no first line is a question."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FEWEST_WORDS = 4
# Folder -> the fewest words of a docstring there; those of tests may be short, and are no questions either.
FOLDERS = dict.fromkeys(
    ("client", "core", "evaluation", "jobs", "serve", "cli", "benchmarks", "research", "scripts", "monitoring"), FEWEST_WORDS
)
FOLDERS["tests"] = 0


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "lineno", 1), text


def faults(source: str, *, fewest_words: int = FEWEST_WORDS) -> list[str]:
    """What is wrong with the docstrings of a module, as `line: docstring: fault`."""
    found = []
    for line, text in _docstrings(source):
        first = text.split("\n\n", 1)[0].replace("\n", " ")
        sentence = re.split(r"(?<=[.?!])\s", first, maxsplit=1)[0]
        if sentence.rstrip("`*'\"").endswith("?"):
            found.append(f"{line}: {sentence!r}: a question")
        if len(text.split()) < fewest_words:
            found.append(f"{line}: {text!r}: fewer than {fewest_words} words")
    return found


@pytest.mark.parametrize(("folder", "fewest_words"), FOLDERS.items())
def test_docstrings_are_sentences_and_no_questions(folder: str, fewest_words: int) -> None:
    paths = [
        path
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "build" not in path.relative_to(ROOT / folder).parts[:1] or folder != "client"
    ]
    assert paths

    found = {str(path.relative_to(ROOT)): faults(path.read_text("utf-8"), fewest_words=fewest_words) for path in paths}
    assert {path: some for path, some in found.items() if some} == {}


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


def test_tests_may_be_terse_and_are_no_questions() -> None:
    assert faults('"""Of the point."""', fewest_words=FOLDERS["tests"]) == []
    assert len(faults('"""Why?"""', fewest_words=FOLDERS["tests"])) == 1
