"""Recent queries with their traces, and feedback on their pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, select, tuple_

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import insert_ignoring, placed, upsert
from lodestone.catalog.use_records import FeedbackRecord, QueryRecord

_NEWEST = (tables.queries.c.created_at.desc(), tables.queries.c.query_id.desc())
_NEWEST_KEY = (tables.queries.c.created_at, tables.queries.c.query_id)
_SUMMARY = tuple(column for column in tables.queries.c if column.name != "trace")
_FEEDBACK = tuple(column for column in tables.feedback.c if column.name != "digest")


class QueryRows(CatalogBase):
    """Part of the catalog that keeps queries and feedback."""

    def add_query(self, record: QueryRecord, keep: int) -> None:
        """Record a query (the same id again replaces it) and delete the oldest beyond `keep`; 0 keeps none."""
        self.add_queries([record], keep)

    def add_queries(self, records: Sequence[QueryRecord], keep: int) -> None:
        """Record several queries in one transaction, as `add_query` does for one; ids must differ."""
        table = tables.queries
        beyond = select(table.c.query_id).order_by(*_NEWEST).offset(keep)

        def change(connection: Connection) -> None:
            if keep:
                upsert(connection, table, [asdict(record) for record in records])
            surplus = list(connection.execute(beyond).scalars())
            if surplus:
                connection.execute(delete(table).where(table.c.query_id.in_(surplus[:_PRUNED_AT_ONCE])))

        self._write(change)

    def forget_queries(self) -> int:
        """Delete all recorded queries, and return how many there were; feedback and what was learnt from it stay."""
        return self._write(lambda connection: connection.execute(delete(tables.queries)).rowcount)

    def query(self, query_id: str) -> QueryRecord | None:
        """Return one query with its trace; None if it is unknown or no longer kept."""
        with self._reading() as connection:
            row = connection.execute(select(tables.queries).where(tables.queries.c.query_id == query_id)).first()
        return None if row is None else QueryRecord(**row._asdict())

    def has_query(self, query_id: str) -> bool:
        """Return True if the query is recorded."""
        wanted = select(tables.queries.c.query_id).where(tables.queries.c.query_id == query_id)
        with self._reading() as connection:
            return connection.execute(wanted).first() is not None

    def queries(
        self, offset: int = 0, limit: int = 100, *, after: tuple[datetime, str] | None = None, owner: str | None = None
    ) -> list[QueryRecord]:
        """Return a page of queries, newest first, without their traces.

        Args:
            offset: Queries to skip.
            limit: Most queries to return.
            after: Place (`created_at`, `query_id`) of a query; only those after it are returned.
            owner: Only queries that `owner` asked; None for all.
        """
        query = select(*_SUMMARY).order_by(*_NEWEST).offset(offset).limit(limit)
        if after is not None:
            query = query.where(tuple_(*_NEWEST_KEY) < placed(_NEWEST_KEY, after))
        if owner is not None:
            query = query.where(tables.queries.c.owner == owner)
        with self._reading() as connection:
            return [QueryRecord(**row._asdict()) for row in connection.execute(query)]

    def add_feedback(self, query_id: str, relevant: Iterable[str], irrelevant: Iterable[str], eta: float) -> bool:
        """Record feedback that changes no trust; return False if the same feedback was recorded before.

        Order, repeats and eta make no difference: one judgement of one answer counts once.
        """
        record = FeedbackRecord.of(query_id, relevant, irrelevant, eta)
        return bool(self._write(lambda connection: insert_ignoring(connection, tables.feedback, [feedback_row(record)])))

    def find_feedback(self, query_id: str, relevant: Iterable[str], irrelevant: Iterable[str]) -> FeedbackRecord | None:
        """Return the same feedback as recorded before; None if it is new."""
        digest = FeedbackRecord.of(query_id, relevant, irrelevant, 0.0).digest
        table = tables.feedback
        with self._reading() as connection:
            row = connection.execute(select(*_FEEDBACK).where(table.c.query_id == query_id, table.c.digest == digest)).first()
        return None if row is None else _feedback(row)

    def feedback(self, offset: int = 0, limit: int = 100) -> list[FeedbackRecord]:
        """Return a page of feedback, newest first."""
        table = tables.feedback
        order = (table.c.created_at.desc(), table.c.query_id, table.c.digest)
        with self._reading() as connection:
            return [
                _feedback(row) for row in connection.execute(select(*_FEEDBACK).order_by(*order).offset(offset).limit(limit))
            ]


_PRUNED_AT_ONCE = 500  # a smaller `keep` than before is reached after several queries


def feedback_row(record: FeedbackRecord) -> dict[str, Any]:
    """Return the feedback as a row of the table `feedback`."""
    return asdict(record) | {"digest": record.digest}


def _feedback(row: Row[Any]) -> FeedbackRecord:
    values = row._asdict()
    return FeedbackRecord(**{**values, "relevant": tuple(values["relevant"]), "irrelevant": tuple(values["irrelevant"])})
