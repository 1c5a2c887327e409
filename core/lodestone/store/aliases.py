"""Alias tables for engines without aliases of their own: a protocol that the catalog implements, and a JSON file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Protocol

from lodestone.durable_files import write_atomically
from lodestone.errors import StoreError


class AliasTable(Protocol):
    """Table from alias to collection name. Each method is atomic and durable when it returns."""

    def get(self, alias: str) -> str | None:
        """Return the name of the alias's collection, or None."""

    def set(self, alias: str, collection: str) -> None:
        """Point the alias at the collection."""

    def delete(self, alias: str) -> None:
        """Delete the alias; a missing one is a no-op."""

    def all(self) -> dict[str, str]:
        """Return every alias with its collection."""


class JsonAliasTable:
    """Alias table in one JSON file, which is replaced as a whole at each change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def get(self, alias: str) -> str | None:
        """Return the name of the alias's collection, or None."""
        return self.all().get(alias)

    def set(self, alias: str, collection: str) -> None:
        """Point the alias at the collection, and replace the file."""
        with self._lock:
            self._write({**self.all(), alias: collection})

    def delete(self, alias: str) -> None:
        """Delete the alias if it exists, and replace the file."""
        with self._lock:
            table = self.all()
            if table.pop(alias, None) is not None:
                self._write(table)

    def all(self) -> dict[str, str]:
        """Return every alias with its collection.

        Raises:
            StoreError: The file is not a JSON object of names.
        """
        try:
            table = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise self._unreadable() from error
        if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
            raise self._unreadable()
        return table

    def _write(self, table: dict[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(table, indent=1, sort_keys=True))

    def _unreadable(self) -> StoreError:
        return StoreError(
            f"alias table {self._path} is not a JSON object of collection names",
            hint="delete the file and promote the collections again (`lodestone index` does)",
            path=str(self._path),
        )
