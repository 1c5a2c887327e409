"""Runs the real command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.models import MODELS


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
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "160",
        **more,
    }


def command(*arguments: str | Path) -> list[str]:
    """The words that start Lodestone with these arguments."""
    return [sys.executable, "-m", "lodestone_cli", *map(str, arguments)]


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
