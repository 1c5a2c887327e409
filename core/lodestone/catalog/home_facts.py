"""Which home is a catalog of? On a server, folders on several machines share one, and with it the home's id."""

from __future__ import annotations

from sqlalchemy import Connection, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring, upsert

_ID = "home_id"


class HomeRows(CatalogBase):
    """The home's id. In an SQLite file there is none: such a catalog lies in its home, whose `home.json` has the id."""

    def home_id(self, *, otherwise: str, only_if_new: bool = False) -> str | None:
        """The home's id; the first time, `otherwise` becomes it.

        Args:
            otherwise: An id.
            only_if_new: The id is made up: a catalog with a corpus, which has been another home's, does not take it.

        Returns:
            The id; None when the catalog has none and does not take this one.
        """
        table = tables.home_facts
        query = select(table.c.value).where(table.c.name == _ID)
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return found

        def change(connection: Connection) -> str | None:
            used = select(tables.corpora.c.corpus_id).limit(1)
            if only_if_new and connection.execute(used).first() is not None:
                there: str | None = connection.execute(query).scalar_one_or_none()  # as of the same moment
                return there
            insert_ignoring(connection, table, [{"name": _ID, "value": otherwise}])
            return str(connection.execute(query).scalar_one())

        return self._write(change)

    def set_home_id(self, home_id: str) -> None:
        """The catalog takes the place of a lost home's."""
        self._write(lambda connection: upsert(connection, tables.home_facts, [{"name": _ID, "value": home_id}]))
