"""Which runs were made, how did they end, and which files failed in them?

A run counts what it did at its end. One that goes on, or did not live to count, is told with what its tries at slices came to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, tuple_, update

from lodestone.catalog import tables
from lodestone.catalog.database.engine import CatalogBase
from lodestone.catalog.database.reader import RetryingReader
from lodestone.catalog.database.sql import chunks, placed, upsert
from lodestone.catalog.records import Failure, Run, RunState
from lodestone.errors import NotFoundError

_FAILURE_COLUMNS = tuple(tables.failures.c[name] for name in ("run_id", "root_id", "uri", "code", "message", "image_id"))

_NEWEST = (tables.runs.c.seq.desc(), tables.runs.c.run_id)
_OF_TRIES = ("embedded", "failed")
_COLUMNS = tuple(tables.runs.c[field.name] for field in fields(Run))


class RunRows(CatalogBase):
    """Runs and failures."""

    def start_run(
        self, kind: str, corpus_id: str | None = None, *, request: Mapping[str, Any] | None = None, worker: str = ""
    ) -> Run:
        """Begin a run.

        Args:
            kind: `index`, `train-bridge`, …
            corpus_id: The corpus that it is about; None for none or all.
            request: What was asked for, as JSON, so that it can be asked again.
            worker: Who drives it (`host:pid`).
        """
        now = datetime.now(UTC)
        run = Run(
            run_id=str(uuid4()),
            kind=kind,
            corpus_id=corpus_id,
            state=RunState.RUNNING,
            stage="",
            started_at=now,
            finished_at=None,
            counts={},
            request=dict(request or {}),
            worker=worker,
            heartbeat_at=now,
        )
        row = {name: getattr(run, name) for name in Run.__slots__} | {"state": run.state.value}
        self._write(lambda connection: connection.execute(insert(tables.runs), row))
        return run

    def update_run(self, run_id: str, *, stage: str | None = None, counts: Mapping[str, Any] | None = None) -> None:
        """Record a run's progress; what is None stays.

        Raises:
            NotFoundError: there is no such run.
        """
        changed: dict[str, Any] = {}
        if stage is not None:
            changed["stage"] = stage
        if counts is not None:
            changed["counts"] = dict(counts)
        if changed:
            self._change_run(run_id, changed)

    def finish_run(self, run_id: str, state: RunState, error: str = "") -> None:
        """End a run; `error` says why when it did not succeed.

        Raises:
            NotFoundError: there is no such run.
        """
        ended = RunState(state)
        changed = {"state": ended.value, "error": error, "finished_at": datetime.now(UTC)}

        def change(connection: Connection) -> None:
            counts = {} if ended is RunState.DONE else {"counts": _found(connection, run_id).counts}
            statement = update(tables.runs).where(tables.runs.c.run_id == run_id).values(**changed, **counts)
            if not connection.execute(statement).rowcount:
                raise _no_run(run_id)

        self._write(change)

    def interrupt_runs(self, kind: str, corpus_id: str | None) -> int:
        """Declare runs that still count as running to be interrupted (their process died); returns how many.

        Call it only where no other such run can be alive.
        """
        runs = tables.runs
        same_corpus = runs.c.corpus_id.is_(None) if corpus_id is None else runs.c.corpus_id == corpus_id
        query = select(*_COLUMNS).where(runs.c.kind == kind, same_corpus, runs.c.state == RunState.RUNNING.value)

        def change(connection: Connection) -> int:
            dead = _tallied(connection, connection.execute(query).all())
            ended = {"state": RunState.INTERRUPTED.value, "finished_at": datetime.now(UTC)}
            still = runs.c.state == RunState.RUNNING.value  # one may have ended since it was looked at
            return sum(
                connection.execute(
                    update(runs).where(runs.c.run_id == run.run_id, still).values(**ended, counts=run.counts)
                ).rowcount
                for run in dead
            )

        return self._write(change)

    def run(self, run_id: str) -> Run:
        """One run by its id; `NotFoundError` when there is none."""
        with self._reading() as connection:
            return _found(connection, run_id)

    def beat(self, run_id: str) -> bool:
        """Say that the run's driver is alive; returns whether it must stop.

        It must when somebody asked for that, and when another run of the corpus, which took its lock meanwhile, has declared it
        interrupted.

        Raises:
            NotFoundError: there is no such run.
        """
        runs = tables.runs

        def change(connection: Connection) -> bool:
            alive = update(runs).where(runs.c.run_id == run_id).values(heartbeat_at=datetime.now(UTC))
            if not connection.execute(alive).rowcount:
                raise _no_run(run_id)
            query = select(runs.c.cancel_requested, runs.c.state).where(runs.c.run_id == run_id)
            cancelled, state = connection.execute(query).one()
            return bool(cancelled) or state != RunState.RUNNING

        return self._write(change)

    def request_cancel(self, run_id: str) -> Run:
        """Ask a running run to stop at its next beat; one that has ended stays as it is. Returns the run.

        Raises:
            NotFoundError: there is no such run.
        """
        runs = tables.runs

        def change(connection: Connection) -> Run:
            running = (runs.c.run_id == run_id, runs.c.state == RunState.RUNNING.value)
            connection.execute(update(runs).where(*running).values(cancel_requested=True))
            return _found(connection, run_id)

        return self._write(change)

    def last_run(self, kind: str, corpus_id: str | None) -> Run | None:
        """The run of a kind and corpus that was started last; None when there was none."""
        runs = tables.runs
        same_corpus = runs.c.corpus_id.is_(None) if corpus_id is None else runs.c.corpus_id == corpus_id
        query = select(*_COLUMNS).where(runs.c.kind == kind, same_corpus).order_by(*_NEWEST).limit(1)
        with self._reading() as connection:
            return next(iter(_tallied(connection, connection.execute(query).all())), None)

    def runs(self, limit: int = 20, *, corpus_id: str | None = None, state: RunState | None = None) -> list[Run]:
        """The latest runs of one corpus (or of all and none) in one state (or any), newest first."""
        query = select(*_COLUMNS).order_by(*_NEWEST).limit(limit)
        if corpus_id is not None:
            query = query.where(tables.runs.c.corpus_id == corpus_id)
        if state is not None:
            query = query.where(tables.runs.c.state == RunState(state).value)
        with self._reading() as connection:
            return _tallied(connection, connection.execute(query).all())

    def run_page(
        self,
        offset: int = 0,
        limit: int = 100,
        *,
        corpus_ids: Collection[str] | None = None,
        kind: str | None = None,
        state: RunState | None = None,
        after: tuple[int, str] | None = None,
    ) -> list[tuple[int, Run]]:
        """A page of runs with their `seq`, newest first; of those behind one (`seq`, `run_id`), where it is given.

        Args:
            offset: Runs to skip.
            limit: Runs a page.
            corpus_ids: Only runs about these corpora; None for all runs, those about no corpus too.
            kind: Only of this kind.
            state: Only in this state.
            after: Place of the last run of the page before.
        """
        table = tables.runs
        query = select(table.c.seq, *_COLUMNS).order_by(*_NEWEST).offset(offset).limit(limit)
        if corpus_ids is not None:
            query = query.where(table.c.corpus_id.in_(corpus_ids))
        if kind is not None:
            query = query.where(table.c.kind == kind)
        if state is not None:
            query = query.where(table.c.state == RunState(state).value)
        if after is not None:
            query = query.where(or_(table.c.seq < after[0], and_(table.c.seq == after[0], table.c.run_id > after[1])))
        with self._reading() as connection:
            rows = connection.execute(query).all()
            found = _tallied(connection, [row[1:] for row in rows])
        return [(row[0], run) for row, run in zip(rows, found, strict=True)]

    def failure_page(self, run_id: str, limit: int, *, after: tuple[str, str, str] | None = None) -> list[Failure]:
        """Failures last met in a run, by root id, uri and code; of those behind one, where it is given."""
        table = tables.failures
        key = (table.c.root_id, table.c.uri, table.c.code)
        query = select(*_FAILURE_COLUMNS).where(table.c.run_id == run_id).order_by(*key).limit(limit)
        if after is not None:
            query = query.where(tuple_(*key) > placed(key, after))
        with self._reading() as connection:
            return [Failure(*row) for row in connection.execute(query)]

    def add_failures(self, failures: Sequence[Failure]) -> None:
        """Record files that could not be used; a file's earlier failure with the same code is replaced."""
        if failures:
            self._write(lambda connection: upsert(connection, tables.failures, [asdict(failure) for failure in failures]))

    def failures(self, *, run_id: str | None = None, corpus_id: str | None = None) -> Iterator[Failure]:
        """Failures last met in a run, or standing in a corpus, or all, by root and uri, a page at a time."""
        table, roots = tables.failures, tables.roots
        query = select(*_FAILURE_COLUMNS)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        if corpus_id is not None:
            query = query.where(table.c.root_id.in_(select(roots.c.root_id).where(roots.c.corpus_id == corpus_id)))
        return (Failure(*row) for row in self._streamed(query, (table.c.root_id, table.c.uri, table.c.code)))

    def count_failures(self, *, run_id: str | None = None, corpus_id: str | None = None, root_id: str | None = None) -> int:
        """Number of what `failures` would yield; of one root where it is named."""
        table, roots = tables.failures, tables.roots
        query = select(func.count()).select_from(table)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        if corpus_id is not None:
            query = query.where(table.c.root_id.in_(select(roots.c.root_id).where(roots.c.corpus_id == corpus_id)))
        if root_id is not None:
            query = query.where(table.c.root_id == root_id)
        with self._reading() as connection:
            return connection.execute(query).scalar_one()

    def clear_failures(self, root_id: str, uris: Iterable[str]) -> None:
        """Forget the failures of files that succeeded now or are gone."""
        table = tables.failures
        wanted = list(uris)

        def change(connection: Connection) -> None:
            for chunk in chunks(wanted):
                connection.execute(delete(table).where(table.c.root_id == root_id, table.c.uri.in_(chunk)))

        if wanted:
            self._write(change)

    def _change_run(self, run_id: str, changed: dict[str, Any]) -> None:
        statement = update(tables.runs).where(tables.runs.c.run_id == run_id).values(**changed)
        if not self._write(lambda connection: connection.execute(statement).rowcount):
            raise _no_run(run_id)


def _found(connection: Connection | RetryingReader, run_id: str) -> Run:
    row = connection.execute(select(*_COLUMNS).where(tables.runs.c.run_id == run_id)).first()
    if row is None:
        raise _no_run(run_id)
    return _tallied(connection, [row])[0]


def _tallied(connection: Connection | RetryingReader, rows: Sequence[Sequence[Any]]) -> list[Run]:
    """The runs of these rows; those that are not done with what their tries came to, where they did not count it themselves."""
    runs = [_run(row) for row in rows]
    table = tables.slice_attempts
    sums = tuple(func.sum(table.c[name]).label(name) for name in _OF_TRIES)
    tallies: dict[str, dict[str, int]] = {}
    for chunk in chunks(run.run_id for run in runs if run.state is not RunState.DONE):
        query = select(table.c.run_id, *sums).where(table.c.run_id.in_(chunk)).group_by(table.c.run_id)
        for run_id, *counts in connection.execute(query):
            tallies[run_id] = {name: int(count) for name, count in zip(_OF_TRIES, counts, strict=True) if count}
    return [_with_tally(run, tallies[run.run_id]) if run.run_id in tallies else run for run in runs]


def _with_tally(run: Run, tally: Mapping[str, int]) -> Run:
    """A compaction takes old slices away, with their tries: what was counted before stays."""
    return replace(run, counts={**run.counts, **{name: max(run.counts.get(name, 0), count) for name, count in tally.items()}})


def _run(values: Sequence[Any]) -> Run:
    found = dict(zip((column.name for column in _COLUMNS), values, strict=True))
    return Run(**{**found, "state": RunState(found["state"])})


def _no_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run with id {run_id!r}", hint="its corpus may have been removed meanwhile")
