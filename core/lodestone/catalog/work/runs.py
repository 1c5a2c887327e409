"""Runs, their states and counts, and the files that failed in them.

A run stores its counts when it ends. A run that is in progress, or that crashed before it stored counts, is returned with the
sums of its attempts at slices.
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
from lodestone.catalog.work.going_on import IndexingNow, newest_indexing
from lodestone.errors import NotFoundError

_FAILURE_COLUMNS = tuple(tables.failures.c[name] for name in ("run_id", "root_id", "uri", "code", "message", "image_id"))

_NEWEST = (tables.runs.c.seq.desc(), tables.runs.c.run_id)
_ATTEMPT_COUNTS = ("embedded", "failed")
_COLUMNS = tuple(tables.runs.c[field.name] for field in fields(Run))


_RUNNING_AT_ONCE = 20  # runs that count as running, of all corpora


class RunRows(CatalogBase):
    """Part of the catalog that keeps runs and failures."""

    def start_run(
        self, kind: str, corpus_id: str | None = None, *, request: Mapping[str, Any] | None = None, worker: str = ""
    ) -> Run:
        """Record that a run begins, and return it.

        Args:
            kind: `index`, `train-bridge`, …
            corpus_id: Corpus of the run; None for none or all.
            request: The request as JSON, so that it can be repeated.
            worker: Driver of the run (`host:pid`).
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
        """Record a run's progress; None leaves a value unchanged.

        Raises:
            NotFoundError: There is no such run.
        """
        changed: dict[str, Any] = {}
        if stage is not None:
            changed["stage"] = stage
        if counts is not None:
            changed["counts"] = dict(counts)
        if changed:
            self._change_run(run_id, changed)

    def finish_run(self, run_id: str, state: RunState, error: str = "") -> None:
        """End a run; `error` says why it did not succeed.

        Raises:
            NotFoundError: There is no such run.
        """
        ended = RunState(state)
        changed = {"state": ended.value, "error": error, "finished_at": datetime.now(UTC)}

        def change(connection: Connection) -> None:
            counts = {} if ended is RunState.DONE else {"counts": _existing_run(connection, run_id).counts}
            statement = update(tables.runs).where(tables.runs.c.run_id == run_id).values(**changed, **counts)
            if not connection.execute(statement).rowcount:
                raise _no_run(run_id)

        self._write(change)

    def interrupt_runs(self, kind: str, corpus_id: str | None) -> int:
        """Mark runs that still count as running as interrupted, because their process crashed, and return how many there were.

        Call it only when no other such run can be active.
        """
        runs = tables.runs
        same_corpus = runs.c.corpus_id.is_(None) if corpus_id is None else runs.c.corpus_id == corpus_id
        query = select(*_COLUMNS).where(runs.c.kind == kind, same_corpus, runs.c.state == RunState.RUNNING.value)

        def change(connection: Connection) -> int:
            crashed = _runs_with_counts(connection, connection.execute(query).all())
            ended = {"state": RunState.INTERRUPTED.value, "finished_at": datetime.now(UTC)}
            is_running = runs.c.state == RunState.RUNNING.value  # one may have ended since it was read
            return sum(
                connection.execute(
                    update(runs).where(runs.c.run_id == run.run_id, is_running).values(**ended, counts=run.counts)
                ).rowcount
                for run in crashed
            )

        return self._write(change)

    def run(self, run_id: str) -> Run:
        """Return one run by its id.

        Raises:
            NotFoundError: There is no such run.
        """
        with self._reading() as connection:
            return _existing_run(connection, run_id)

    def beat(self, run_id: str, *, progress: Mapping[str, Any] | None = None) -> bool:
        """Record a heartbeat of the run's driver and its progress, and return True if the run must stop.

        It must stop if a cancellation was requested, or if another run of the corpus, which took its lock meanwhile, has marked
        it as interrupted.

        Raises:
            NotFoundError: There is no such run.
        """
        runs = tables.runs

        def change(connection: Connection) -> bool:
            told = {} if progress is None else {"progress": dict(progress)}
            heartbeat = update(runs).where(runs.c.run_id == run_id).values(heartbeat_at=datetime.now(UTC), **told)
            if not connection.execute(heartbeat).rowcount:
                raise _no_run(run_id)
            query = select(runs.c.cancel_requested, runs.c.state).where(runs.c.run_id == run_id)
            cancelled, state = connection.execute(query).one()
            return bool(cancelled) or state != RunState.RUNNING

        return self._write(change)

    def request_cancel(self, run_id: str) -> Run:
        """Request a running run to stop at its next heartbeat, and return it; a run that has ended stays unchanged.

        Raises:
            NotFoundError: There is no such run.
        """
        runs = tables.runs

        def change(connection: Connection) -> Run:
            running = (runs.c.run_id == run_id, runs.c.state == RunState.RUNNING.value)
            connection.execute(update(runs).where(*running).values(cancel_requested=True))
            return _existing_run(connection, run_id)

        return self._write(change)

    def last_run(self, kind: str, corpus_id: str | None) -> Run | None:
        """Return the run of a kind and corpus that was started last; None if there was none."""
        runs = tables.runs
        same_corpus = runs.c.corpus_id.is_(None) if corpus_id is None else runs.c.corpus_id == corpus_id
        query = select(*_COLUMNS).where(runs.c.kind == kind, same_corpus).order_by(*_NEWEST).limit(1)
        with self._reading() as connection:
            return next(iter(_runs_with_counts(connection, connection.execute(query).all())), None)

    def runs(self, limit: int = 20, *, corpus_id: str | None = None, state: RunState | None = None) -> list[Run]:
        """Return the latest runs of one corpus (or of all and none) in one state (or any), newest first."""
        query = select(*_COLUMNS).order_by(*_NEWEST).limit(limit)
        if corpus_id is not None:
            query = query.where(tables.runs.c.corpus_id == corpus_id)
        if state is not None:
            query = query.where(tables.runs.c.state == RunState(state).value)
        with self._reading() as connection:
            return _runs_with_counts(connection, connection.execute(query).all())

    def indexing_now(self, *, corpus_ids: Collection[str] | None = None) -> IndexingNow | None:
        """Return the newest index run that goes on, of these corpora or of any; None where none does."""
        return newest_indexing(self.runs(_RUNNING_AT_ONCE, state=RunState.RUNNING), corpus_ids=corpus_ids)

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
        """Return a page of runs with their `seq`, newest first.

        Args:
            offset: Runs to skip.
            limit: Runs a page.
            corpus_ids: Only runs of these corpora; None for all runs, including those without a corpus.
            kind: Only runs of this kind.
            state: Only runs in this state.
            after: Place (`seq`, `run_id`) of the last run of the page before.
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
            runs = _runs_with_counts(connection, [row[1:] for row in rows])
        return [(row[0], run) for row, run in zip(rows, runs, strict=True)]

    def failure_page(self, run_id: str, limit: int, *, after: tuple[str, str, str] | None = None) -> list[Failure]:
        """Return a page of the failures last met in a run, by root id, uri and code; only those after the place `after`."""
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
        """Yield the failures last met in a run, or the current ones of a corpus, or all, by root and uri.

        They are read a page at a time.
        """
        table, roots = tables.failures, tables.roots
        query = select(*_FAILURE_COLUMNS)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        if corpus_id is not None:
            query = query.where(table.c.root_id.in_(select(roots.c.root_id).where(roots.c.corpus_id == corpus_id)))
        return (Failure(*row) for row in self._streamed(query, (table.c.root_id, table.c.uri, table.c.code)))

    def count_failures(self, *, run_id: str | None = None, corpus_id: str | None = None, root_id: str | None = None) -> int:
        """Return the number of failures that `failures` would yield, optionally of one root."""
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
        """Delete the failures of files that have succeeded now or are gone."""
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


def _existing_run(connection: Connection | RetryingReader, run_id: str) -> Run:
    row = connection.execute(select(*_COLUMNS).where(tables.runs.c.run_id == run_id)).first()
    if row is None:
        raise _no_run(run_id)
    return _runs_with_counts(connection, [row])[0]


def _runs_with_counts(connection: Connection | RetryingReader, rows: Sequence[Sequence[Any]]) -> list[Run]:
    """Return the runs of these rows; runs that are not done get the sums of their attempts where these are higher."""
    runs = [_run(row) for row in rows]
    table = tables.slice_attempts
    sums = tuple(func.sum(table.c[name]).label(name) for name in _ATTEMPT_COUNTS)
    tallies: dict[str, dict[str, int]] = {}
    for chunk in chunks(run.run_id for run in runs if run.state is not RunState.DONE):
        query = select(table.c.run_id, *sums).where(table.c.run_id.in_(chunk)).group_by(table.c.run_id)
        for run_id, *counts in connection.execute(query):
            tallies[run_id] = {name: int(count) for name, count in zip(_ATTEMPT_COUNTS, counts, strict=True) if count}
    return [_with_attempt_counts(run, tallies[run.run_id]) if run.run_id in tallies else run for run in runs]


def _with_attempt_counts(run: Run, tally: Mapping[str, int]) -> Run:
    """Return the run with the larger of its own counts and the sums of its attempts.

    A compaction removes old slices with their attempts, so earlier counts are kept.
    """
    return replace(run, counts={**run.counts, **{name: max(run.counts.get(name, 0), count) for name, count in tally.items()}})


def _run(values: Sequence[Any]) -> Run:
    fields_by_name = dict(zip((column.name for column in _COLUMNS), values, strict=True))
    return Run(**{**fields_by_name, "state": RunState(fields_by_name["state"])})


def _no_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run with id {run_id!r}", hint="its corpus may have been removed meanwhile")
