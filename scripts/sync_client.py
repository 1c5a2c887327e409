"""Generator of the synchronous client from the asynchronous one: `python -m scripts.sync_client` writes it.

Every `async_*.py` of the client has a `sync_*.py`: the same code without awaiting, by the table of names below. `--check` fails
if the committed files are not current, as a test does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "client" / "lodestone_client"

_NAMES: Final = (
    (r"async_(api|client|transport)", r"sync_\1"),  # modules
    (r"Async(Lodestone|LodestoneApi|Transport|PagedList|Performer)", r"\1"),  # ours
    (r"AsyncIterator", "Iterator"),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"asynccontextmanager", "contextmanager"),
    (r"asyncio", "time"),  # for its sleep
    (r"Async(Client|BaseTransport)", r"\1"),  # httpx
    (r"a(iter_bytes|read|close)", r"\1"),
    (r"async (def|for|with)", r"\1"),
)
_PHRASES: Final = (
    ("await ", ""),
    ("for asynchronous code", "for ordinary code"),
    ("; `sync_api` is made of it", ""),
    ("; `sync_transport` is made of it", ""),
    ("Sends calls within one event loop; an asynchronous context", "Sends calls. Safe to use from several threads; a context"),
    ("for use within one event loop. Close", "safe to use from several threads. Close"),
    ("as an asynchronous context", "as a context"),
)
_LEFT_OVER: Final = re.compile(r"\b(async|await)", re.IGNORECASE)


def main(arguments: list[str]) -> int:
    """Write or check the files; return the exit code."""
    if arguments == ["--check"]:
        names = stale()
        for name in names:
            sys.stderr.write(f"{name} is not current: run python -m scripts.sync_client\n")
        return 1 if names else 0
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
    return 0


def stale() -> list[str]:
    """Return the committed files that differ from what is made of the asynchronous client, as paths in the repository."""
    current = made()
    present = set(FOLDER.glob("sync_*.py"))
    return sorted(
        str(path.relative_to(ROOT))
        for path in present | current.keys()
        if path not in present or path.read_text(encoding="utf-8") != current.get(path)
    )


def made() -> dict[Path, str]:
    """Return file -> content of every synchronous module."""
    return {
        source.with_name(source.name.removeprefix("a")): _formatted(
            f"# Made of {source.name} by `python -m scripts.sync_client`: change that one.\n"
            + synchronous(source.read_text(encoding="utf-8"))
        )
        for source in sorted(FOLDER.glob("async_*.py"))
    }


def synchronous(text: str) -> str:
    """Return the same code without awaiting.

    Raises:
        ValueError: the code holds something asynchronous that the tables above do not name.
    """
    for name, replacement in _NAMES:
        text = re.sub(rf"\b{name}\b", replacement, text)
    for phrase, replacement in _PHRASES:
        text = text.replace(phrase, replacement)
    if left := _LEFT_OVER.search(text):
        line = text[: left.start()].count("\n") + 1
        raise ValueError(f"{text.splitlines()[line - 1].strip()!r} is still asynchronous: name it in scripts/sync_client.py")
    return text


def _formatted(text: str) -> str:
    """Return code with sorted imports and lines broken as the project's format wants them."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FOLDER / "made.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
