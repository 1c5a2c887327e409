"""Which home is a catalog of? On a server, folders on several machines share one, and with it the home's id."""

from __future__ import annotations

from sqlalchemy import Connection, select

from lodestone.catalog import tables
from lodestone.catalog.engine import CatalogBase
from lodestone.catalog.sql import insert_ignoring, upsert

_ID = "home_id"


class HomeRows(CatalogBase):
    """The home's id. In an SQLite file there is none: such a catalog lies in its home, whose `home.json` has the id."""

    def home_id(self, *, otherwise: str) -> str:
        """The home's id; the first time, `otherwise` becomes it."""
        table = tables.home_facts
        query = select(table.c.value).where(table.c.name == _ID)
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return found

        def change(connection: Connection) -> str:
            insert_ignoring(connection, table, [{"name": _ID, "value": otherwise}])
            return str(connection.execute(query).scalar_one())

        return self._write(change)

    def set_home_id(self, home_id: str) -> None:
        """The catalog takes the place of a lost home's."""
        self._write(lambda connection: upsert(connection, tables.home_facts, [{"name": _ID, "value": home_id}]))
