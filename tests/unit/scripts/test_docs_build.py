"""Tests of the command that builds the documentation: a link to a heading that does not exist must fail it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]


def mkdocs_command() -> list[str]:
    """Return the arguments with which `make docs` calls mkdocs."""
    lines = [line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "/mkdocs build" in line]
    assert len(lines) == 1
    return lines[0].split("/mkdocs ")[1].split()


@pytest.mark.parametrize(("anchor", "passes"), [("there", True), ("nowhere", False)])
def test_a_link_to_a_missing_heading_fails_the_build(tmp_path: Path, anchor: str, passes: bool) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8")) | {"nav": ["index.md", "other.md"]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings), "utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n[link](other.md#{anchor})\n", "utf-8")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\n## There\n", "utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", *mkdocs_command()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (result.returncode == 0) is passes, result.stderr
    assert ("does not contain an anchor '#nowhere'" in result.stderr) is not passes
    shutil.rmtree(tmp_path / "site", ignore_errors=True)
