"""Attempts to embed slices: the worker, the outcome and the receipts of each.

An attempt is recorded when it begins, so that it leaves a trace even if its worker or driver crashes. (If their machine loses
power, SQLite may forget the last ones: nothing waits for the disk here.) Attempts are numbered from 1 over all runs, by the
catalog and not by a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks
from lodestone.catalog.embeddings.slice_parts import save_receipts
from lodestone.catalog.records import AttemptState, Receipt, SliceAttempt
from lodestone.errors import NotFoundError

_LOST = (AttemptState.FAILED, AttemptState.DIED)
_LAST_ATTEMPTS = (  # made once
    select(tables.slices.c.slice_id, func.max(tables.slice_attempts.c.attempt))
    .outerjoin(tables.slice_attempts, tables.slice_attempts.c.slice_id == tables.slices.c.slice_id)
    .where(tables.slices.c.slice_id.in_(bindparam("of_slices", expanding=True)))
    .group_by(tables.slices.c.slice_id)
)


class AttemptRows(CatalogBase):
    """Part of the catalog that keeps attempts at slices."""

    def start_attempt(self, slice_id: str, run_id: str, worker: str = "") -> SliceAttempt:
        """Record that an attempt at one slice begins, as `start_attempts` does for several."""
        return self.start_attempts([slice_id], run_id, worker)[0]

    def start_attempts(self, slice_ids: Sequence[str], run_id: str, worker: str = "") -> list[SliceAttempt]:
        """Record that attempts at these slices begin, in one transaction; returns them in the same order.

        Args:
            slice_ids: Slices, each once.
            run_id: Run that makes the attempts.
            worker: Worker of the attempts (`host:pid`); may be given at the end instead.

        Raises:
            NotFoundError: A slice is unknown; nothing was recorded.
        """

        def change(connection: Connection) -> list[SliceAttempt]:
            known: set[str] = set()
            last: dict[str, int] = {}
            for chunk in chunks(slice_ids):
                for slice_id, attempt in connection.execute(_LAST_ATTEMPTS, {"of_slices": chunk}):
                    known.add(slice_id)
                    last[slice_id] = attempt or 0
            unknown = next((slice_id for slice_id in slice_ids if slice_id not in known), None)
            if unknown is not None:
                raise NotFoundError(f"there is no slice with id {unknown!r}", hint="its corpus may have been removed meanwhile")
            now = datetime.now(UTC)
            attempts = [
                SliceAttempt(
                    slice_id=slice_id,
                    attempt=last.get(slice_id, 0) + 1,
                    run_id=run_id,
                    worker=worker,
                    state=AttemptState.RUNNING,
                    embedded=0,
                    failed=0,
                    started_at=now,
                    seconds=0.0,
                )
                for slice_id in slice_ids
            ]
            connection.execute(
                insert(tables.slice_attempts), [asdict(attempt) | {"state": attempt.state.value} for attempt in attempts]
            )
            return attempts

        return self._write(change, awaits_disk=False) if slice_ids else []

    def end_attempt(
        self,
        slice_id: str,
        attempt: int,
        state: AttemptState,
        *,
        worker: str | None = None,
        embedded: int = 0,
        failed: int = 0,
        seconds: float = 0.0,
        error: str = "",
        receipts: Sequence[Receipt] = (),
    ) -> None:
        """Record the outcome of an attempt, in one transaction.

        Args:
            slice_id: The slice.
            attempt: Number of the attempt.
            state: Any `AttemptState` but RUNNING.
            worker: Worker of the attempt (`host:pid`); None keeps the one given at the start.
            embedded: Number of pictures embedded.
            failed: Number of pictures that could not be used.
            seconds: Duration of the attempt.
            error: Why it did not succeed.
            receipts: Receipts of the parts that it finished.

        Raises:
            NotFoundError: There is no such attempt; nothing was recorded.
        """
        table = tables.slice_attempts
        changed: dict[str, Any] = {
            "state": AttemptState(state).value,
            "embedded": embedded,
            "failed": failed,
            "seconds": seconds,
            "error": error,
        }
        if worker is not None:
            changed["worker"] = worker
        statement = update(table).where(table.c.slice_id == slice_id, table.c.attempt == attempt).values(**changed)

        def change(connection: Connection) -> None:
            if not connection.execute(statement).rowcount:
                raise NotFoundError(
                    f"there is no try {attempt} at slice {slice_id!r}", hint="its corpus may have been removed meanwhile"
                )
            save_receipts(connection, receipts)

        self._write(change)

    def attempts(self, slice_id: str | None = None, run_id: str | None = None) -> Iterator[SliceAttempt]:
        """Return attempts at one slice (or all) of one run (or all), by slice and number, read a page at a time."""
        table = tables.slice_attempts
        query = select(table)
        if slice_id is not None:
            query = query.where(table.c.slice_id == slice_id)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        return map(_attempt, self._streamed(query, (table.c.slice_id, table.c.attempt)))


def _attempt(row: Row[Any]) -> SliceAttempt:
    values = row._asdict()
    return SliceAttempt(**{**values, "state": AttemptState(values["state"])})
