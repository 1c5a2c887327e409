"""Alembic environment that runs the catalog's migrations on the connection, and in the transaction, of `migrate.py`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from lodestone.catalog.tables import metadata


def _run() -> None:
    connection: Connection = context.config.attributes["connection"]
    # SQLite cannot alter columns in place: render_as_batch makes generated migrations copy the table there.
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


_run()
