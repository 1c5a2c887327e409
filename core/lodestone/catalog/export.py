"""Export of a whole catalog from its database, and import into an empty one of either kind.

Rows are exported as plain values by column name, all tables as of one moment: in one transaction, which does not block other
processes. They are imported in one transaction as well: an import that is killed leaves an empty catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Table, func, insert, select
from sqlalchemy.exc import IntegrityError

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase, translated_errors
from lodestone.catalog.database.migrate import REVISIONS
from lodestone.catalog.embeddings.slice_parts import refresh_parts
from lodestone.catalog.records import ImageState
from lodestone.errors import ConfigurationError

Rows = list[dict[str, Any]]
# Committed transactions, the home's id and the requests of the last minutes are not exported.
_OF_THE_DATABASE: Final = frozenset({"write_tokens", "home_facts", "rate_windows"})
TABLES: Final[tuple[Table, ...]] = tuple(  # every table follows those that it refers to
    table for table in tables.metadata.sorted_tables if table.name not in _OF_THE_DATABASE
)
_PAGE: Final = 1000
# Revisions whose rows can be imported: columns added since have a default, or are computed from the rows.
READABLE: Final = REVISIONS[REVISIONS.index("0004") :]


@dataclass(frozen=True, slots=True)
class Export:
    """All tables as of one moment; valid inside `ExportRows.exporting`."""

    connection: Connection
    revision: str = REVISIONS[-1]

    def active_images(self) -> int:
        """Return the number of pictures that can be found."""
        query = select(func.count()).select_from(tables.images).where(tables.images.c.state == ImageState.ACTIVE)
        return self.connection.execute(query).scalar_one()

    def rows(self, table: Table) -> Iterator[Rows]:
        """Yield all rows of a table by primary key, a page at a time.

        Values are keyed by column name; times are aware, JSON comes as Python values.
        """
        result = self.connection.execute(select(table).order_by(*table.primary_key).execution_options(yield_per=_PAGE))
        for page in result.mappings().partitions():
            yield [dict(row) for row in page]


class ExportRows(CatalogBase):
    """Part of the catalog that exports and imports all tables at once."""

    @contextmanager
    def exporting(self) -> Iterator[Export]:
        """Yield an export of all tables as they are at this moment, whatever is written meanwhile."""
        with translated_errors(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield Export(connection)

    def count_rows(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        with self._reading() as connection:
            return {t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in TABLES}

    def import_rows(self, pages: Iterable[tuple[Table, Sequence[Mapping[str, Any]]]]) -> dict[str, int]:
        """Fill an empty catalog, and return the number of rows by table.

        Args:
            pages: Rows of tables, each table after those that it refers to; a table may have any number of pages.

        Raises:
            ConfigurationError: The catalog is not empty, or a row breaks a constraint; nothing was changed.
        """
        url = self._engine.url.render_as_string(hide_password=True)

        def change(connection: Connection) -> dict[str, int]:
            for table in TABLES:
                if connection.execute(select(*table.primary_key).limit(1)).first() is not None:
                    raise ConfigurationError(
                        f"the catalog {url!r} is not empty: it has {table.name}",
                        hint="restore into a new home (LODESTONE_HOME) and an empty database",
                    )
            counts: dict[str, int] = {}
            for table, rows in pages:
                for start in range(0, len(rows), _PAGE):
                    try:
                        connection.execute(insert(table), [dict(row) for row in rows[start : start + _PAGE]])
                    except IntegrityError as error:
                        raise ConfigurationError(
                            f"the rows of the table {table.name!r} do not fit together: {error.orig}",
                            hint="they are damaged or forged: restore another snapshot; the catalog is empty as before",
                        ) from error
                counts[table.name] = counts.get(table.name, 0) + len(rows)
            refresh_parts(connection)  # receipts may have been left out
            return counts

        with translated_errors():
            return self._attempt(change)  # once: `pages` may be an iterator
