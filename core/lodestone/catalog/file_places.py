"""Places of pictures, read from a home's SQLite file without SQLAlchemy, whose import takes longer than a search.

For commands that show an answer of the running service. Whatever goes wrong here, the catalog answers instead, or explains.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

_AT_ONCE: Final = 500  # below SQLite's limit on variables
_WAIT_S: Final = 5.0
_LOOKED_AT: Final = 10_000  # pictures


class FilePlace(NamedTuple):
    """Place of a picture: the path and kind of its root, its uri there, and its position inside an archive or table."""

    path: str
    kind: str
    uri: str
    position: int | None


def read_places(file: Path, image_ids: Sequence[str]) -> dict[str, FilePlace] | None:
    """Return image id -> place of the pictures that the catalog knows; None if the file cannot be read this way."""
    places: dict[str, FilePlace] = {}
    ids = list(dict.fromkeys(image_ids))
    try:
        with _opened(file) as connection:
            for start in range(0, len(ids), _AT_ONCE):
                some = ids[start : start + _AT_ONCE]
                query = (
                    "SELECT image_id, path, kind, uri, position FROM images JOIN roots USING (root_id)"  # noqa: S608 - marks alone
                    f" WHERE image_id IN ({', '.join('?' * len(some))})"
                )
                places |= {image_id: FilePlace(*place) for image_id, *place in connection.execute(query, some)}
    except sqlite3.Error:
        return None
    return {image_id: places[image_id] for image_id in ids if image_id in places}


def count_corpora(file: Path) -> int | None:
    """Return the number of corpora; None if the file cannot be read this way."""
    try:
        with _opened(file) as connection:
            return int(connection.execute("SELECT count(*) FROM corpora").fetchone()[0])
    except sqlite3.Error:
        return None


def count_running(file: Path) -> int | None:
    """Return the number of runs that count as running; None if the file cannot be read this way."""
    try:
        with _opened(file) as connection:
            return int(connection.execute("SELECT count(*) FROM runs WHERE state = 'running'").fetchone()[0])
    except sqlite3.Error:
        return None


def folders_named(file: Path, name: str) -> list[str]:
    """Return folders inside the roots whose own names hold `name`, whatever its case, in order; [] if that cannot be read."""
    marked = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    query = f"SELECT uri FROM images WHERE state != 'gone' AND uri LIKE ? ESCAPE '\\' LIMIT {_LOOKED_AT}"  # noqa: S608 - a number
    try:
        with _opened(file) as connection:
            uris = [str(uri) for (uri,) in connection.execute(query, (f"%{marked}%/%",))]
    except sqlite3.Error:
        return []
    folders = (folder for uri in uris for folder in PurePosixPath(uri).parents)
    return sorted({str(folder) for folder in folders if name.casefold() in folder.name.casefold()})


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(read_only_address(file), uri=True, timeout=_WAIT_S)) as connection:
        yield connection


def read_only_address(file: Path) -> str:
    """Return the URI by which SQLite opens a file without writing anything."""
    # A reader of a file that no process has open would make the files of its log, also on a disk that is full or read-only.
    unused = not file.with_name(f"{file.name}-wal").exists()
    return f"{file.absolute().as_uri()}?mode=ro{'&immutable=1' if unused else ''}"
