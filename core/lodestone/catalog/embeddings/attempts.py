"""Which tries were made at a slice, by which worker, and what came of each?

A try is recorded when it begins, so that one whose worker or driver died leaves a trace. Tries are numbered from 1 over all
runs, by the catalog and not by a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.sql import chunks
from lodestone.catalog.embeddings.slice_parts import save_receipts
from lodestone.catalog.records import AttemptState, Receipt, SliceAttempt
from lodestone.errors import NotFoundError

_LOST = (AttemptState.FAILED, AttemptState.DIED)


class AttemptRows(CatalogBase):
    """Tries at slices."""

    def start_attempt(self, slice_id: str, run_id: str, worker: str = "") -> SliceAttempt:
        """Record that a try at a slice begins; see `start_attempts`."""
        return self.start_attempts([slice_id], run_id, worker)[0]

    def start_attempts(self, slice_ids: Sequence[str], run_id: str, worker: str = "") -> list[SliceAttempt]:
        """Record that tries at these slices begin, in one transaction; returns them in the same order.

        Args:
            slice_ids: Slices, each once.
            run_id: The run that tries.
            worker: Who does it (`host:pid`); may be told at the end instead.

        Raises:
            NotFoundError: a slice is unknown; nothing was recorded.
        """
        slices, table = tables.slices, tables.slice_attempts

        def change(connection: Connection) -> list[SliceAttempt]:
            known: set[str] = set()
            last: dict[str, int] = {}
            for chunk in chunks(slice_ids):
                known.update(connection.execute(select(slices.c.slice_id).where(slices.c.slice_id.in_(chunk))).scalars())
                highest = select(table.c.slice_id, func.max(table.c.attempt)).where(table.c.slice_id.in_(chunk))
                last.update((row[0], row[1]) for row in connection.execute(highest.group_by(table.c.slice_id)))
            unknown = next((slice_id for slice_id in slice_ids if slice_id not in known), None)
            if unknown is not None:
                raise NotFoundError(f"there is no slice with id {unknown!r}", hint="its corpus may have been removed meanwhile")
            now = datetime.now(UTC)
            made = [
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
            connection.execute(insert(table), [asdict(one) | {"state": one.state.value} for one in made])
            return made

        return self._write(change) if slice_ids else []

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
        """Record what came of a try, in one transaction; None leaves the worker as it was told at the start.

        Args:
            slice_id: The slice.
            attempt: The try's number.
            state: `AttemptState` but RUNNING.
            worker: Who did it (`host:pid`).
            embedded: Pictures embedded.
            failed: Pictures that could not be used.
            seconds: How long it took.
            error: Why it did not succeed.
            receipts: Proofs of the parts that it finished.

        Raises:
            NotFoundError: there is no such try; nothing was recorded.
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
        """Tries at one slice (or all) of one run (or all), by slice and number, a page at a time."""
        table = tables.slice_attempts
        query = select(table)
        if slice_id is not None:
            query = query.where(table.c.slice_id == slice_id)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        return map(_attempt, self._streamed(query, (table.c.slice_id, table.c.attempt)))

    def failed_attempts(self, slice_ids: Iterable[str]) -> dict[str, int]:
        """How many tries at a slice failed or died since the last one that was done; slices without any are left out.

        Tries that still count as running do not count: when a driver dies, its slices are not to blame.
        """
        table = tables.slice_attempts
        found: dict[str, int] = {}
        with self._reading() as connection:
            for chunk in chunks(slice_ids):
                done = (
                    select(table.c.slice_id, func.max(table.c.attempt).label("attempt"))
                    .where(table.c.slice_id.in_(chunk), table.c.state == AttemptState.DONE)
                    .group_by(table.c.slice_id)
                    .subquery()
                )
                query = (
                    select(table.c.slice_id, func.count())
                    .outerjoin(done, done.c.slice_id == table.c.slice_id)
                    .where(
                        and_(table.c.slice_id.in_(chunk), table.c.state.in_(_LOST)),
                        or_(done.c.attempt.is_(None), table.c.attempt > done.c.attempt),
                    )
                    .group_by(table.c.slice_id)
                )
                found.update((row[0], row[1]) for row in connection.execute(query))
        return found


def _attempt(row: Row[Any]) -> SliceAttempt:
    found = row._asdict()
    return SliceAttempt(**{**found, "state": AttemptState(found["state"])})
