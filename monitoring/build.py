"""Build of the monitoring files: dashboards as JSON, and the rules of the objectives.

`python -m monitoring.build` writes them, `--check` says whether the committed files are current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from monitoring import slo
from monitoring.boards.jobs import jobs
from monitoring.boards.quality import quality
from monitoring.boards.service import service
from monitoring.panels import as_json

FOLDER: Final = Path(__file__).resolve().parent
DASHBOARDS: Final = {"service": service, "jobs": jobs, "quality": quality}
"""File name -> what makes it."""


def made() -> dict[Path, str]:
    """Return the content of every generated file."""
    boards = {FOLDER / "dashboards" / f"{name}.json": as_json(make()) for name, make in DASHBOARDS.items()}
    return {**boards, FOLDER / "rules" / "slo.yml": slo.text()}


def stale() -> list[str]:
    """Return the names of committed files that differ from what the code makes."""
    return [str(path.relative_to(FOLDER)) for path, text in made().items() if not path.exists() or path.read_text() != text]


def main(arguments: list[str]) -> int:
    """Write the files, or check them; return the exit code."""
    if arguments == ["--check"]:
        found = stale()
        for name in found:
            sys.stderr.write(f"monitoring/{name} is not current: run python -m monitoring.build\n")
        return 1 if found else 0
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
