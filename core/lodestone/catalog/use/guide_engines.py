"""Which guide engines were switched or reordered in use, against what the settings say?"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring
from lodestone.catalog.records import EngineState


class EngineRows(CatalogBase):
    """States of guide engines."""

    def engine_states(self) -> dict[str, EngineState]:
        """Name -> what was set for it; engines left to the settings are not in it."""
        table = tables.engine_states
        with self._reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.name))
            return {row.name: EngineState(row.enabled, row.priority) for row in rows}

    def set_engine(self, name: str, enabled: bool | None = None, priority: int | None = None) -> EngineState:
        """Switch an engine on or off, or move it; what is None stays. Returns what is set now."""
        table = tables.engine_states
        given = {"enabled": enabled, "priority": priority}
        changed = {column: value for column, value in given.items() if value is not None}

        def change(connection: Connection) -> EngineState:
            if changed:
                insert_ignoring(connection, table, [{"name": name, "enabled": None, "priority": None}])
                connection.execute(update(table).where(table.c.name == name).values(**changed))
            found = connection.execute(select(table.c.enabled, table.c.priority).where(table.c.name == name)).first()
            return EngineState() if found is None else EngineState(*found)

        return self._write(change)

    def reset_engine(self, name: str) -> None:
        """Leave an engine to the settings again; an unknown one is a no-op."""
        table = tables.engine_states
        self._write(lambda connection: connection.execute(delete(table).where(table.c.name == name)))
