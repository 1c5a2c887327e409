"""What was learnt here, which of it is in use, and what do collection aliases point at?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import upsert
from lodestone.catalog.records import Artifact
from lodestone.errors import UnknownNameError


class ArtifactRows(CatalogBase):
    """Artifacts and aliases."""

    def add_artifact(self, kind: str, version: str, path: str, metrics: Mapping[str, Any]) -> Artifact:
        """Record something learnt, not active yet; the same kind and version again replaces path and metrics."""

        def change(connection: Connection) -> Artifact:
            table = tables.artifacts
            known = connection.execute(select(table.c.active).where(table.c.kind == kind, table.c.version == version)).scalar()
            artifact = Artifact(kind, version, path, bool(known), dict(metrics), datetime.now(UTC))
            upsert(connection, table, [{name: getattr(artifact, name) for name in Artifact.__slots__}])
            return artifact

        return self._write(change)

    def activate_artifact(self, kind: str, version: str) -> None:
        """Make this version the active one of its kind, in place of any other.

        Raises:
            UnknownNameError: that version was never added.
        """
        table = tables.artifacts

        def change(connection: Connection) -> None:
            known = list(connection.execute(select(table.c.version).where(table.c.kind == kind)).scalars())
            if version not in known:
                raise UnknownNameError.among(f"{kind} version", version, known)
            connection.execute(update(table).where(table.c.kind == kind).values(active=table.c.version == version))

        self._write(change)

    def deactivate_artifacts(self, kind: str) -> None:
        """Have no version of this kind active: back to what ships with Lodestone."""
        table = tables.artifacts
        self._write(lambda connection: connection.execute(update(table).where(table.c.kind == kind).values(active=False)))

    def active_artifact(self, kind: str) -> Artifact | None:
        """The version in use; None when none was activated."""
        table = tables.artifacts
        with self._reading() as connection:
            found = connection.execute(select(table).where(table.c.kind == kind, table.c.active)).first()
        return None if found is None else Artifact(*found)

    def artifacts(self, kind: str) -> list[Artifact]:
        """All versions of a kind, newest first."""
        table = tables.artifacts
        query = select(table).where(table.c.kind == kind).order_by(table.c.created_at.desc(), table.c.version)
        with self._reading() as connection:
            return [Artifact(*row) for row in connection.execute(query)]

    def alias_table(self) -> CatalogAliases:
        """Collection aliases, for a store that has none of its own."""
        return CatalogAliases(self._engine)


class CatalogAliases(CatalogBase):
    """Alias -> collection name, kept in the catalog (the store's `AliasTable`)."""

    def get(self, alias: str) -> str | None:
        """The collection that `alias` points at; None when there is no such alias."""
        with self._reading() as connection:
            return connection.execute(select(tables.aliases.c.collection).where(tables.aliases.c.alias == alias)).scalar()

    def set(self, alias: str, collection: str) -> None:
        """Point `alias` at `collection`, whether or not it existed."""
        self._write(lambda connection: upsert(connection, tables.aliases, [{"alias": alias, "collection": collection}]))

    def delete(self, alias: str) -> None:
        """Forget `alias`; a missing one is a no-op."""
        self._write(lambda connection: connection.execute(delete(tables.aliases).where(tables.aliases.c.alias == alias)))

    def all(self) -> dict[str, str]:
        """All aliases."""
        with self._reading() as connection:
            return {
                row.alias: row.collection for row in connection.execute(select(tables.aliases).order_by(tables.aliases.c.alias))
            }
