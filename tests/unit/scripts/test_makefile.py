"""Tests of the Makefile's targets for people who only want to search: what they would run, without running it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def planned(target: str, venv: Path) -> str:
    """Return the commands that `make TARGET` would run with this virtual environment."""
    arguments = ["make", "--dry-run", "--always-make" if not venv.exists() else "--no-print-directory", target, f"VENV={venv}"]
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["install", "demo"])
def test_searching_and_the_demonstration_need_no_tools_of_development(target: str, tmp_path: Path) -> None:
    commands = planned(target, tmp_path / "venv")

    assert "[demo]" in commands
    assert "requirements-models.txt" in commands
    assert "[dev" not in commands
    assert "requirements-tests.txt" not in commands


def test_setup_installs_the_tools_of_development(tmp_path: Path) -> None:
    assert "[dev,docs]" in planned("setup", tmp_path / "venv")


def test_an_environment_of_development_serves_the_demonstration_too(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    (venv / ".ready").touch()

    assert "pip install" not in planned("demo", venv)


def test_a_python_that_is_too_new_is_refused_before_packages_are_looked_for(tmp_path: Path) -> None:
    check = next(line for line in planned("install", tmp_path / "venv").splitlines() if "version_info" in line)

    assert "3.11 to 3.13" in check
    assert check.strip().startswith("python3 -c")
