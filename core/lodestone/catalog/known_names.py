"""Names and ids in a home's SQLite file, read without SQLAlchemy, for a shell that completes what somebody types.

Whatever goes wrong here, nothing is known: completion never fails, and never waits for a writer.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from lodestone.catalog.file_places import read_only_address

_MOST: Final = 50
_WAIT_S: Final = 0.2

# Kind of name -> query of (name, remark); `?1` is the beginning of the name, `?2` the first text after all that begin so.
_QUERIES: Final = {
    "corpus": "SELECT name, '' FROM corpora WHERE name >= ?1 AND name < ?2 ORDER BY name",
    "root": "SELECT DISTINCT name, path FROM roots WHERE name >= ?1 AND name < ?2 ORDER BY name",
    "picture": "SELECT image_id, uri FROM images WHERE image_id >= ?1 AND image_id < ?2 ORDER BY image_id",
    "query": "SELECT query_id, text FROM queries WHERE query_id >= ?1 AND query_id < ?2 ORDER BY created_at DESC",
    "run": "SELECT run_id, kind || ' ' || state FROM runs WHERE run_id >= ?1 AND run_id < ?2 ORDER BY started_at DESC",
}
_AFTER: Final = "\U0010ffff"


def known_names(file: Path, kind: str, beginning: str) -> list[tuple[str, str]]:
    """Return names of one kind that begin so, each with a remark, 50 at most; the newest first where they have an age.

    Args:
        file: SQLite file of the catalog.
        kind: corpus, root, picture, query or run.
        beginning: What was typed so far.
    """
    try:
        with closing(sqlite3.connect(read_only_address(file), uri=True, timeout=_WAIT_S)) as connection:
            rows = connection.execute(f"{_QUERIES[kind]} LIMIT {_MOST}", (beginning, beginning + _AFTER))
            return [(str(name), str(remark)) for name, remark in rows]
    except (sqlite3.Error, OSError, ValueError):
        return []
