"""Tests that nobody is told to install `lodestone` from a package index: there, another project has that name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WRONG = re.compile(r"(?:\bpip3?|\buv|\bpipx)\s+(?:pip\s+)?install\b[^\n|#]*?(?<![\w./-])lodestone(?![\w-]*-|[\w/.])")
TEXTS = {".md", ".py", ".toml", ".txt", ".yaml", ".yml", ".cfg", ".sh", "", ".ipynb"}


@pytest.mark.parametrize(
    "line",
    [
        "pip install lodestone",
        "pip install 'lodestone[diffusers]'",
        "uv pip install -U lodestone",
        "pipx install lodestone  # x",
    ],
)
def test_the_wrong_form_is_recognised(line: str) -> None:
    assert WRONG.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install '.[diffusers]'",
        "pip install ./client .",
        "pip install 'lodestone-search[otel]'",
        "pip install lodestone-search-client",
    ],
)
def test_the_right_forms_pass(line: str) -> None:
    assert not WRONG.search(line)


def test_no_page_and_no_hint_installs_a_stranger_s_package() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else []
    files = [ROOT / name for name in names] or [
        path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.is_file() and path.suffix in TEXTS and path != Path(__file__) and path.stat().st_size < 1_000_000
        for line in path.read_text("utf-8", errors="ignore").splitlines()
        if WRONG.search(line)
    ]

    assert wrong == []
