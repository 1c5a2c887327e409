"""Runs the real command line in a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.models import MODELS
from tests.support.patience import DEADLINE_MS

from lodestone_cli import main


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(home: Path, **more: str) -> dict[str, str]:
    """A clean environment: this home, the tests' model cache, nothing of the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LODESTONE_")}
    return {
        **kept,
        "LODESTONE_HOME": str(home),
        "LODESTONE_MODELS__CACHE": str(MODELS),
        "LODESTONE_QUERY__DEADLINE_MS": str(DEADLINE_MS),
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "160",
        **more,
    }


def command(*arguments: str | Path) -> list[str]:
    """The words that start Lodestone with these arguments."""
    return [sys.executable, "-m", "lodestone_cli", *map(str, arguments)]


@cache
def _load_commands() -> None:
    main._load_commands()


def run_here(*arguments: str | Path, home: Path, **more: str) -> Finished:
    """Run `lodestone ARGUMENTS…` in this process: what a command line means, without paying for a new interpreter."""
    _load_commands()
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with patch.dict(os.environ, environment(home, **more), clear=True), redirect_stdout(out), redirect_stderr(err):
        code = main.run([str(argument) for argument in arguments])
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]  # a BytesIO
    return Finished(code, *texts)


def lodestone(*arguments: str | Path, home: Path, prefix: tuple[str, ...] = (), timeout: float = 240, **more: str) -> Finished:
    """Run `lodestone ARGUMENTS…` and wait for it."""
    done = subprocess.run(
        [*prefix, *command(*arguments)],
        env=environment(home, **more),
        capture_output=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())
