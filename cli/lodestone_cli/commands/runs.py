"""Commands `lodestone runs …`: list, show, cancel and repeat index runs, and export their failures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.naming import corpora_of, id_among, is_id
from lodestone_cli.options import HomeOption, LocalOption, Output, OutputOption, ProfileOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Run, SliceAttempt
    from lodestone_client import Lodestone
    from lodestone_schemas.runs import RunInfo

app = typer.Typer(help="Index runs: list, show, cancel, try failures again.", no_args_is_help=True)

RunArgument = Annotated[
    str | None, typer.Argument(help="Id of a run, or its beginning; default: the last one.", show_default=False)
]
_TRIES_SHOWN = 20
_CUT_SHORT = frozenset({"failed", "interrupted", "cancelled"})


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Runs to show, newest first.")] = 20,
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only of this corpus.", show_default=False)] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only running, done, failed, interrupted or cancelled ones.", show_default=False),
    ] = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """List runs, newest first."""
    with CommandContext(home=home, output=output, away=True) as context:
        if context.remote is not None:
            wanted = _state(state)
            found = context.remote.iter_runs(corpus=corpus, state=None if wanted is None else wanted.value)
            told = [_told(run) for run, _ in zip(found, range(limit), strict=False)]
            context.emit(told, lambda console: _print_list(console, told))
            return
        catalog = context.runtime.catalog
        corpus_id = None if corpus is None else catalog.corpus(corpus).corpus_id
        names = _names(catalog)
        rows = [_facts(run, names) for run in catalog.runs(limit, corpus_id=corpus_id, state=_state(state))]
        context.emit(rows, lambda console: _print_list(console, rows))


@app.command()
def show(
    run: RunArgument = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Show one run: what was asked for, what became of it, its tries at slices and its failures."""
    with CommandContext(home=home, output=output, away=True) as context:
        if context.remote is not None:
            told = _told(context.remote.run(_run_of(context.remote, run).run_id))
            told |= {"request": {}, "attempts": []}
            context.emit(told, lambda console: _print_run(console, told))
            return
        catalog = context.runtime.catalog
        found = _find(catalog, run)
        tries = [_try(attempt, over=found.finished_at is not None) for attempt in catalog.attempts(run_id=found.run_id)]
        facts = {
            **_facts(found, _names(catalog)),
            "request": found.request,
            "failures": catalog.count_failures(run_id=found.run_id),
            "attempts": tries,
        }
        context.emit(facts, lambda console: _print_run(console, facts))


@app.command()
def cancel(run: RunArgument = None, home: HomeOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Ask a running run to stop. It stops within seconds, keeps what it finished, and can be resumed."""
    with CommandContext(home=home, output=output, away=True) as context:
        if context.remote is not None:
            stopped = context.remote.cancel_run(_run_of(context.remote, run, running=True).run_id)
            said = "was asked to stop" if stopped.cancel_requested else f"has ended already ({stopped.state})"
            told = {"run_id": stopped.run_id, "state": stopped.state, "cancel_requested": stopped.cancel_requested}
            context.emit(told, lambda console: console.print(f"run {stopped.run_id[:8]} {said}"))
            return
        catalog = context.runtime.catalog
        found = _running(catalog) if run is None else _find(catalog, run)
        after = catalog.request_cancel(found.run_id)
        facts = {"run_id": after.run_id, "state": after.state.value, "cancel_requested": after.cancel_requested}

        def human(console: Console) -> None:
            if after.cancel_requested:
                lost = "" if _is_heard_of(after) else " Nothing was heard of it for a minute: it may be dead already."
                console.print(f"run {after.run_id[:8]} was asked to stop.{lost}")
            else:
                console.print(f"run {after.run_id[:8]} has ended already ({after.state.value})")

        context.emit(facts, human)


@app.command("retry-failed")
def retry_failed(
    run: RunArgument = None,
    local: LocalOption = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Ask for the same again, trying the files that failed once more."""
    with CommandContext(home=home, profile=profile, output=output, purpose="lodestone runs retry-failed") as context:
        from lodestone.indexing.run.history import recall
        from lodestone.indexing.scan.interrupted_runs import KIND
        from lodestone_cli.commands.index import print_report
        from lodestone_cli.progress import shown_progress
        from lodestone_cli.stopping import stopped_by_signals
        from lodestone_jobs.index import run_index

        found = _find(context.runtime.catalog, run)
        request = recall(context.runtime.catalog, found.run_id, corpus="").request
        if not request.paths:
            raise InvalidRequestError(
                f"run {found.run_id} does not say what was indexed", hint="lodestone index --retry-failed FOLDER"
            )
        with stopped_by_signals(), shown_progress(context) as progress:
            report = run_index(
                context.runtime,
                request.paths,
                corpus=request.corpus,
                captions=request.captions,
                retry_failed=True,
                service=None if local else context.service(),
                progress=progress,
            )
        context.emit(report.as_dict(), lambda console: print_report(console, report))


@app.command("export-failures")
def export_failures(
    file: Annotated[Path, typer.Argument(help="File to write: .csv, .tsv or .jsonl.", show_default=False)],
    run: Annotated[
        str | None,
        typer.Option("--run", help="Only what failed last in this run; default: all that stands.", show_default=False),
    ] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only of this corpus.", show_default=False)] = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Write the files that could not be used, with the reasons, to a table."""
    from lodestone_cli.failure_table import failure_rows, write_table

    with CommandContext(home=home, output=output) as context:
        catalog = context.runtime.catalog
        run_id = None if run is None else _find(catalog, run).run_id
        corpus_id = None if corpus is None else catalog.corpus(corpus).corpus_id
        rows = failure_rows(catalog, catalog.failures(run_id=run_id, corpus_id=corpus_id))
        count = write_table(file.expanduser(), rows)
        context.emit(
            {"file": str(file), "failures": count},
            lambda console: console.print(f"{count:,} failures written to {file}", markup=False),
        )


def _state(text: str | None) -> Any:  # noqa: ANN401 - RunState, imported late
    from lodestone.catalog.records import RunState

    if text is None:
        return None
    try:
        return RunState(text)
    except ValueError:
        raise InvalidRequestError(f"no such state: {text!r}", hint=f"one of {', '.join(RunState)}") from None


def _find(catalog: Catalog, text: str | None) -> Run:
    from lodestone.indexing.run.history import find_run
    from lodestone.indexing.scan.interrupted_runs import KIND

    if text is not None:
        return find_run(catalog, text)
    found = next((run for run in catalog.runs(1_000) if run.kind == KIND), None)
    if found is None:
        raise InvalidRequestError("no run was made yet", hint="lodestone index FOLDER")
    return found


def _running(catalog: Catalog) -> Run:
    from lodestone.catalog.records import RunState

    running = catalog.runs(20, state=RunState.RUNNING)
    if not running:
        raise NotFoundError("no run is going on", hint="lodestone runs list")
    if len(running) > 1:
        shown = ", ".join(run.run_id[:8] for run in running)
        raise InvalidRequestError(f"which run is meant? Running: {shown}", hint="lodestone runs cancel RUN")
    return running[0]


def _is_heard_of(run: Run) -> bool:
    from lodestone.indexing.heartbeat import BEAT_SECONDS, LOST_BEATS

    return run.heartbeat_at is None or (datetime.now(UTC) - run.heartbeat_at).total_seconds() < LOST_BEATS * BEAT_SECONDS


def _run_of(remote: Lodestone, named: str | None, *, running: bool = False) -> RunInfo:
    """Return a service's run by its id or the beginning of it; for None the last one, with `running` the last one that runs."""
    if named is not None and is_id(named):
        return remote.run(named.lower())
    if named is not None:
        known = [one.run_id for one in remote.iter_runs()]
        return remote.run(id_among(named, known, what="run", hint="lodestone runs list"))
    found = next(remote.iter_runs(state="running" if running else None), None)
    if found is None:
        raise NotFoundError("no run is going on" if running else "no run was made yet", hint="lodestone runs list")
    return found


def _told(run: RunInfo) -> dict[str, Any]:
    """Return a service's run with the keys that runs of this machine have in the output."""
    until = run.finished_at or run.heartbeat_at or run.started_at
    return run.model_dump() | {"heard_of": True, "worker": "", "seconds": _seconds(run.started_at, until)}


def _names(catalog: Catalog) -> dict[str, str]:
    """Return the names of all corpora by id."""
    return {corpus.corpus_id: corpus.name for corpus in corpora_of(catalog)}


def _facts(run: Run, names: Mapping[str, str]) -> dict[str, Any]:
    until = run.finished_at or run.heartbeat_at or run.started_at
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "corpus": names.get(run.corpus_id or ""),
        "state": run.state.value,
        "stage": run.stage,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "heartbeat_at": run.heartbeat_at,
        "heard_of": run.finished_at is not None or _is_heard_of(run),
        "cancel_requested": run.cancel_requested,
        "worker": run.worker,
        "seconds": _seconds(run.started_at, until),
        "counts": run.counts,
        "error": run.error,
    }


def _seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two moments; 0 where the clock was set back between them."""
    return round(max((end - start).total_seconds(), 0.0), 3)


def _try(attempt: SliceAttempt, *, over: bool) -> dict[str, Any]:
    state = attempt.state.value
    return {
        "slice_id": attempt.slice_id,
        "attempt": attempt.attempt,
        "state": "cut short" if over and state == "running" else state,
        "worker": attempt.worker,
        "embedded": attempt.embedded,
        "failed": attempt.failed,
        "started_at": attempt.started_at,
        "seconds": round(attempt.seconds, 3),
        "error": attempt.error,
    }


def _print_list(console: Console, rows: list[dict[str, Any]]) -> None:
    if not rows:
        console.print("no run was made yet: lodestone index ~/Pictures")
    for row in rows:
        lost = "" if row["heard_of"] else ", not heard of since " + f"{row['heartbeat_at'].astimezone():%H:%M:%S}"
        embedded = row["counts"].get("embedded", 0)
        began = f"{row['started_at'].astimezone():%Y-%m-%d %H:%M:%S}"
        line = (
            f"{row['run_id'][:8]}  {began}  {row['kind']:<6} {row['corpus'] or '':<12}"
            f" {row['state']} ({row['stage']}{lost})  {embedded:,} embedded  {row['seconds']:.0f} s  {row['error']}"
        )
        console.print(printable(" ".join(line.split("\n"))).rstrip(), markup=False)


def _print_run(console: Console, facts: dict[str, Any]) -> None:
    for name in ("run_id", "kind", "corpus", "state", "stage", "worker", "started_at", "finished_at", "heartbeat_at", "error"):
        if facts[name]:
            console.print(printable(f"{name:<13} {facts[name]}"), markup=False)
    if paths := facts["request"].get("paths"):
        console.print(printable(f"{'paths':<13} {', '.join(paths)}"), markup=False)
    counts = ", ".join(f"{count:,} {name}" for name, count in facts["counts"].items() if count)
    console.print(f"{'counts':<13} {counts or 'nothing'}")
    console.print(f"{'failures':<13} {facts['failures']:,}")
    tries = facts["attempts"]
    bad = [one for one in tries if one["state"] != "done"]
    console.print(f"{'tries':<13} {len(tries):,}, of which {len(bad):,} came to nothing")
    for one in bad[:_TRIES_SHOWN]:
        console.print(printable(f"  {one['slice_id'][:8]} try {one['attempt']} {one['state']}: {one['error']}"), markup=False)
    if len(bad) > _TRIES_SHOWN:
        console.print(f"  and {len(bad) - _TRIES_SHOWN:,} more (--output json)")
    for step in _next_steps(facts):
        console.print(f"{'next':<13} {step}", markup=False)


def _next_steps(facts: Mapping[str, Any]) -> list[str]:
    """Return the commands that help with a run that did not end well."""
    short = facts["run_id"][:8]
    steps = []
    if facts["kind"] == "index" and (facts["state"] in _CUT_SHORT or not facts["heard_of"]):
        steps.append(f"lodestone index --resume {short}  finishes what it left")
    if facts["failures"]:
        steps.append(f"lodestone runs export-failures bad.csv --run {short}  writes the files that failed, with the reasons")
        steps.append(f"lodestone runs retry-failed {short}  tries them again")
    return steps
