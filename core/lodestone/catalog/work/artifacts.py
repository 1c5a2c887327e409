"""Learnt artifacts, the active version of each kind, collection aliases and switched guide engines in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, delete, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring, upsert
from lodestone.catalog.database.unchanged import UnchangedFacts
from lodestone.catalog.records import Artifact, EngineState
from lodestone.errors import UnknownNameError


class ArtifactRows(CatalogBase):
    """Part of the catalog that keeps artifacts and aliases."""

    def add_artifact(self, kind: str, version: str, path: str, metrics: Mapping[str, Any]) -> Artifact:
        """Record an artifact that is not active yet; the same kind and version again replaces path and metrics."""

        def change(connection: Connection) -> Artifact:
            table = tables.artifacts
            was_active = connection.execute(
                select(table.c.active).where(table.c.kind == kind, table.c.version == version)
            ).scalar()
            artifact = Artifact(kind, version, path, bool(was_active), dict(metrics), datetime.now(UTC))
            upsert(connection, table, [{name: getattr(artifact, name) for name in Artifact.__slots__}])
            return artifact

        return self._write(change)

    def activate_artifact(self, kind: str, version: str) -> None:
        """Make this version the active one of its kind, in place of any other.

        Raises:
            UnknownNameError: That version was never added.
        """
        table = tables.artifacts

        def change(connection: Connection) -> None:
            versions = list(connection.execute(select(table.c.version).where(table.c.kind == kind)).scalars())
            if version not in versions:
                raise UnknownNameError.among(f"{kind} version", version, versions)
            connection.execute(update(table).where(table.c.kind == kind).values(active=table.c.version == version))

        self._write(change)

    def deactivate_artifacts(self, kind: str) -> None:
        """Deactivate all versions of this kind, so that the one shipped with Lodestone is used again."""
        table = tables.artifacts
        self._write(lambda connection: connection.execute(update(table).where(table.c.kind == kind).values(active=False)))

    def active_artifact(self, kind: str) -> Artifact | None:
        """Return the active version of a kind, or None."""
        table = tables.artifacts
        with self._reading() as connection:
            row = connection.execute(select(table).where(table.c.kind == kind, table.c.active)).first()
        return None if row is None else Artifact(*row)

    def artifacts(self, kind: str) -> list[Artifact]:
        """Return all versions of a kind, newest first."""
        table = tables.artifacts
        query = select(table).where(table.c.kind == kind).order_by(table.c.created_at.desc(), table.c.version)
        with self._reading() as connection:
            return [Artifact(*row) for row in connection.execute(query)]

    def alias_table(self) -> CatalogAliases:
        """Return the table of collection aliases, for a store that has none of its own."""
        return CatalogAliases(self._engine, self._facts)


class CatalogAliases(CatalogBase):
    """Table of collection aliases in the catalog; it implements the store's `AliasTable`.

    Args:
        engine: The catalog's.
        facts: The catalog's, which closes them.
    """

    def __init__(self, engine: Engine, facts: UnchangedFacts | None) -> None:
        super().__init__(engine)
        self._facts = facts

    def get(self, alias: str) -> str | None:
        """Return the collection that `alias` points at; None if there is no such alias."""
        with self._reading() as connection:
            return connection.execute(select(tables.aliases.c.collection).where(tables.aliases.c.alias == alias)).scalar()

    def set(self, alias: str, collection: str) -> None:
        """Point `alias` at `collection`, whether or not the alias existed."""
        self._write(lambda connection: upsert(connection, tables.aliases, [{"alias": alias, "collection": collection}]))

    def delete(self, alias: str) -> None:
        """Delete `alias`; a missing one is a no-op."""
        self._write(lambda connection: connection.execute(delete(tables.aliases).where(tables.aliases.c.alias == alias)))

    def all(self) -> dict[str, str]:
        """Return all aliases with their collections."""

        def read() -> dict[str, str]:
            aliases = select(tables.aliases).order_by(tables.aliases.c.alias)
            with self._reading() as connection:
                return {row.alias: row.collection for row in connection.execute(aliases)}

        return dict(self._unchanged("aliases", read))


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
