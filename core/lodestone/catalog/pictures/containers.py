"""Archives and tables of a root that were listed completely, so that unchanged ones need not be read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from sqlalchemy import delete, select

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks, upsert
from lodestone.catalog.records import Container


class ContainerRows(CatalogBase):
    """Part of the catalog that keeps archives and tables which hold pictures."""

    def containers(self, root_id: str) -> dict[str, Container]:
        """Return the root's containers by uri."""
        table = tables.containers
        query = select(table).where(table.c.root_id == root_id).order_by(table.c.uri)
        with self._reading() as connection:
            return {row.uri: Container(*row) for row in connection.execute(query)}

    def put_containers(self, containers: Sequence[Container]) -> None:
        """Record containers, replacing what was recorded of them before."""
        if containers:
            self._write(
                lambda connection: upsert(connection, tables.containers, [asdict(container) for container in containers])
            )

    def remove_containers(self, root_id: str, uris: Iterable[str]) -> None:
        """Delete the records of containers; unknown ones are ignored."""
        table, removed = tables.containers, list(uris)
        for chunk in chunks(removed):
            self._write(
                lambda connection, chunk=chunk: connection.execute(  # type: ignore[misc]
                    delete(table).where(table.c.root_id == root_id, table.c.uri.in_(chunk))
                )
            )
