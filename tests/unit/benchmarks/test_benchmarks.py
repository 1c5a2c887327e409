"""Does every part of `make bench` take the arguments that it is given, and explain itself?"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.run import parts


def _help(module: str) -> str:
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_benchmark_has_the_options_that_it_is_run_with(tmp_path: Path) -> None:
    run = parts(tmp_path)
    modules = sorted({part.module for part in run})
    with ThreadPoolExecutor(2) as pool:
        texts = dict(zip(modules, pool.map(_help, modules), strict=True))
    for part in run:
        for option in (word for word in part.arguments if word.startswith("--")):
            assert option in texts[part.module], f"{part.module} has no {option}"
