"""Tests of the links of all pages: files of the repository exist, and headings that a link names are on the page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from scripts import api_reference
from tests.support.documents import ROOT, anchors_of, links_of, name_of, pages

REFERENCE = ROOT / "docs" / "reference"
OUTSIDE = re.compile(r"^(https?|mailto):")


@cache
def reference() -> dict[Path, str]:
    """Pages that the build of the documentation writes, by path."""
    return {REFERENCE / name: text for name, text in api_reference.all_pages().items()}


@cache
def anchors(page: Path) -> set[str]:
    return anchors_of(reference()[page] if page in reference() else page.read_text(encoding="utf-8"))


def faults(text: str, page: Path) -> list[str]:
    """What is wrong with the links of a page, as `line: target: fault`."""
    found = []
    for line, target in links_of(text):
        if OUTSIDE.match(target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() and goal not in reference():
            found.append(f"{line}: {target}: there is no such file")
        elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
            found.append(f"{line}: {target}: the page has no such heading")
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8"), page) == []


@pytest.mark.parametrize("page", [page for page in pages() if page.is_relative_to(ROOT / "docs")], ids=name_of)
def test_pages_of_the_documentation_link_to_nothing_outside_their_folder(page: Path) -> None:
    """The built site holds the folder docs/ alone, so such a link would be dead there."""
    targets = [target.partition("#")[0] for _, target in links_of(page.read_text("utf-8")) if not OUTSIDE.match(target)]

    assert [target for target in targets if not (page.parent / target).resolve().is_relative_to(ROOT / "docs")] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[there](quality.md#embedded-large) and [back](../README.md)", 0),
        ("[nowhere](nowhere.md)", 1),
        ("![no picture](nowhere.png)", 1),
        ("[`code`](quality.md#nowhere)", 1),
        ("`[in code](nowhere.md)`", 0),
        ("```text\n[in a block](nowhere.md)\n```", 0),
        ("# Here\n\n[up](#here), [down](#there)", 1),
        ("[a heading of a page that the build writes](reference/settings.md#index)", 0),
    ],
)
def test_dead_links_are_found(tmp_path: Path, text: str, count: int) -> None:
    page = ROOT / "docs" / "page-of-a-test.md"
    anchors.cache_clear()
    found = faults(text, page) if "#here" not in text else _on_its_own(tmp_path, text)
    assert len(found) == count


def _on_its_own(folder: Path, text: str) -> list[str]:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return faults(text, page)


def test_paths_of_pages_in_code_and_messages_exist() -> None:
    folders = (
        "schemas",
        "client",
        "core",
        "evaluation",
        "jobs",
        "serve",
        "cli",
        "web",
        "scripts",
        "benchmarks",
        "research",
        "monitoring",
        "deploy",
    )
    suffixes = {".py", ".js", ".html", ".yaml", ".yml", ".toml", ".sh", ".md"}
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    named = [(path, name) for path in files for name in re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text(encoding="utf-8"))]
    assert named
    assert [(path, name) for path, name in named if not (ROOT / name).exists() and ROOT / name not in reference()] == []
