"""The home's id in the catalog, and the version of what its collections know of pictures.

On a server, folders on several machines share one catalog and thereby one id.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import insert_ignoring, upsert

_ID = "home_id"
_FACTS = "facts_version"


class HomeRows(CatalogBase):
    """Part of the catalog that keeps the home's id, and the version of the facts in its collections.

    An SQLite file has it too, so that a lost `home.json` can be written again.
    """

    def home_id(self, *, otherwise: str, only_if_new: bool = False) -> str | None:
        """Return the home's id, and store `otherwise` as the id if there is none yet.

        Args:
            otherwise: Id to store.
            only_if_new: True if `otherwise` was just generated: a catalog that already has a corpus, and so belonged to another
                home, does not store it.

        Returns:
            The id; None if the catalog has none and does not store this one.
        """
        table = tables.home_facts
        query = select(table.c.value).where(table.c.name == _ID)
        stored = self.known_home_id()
        if stored is not None:
            return stored

        def change(connection: Connection) -> str | None:
            any_corpus = select(tables.corpora.c.corpus_id).limit(1)
            if only_if_new and connection.execute(any_corpus).first() is not None:
                current: str | None = connection.execute(query).scalar_one_or_none()  # in the same transaction
                return current
            insert_ignoring(connection, table, [{"name": _ID, "value": otherwise}])
            return str(connection.execute(query).scalar_one())

        return self._write(change)

    def known_home_id(self) -> str | None:
        """Return the home's id; None if the catalog has none."""
        with self._reading() as connection:
            table = tables.home_facts
            stored: str | None = connection.execute(select(table.c.value).where(table.c.name == _ID)).scalar_one_or_none()
        return stored

    def set_home_id(self, home_id: str) -> None:
        """Set the home's id, for a catalog that replaces a lost home's."""
        self._write(lambda connection: upsert(connection, tables.home_facts, [{"name": _ID, "value": home_id}]))

    def renew_facts(self, version: int) -> bool:
        """Record that collections get the facts of pictures in this version from now on.

        Where they had an earlier one, all loads are forgotten, so that every point is written again. A later one stays: it is
        that of a newer Lodestone, which works on the same catalog.

        Returns:
            Whether loads were forgotten.
        """
        with self._reading() as connection:
            if _facts_version(connection) >= version:
                return False

        def change(connection: Connection) -> bool:
            if _facts_version(connection) >= version:  # another process was faster
                return False
            upsert(connection, tables.home_facts, [{"name": _FACTS, "value": str(version)}])
            return bool(connection.execute(delete(tables.loads)).rowcount)

        return self._write(change)

    def lacks_facts(self, version: int) -> bool:
        """Return whether collections hold pictures with facts of an earlier version, or with none."""
        with self._reading() as connection:
            if _facts_version(connection) >= version:
                return False
            return connection.execute(select(tables.loads.c.slice_id).limit(1)).first() is not None


def _facts_version(connection: Connection | RetryingReader) -> int:
    """Return the version of the facts in collections; 0 where they have none."""
    table = tables.home_facts
    stored: str | None = connection.execute(select(table.c.value).where(table.c.name == _FACTS)).scalar_one_or_none()
    return int(stored or 0)
