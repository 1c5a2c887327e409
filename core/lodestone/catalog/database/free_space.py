"""Erasure of what was deleted from the catalog's file: free pages that older versions left, and the write-ahead log.

Every connection overwrites what it deletes (`secure_delete`). A file that was written without this is copied once, by VACUUM;
`user_version` notes that. The log holds pages as they were before, until it is written back and cut.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from lodestone.catalog.database.engine import CatalogBase, translated_errors
from lodestone.errors import CatalogError, OutOfSpaceError

_CLEAN: Final = 1  # `user_version` of a file in which no free byte holds deleted rows
_RETRY_S: Final = 0.1


class FreeSpaceRows(CatalogBase):
    """Part of the catalog that erases what was deleted from its file."""

    def erase_free_space(self, *, wait_s: float = 5.0) -> int:
        """Erase deleted rows from the bytes of an SQLite file; return how many bytes may still hold some.

        They remain while another process reads an older state, or where the disk has no room for a copy of the file. On a
        server, the space of deleted rows is given back to be written over; when that happens is the server's affair.

        Args:
            wait_s: Seconds to wait for readers of other processes.
        """
        with translated_errors(), self._engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            connection.rollback()  # nothing of this works inside a transaction
            if connection.dialect.name != "sqlite":
                raw.autocommit = True
                try:
                    raw.execute("VACUUM")
                finally:
                    raw.autocommit = False
                return 0
            remaining = 0 if _number(raw, "user_version") == _CLEAN else _vacuum(raw)
            patience = _number(raw, "busy_timeout")
            raw.execute("PRAGMA busy_timeout=0")  # else SQLite itself waits for readers, and longer than it was asked to here
            try:
                end = time.monotonic() + wait_s
                while _number(raw, "wal_checkpoint(TRUNCATE)"):  # 1: somebody reads an older state
                    if time.monotonic() > end:
                        return remaining + self.log_bytes()
                    time.sleep(_RETRY_S)
            finally:
                raw.execute(f"PRAGMA busy_timeout={patience}")
        return remaining

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log of an SQLite file, in bytes; 0 for a server."""
        database = self._engine.url.database
        if self._engine.dialect.name != "sqlite" or not database:
            return 0
        log = Path(f"{database}-wal")
        return log.stat().st_size if log.exists() else 0


def _vacuum(raw: Any) -> int:  # noqa: ANN401 - a DBAPI connection
    """Write the file anew without free pages; return its size in bytes if that is not possible now."""
    try:
        with translated_errors():
            raw.execute("VACUUM")
            raw.execute(f"PRAGMA user_version={_CLEAN}")
    except (CatalogError, OutOfSpaceError):
        return _number(raw, "page_count") * _number(raw, "page_size")
    return 0


def _number(raw: Any, pragma: str) -> int:  # noqa: ANN401 - a DBAPI connection
    return int(raw.execute(f"PRAGMA {pragma}").fetchone()[0])
