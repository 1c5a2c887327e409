"""How long do `import lodestone`, `lodestone --help` and a cold `lodestone search` take?

Each in new processes, beside bare Python. The search is over the pictures of the demonstration.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import spread, table


def seconds(words: list[str], *, repeats: int, environment: dict[str, str]) -> list[float]:
    """Wall-clock seconds of several runs; the first, which fills the file cache, does not count."""
    taken = []
    for number in range(repeats + 1):
        begin = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, env=environment)
        if number:
            taken.append(time.perf_counter() - begin)
    return taken


def rows(home: Path | None, *, repeats: int) -> list[list[str]]:
    """Table of start-up times; the search only where a home with pictures is given."""
    environment = {**os.environ, **({"LODESTONE_HOME": str(home)} if home else {})}
    cli = [sys.executable, "-m", "lodestone_cli"]
    cases = [
        ("python -c pass (peer)", [sys.executable, "-c", "pass"], "—"),
        ("import lodestone", [sys.executable, "-c", "import lodestone"], "0.3 s"),
        ("lodestone --help", [*cli, "--help"], "0.5 s"),
    ]
    if home:
        cases.append(("lodestone search, cold, in-process", [*cli, "search", "a red bus", "--local"], "5 s"))
    found = [["what", "median [quartiles]", "goal"]]
    for name, words, goal in cases:
        found.append([name, spread(seconds(words, repeats=repeats, environment=environment), " s"), goal])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="a home with pictures, for the cold search")
    parser.add_argument("--scratch", type=Path, help="use the home that the demonstration left below it, making it first")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    home = arguments.home
    if arguments.scratch:
        home = arguments.scratch / "demo-home"
        subprocess.run([sys.executable, "-m", "lodestone_cli", "demo", "--home", home], check=True, capture_output=True)
    print(table(rows(home, repeats=arguments.repeats)))


if __name__ == "__main__":
    main()
