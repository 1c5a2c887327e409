"""States of guide engines that were switched or reordered at run time, overriding the settings."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring
from lodestone.catalog.records import EngineState


class EngineRows(CatalogBase):
    """Part of the catalog that keeps the states of guide engines."""

    def engine_states(self) -> dict[str, EngineState]:
        """Return what was set for each engine, by name; engines that follow the settings are left out."""
        table = tables.engine_states
        with self._reading() as connection:
            rows = connection.execute(select(table).order_by(table.c.name))
            return {row.name: EngineState(row.enabled, row.priority) for row in rows}

    def set_engine(self, name: str, enabled: bool | None = None, priority: int | None = None) -> EngineState:
        """Switch an engine on or off, or change its priority, and return its state; None leaves a value unchanged."""
        table = tables.engine_states
        values = {"enabled": enabled, "priority": priority}
        changed = {column: value for column, value in values.items() if value is not None}

        def change(connection: Connection) -> EngineState:
            if changed:
                insert_ignoring(connection, table, [{"name": name, "enabled": None, "priority": None}])
                connection.execute(update(table).where(table.c.name == name).values(**changed))
            row = connection.execute(select(table.c.enabled, table.c.priority).where(table.c.name == name)).first()
            return EngineState() if row is None else EngineState(*row)

        return self._write(change)

    def reset_engine(self, name: str) -> None:
        """Make an engine follow the settings again; an unknown one is a no-op."""
        table = tables.engine_states
        self._write(lambda connection: connection.execute(delete(table).where(table.c.name == name)))
