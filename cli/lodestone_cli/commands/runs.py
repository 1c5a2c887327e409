"""Commands `lodestone runs …`: list, show, cancel and repeat index runs, and export their failures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_runs
from lodestone_cli.naming import local_time
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import HomeOption, LocalOption, OneCorpusOption, Output, OutputOption
from lodestone_cli.progress import progress_lines, shown_wait

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.catalog.records import RunState, SliceAttempt
    from lodestone_schemas.runs import RunInfo

app = Commands(help="Index runs: list, show, cancel, try failures again.", no_args_is_help=True)

RunArgument = Annotated[
    str | None, typer.Argument(help="Id of a run, or its beginning; default: the last one.", autocompletion=complete_runs)
]
_TRIES_SHOWN = 20
_CUT_SHORT = frozenset({"failed", "interrupted", "cancelled"})


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Runs to show, newest first.")] = 20,
    corpus: OneCorpusOption = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only running, done, failed, interrupted or cancelled ones.")
    ] = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """List runs, newest first."""
    with CommandContext(HomeOptions(home=home, output=output), away=True) as context:
        wanted = _state(state)
        if not context.has_home:
            context.emit([], lambda console: _print_list(console, []))
            return
        workers = _workers(context, limit, corpus=corpus, state=wanted)
        runs = islice(context.api.iter_runs(corpus=corpus, state=None if wanted is None else wanted.value), limit)
        rows = [_facts(context, run) | {"worker": workers.get(run.run_id, "")} for run in runs]
        context.emit(rows, lambda console: _print_list(console, rows))


@app.command()
def show(
    run: RunArgument = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Show one run: what was asked for, what became of it, its tries at slices and its failures."""
    with CommandContext(HomeOptions(home=home, output=output), away=True, existing=True) as context:
        info = context.api.run(context.locator.run(run))
        facts = _facts(context, info) | _record(context, info)
        context.emit(facts, lambda console: _print_run(console, facts))


@app.command()
def cancel(run: RunArgument = None, home: HomeOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Ask a running run to stop. It stops within seconds, keeps what it finished, and can be resumed."""
    with CommandContext(HomeOptions(home=home, output=output), away=True, existing=True) as context:
        after = context.api.cancel_run(context.locator.run(run, running=True))
        facts = {"run_id": after.run_id, "state": after.state, "cancel_requested": after.cancel_requested}

        def human(console: Console) -> None:
            if after.cancel_requested:
                is_lost = context.remote is None and not _has_heartbeat(after)
                lost = " Nothing was heard of it for a minute: it may be dead already." if is_lost else ""
                console.print(f"run {after.run_id[:8]} was asked to stop.{lost}")
            else:
                console.print(f"run {after.run_id[:8]} has ended already ({after.state})")

        context.emit(facts, human)


@app.command("retry-failed")
def retry_failed(at: HomeOptions, run: RunArgument = None, local: LocalOption = False) -> None:
    """Ask for the same again, trying the files that failed once more."""
    with CommandContext(at, purpose="lodestone runs retry-failed", local=local, writes=True) as context:
        from lodestone.indexing.run.history import recall
        from lodestone_cli.commands.index import print_report
        from lodestone_cli.progress import shown_progress
        from lodestone_cli.stopping import outcome_of, stopped_by_signals
        from lodestone_jobs.index import run_index

        context.require_store()
        run_id = context.locator.run(run)
        request = recall(context.runtime.catalog, run_id, corpus="").request
        if not request.paths:
            raise InvalidRequestError(
                f"run {run_id} does not say what was indexed", hint="lodestone index --retry-failed FOLDER"
            )
        with (
            stopped_by_signals(lambda: outcome_of(lambda: context.runtime.catalog, request.corpus, at.home)) as stop,
            shown_progress(context) as progress,
        ):
            report = run_index(
                context.runtime,
                request.paths,
                corpus=request.corpus,
                captions=request.captions,
                retry_failed=True,
                service=context.service(),
                progress=progress,
                stop=stop,
            )
        context.emit(report.as_dict(), lambda console: print_report(console, report))


@app.command("export-failures")
def export_failures(
    file: Annotated[Path, typer.Argument(help="File to write: .csv, .tsv or .jsonl.")],
    run: Annotated[
        str | None,
        typer.Option(
            "--run", help="Only what failed last in this run; default: all that stands.", autocompletion=complete_runs
        ),
    ] = None,
    corpus: OneCorpusOption = None,
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Write the files that could not be used, with the reasons, to a table."""
    from lodestone_cli.failure_table import failure_rows, write_table

    with CommandContext(HomeOptions(home=home, output=output)) as context:
        catalog = context.runtime.catalog
        run_id = None if run is None else context.locator.run(run)
        corpus_id = None if corpus is None else catalog.corpus(corpus).corpus_id
        rows = failure_rows(catalog, catalog.failures(run_id=run_id, corpus_id=corpus_id))
        with shown_wait(context, "writing failures"):
            count = write_table(file.expanduser(), rows)
        context.emit(
            {"file": str(file), "failures": count},
            lambda console: console.print(f"{count:,} failures written to {file}", markup=False),
        )


def _state(text: str | None) -> RunState | None:
    from lodestone.catalog.records import RunState

    if text is None:
        return None
    try:
        return RunState(text)
    except ValueError:
        raise InvalidRequestError(f"no such state: {text!r}", hint=f"one of {', '.join(RunState)}") from None


def _workers(context: CommandContext, limit: int, *, corpus: str | None, state: RunState | None) -> dict[str, str]:
    """Return the worker of each run by its id. Only the catalog knows it: the API does not name machines.

    Raises:
        UnknownNameError: there is no such corpus.
    """
    if context.remote is not None:
        return {}
    catalog = context.runtime.catalog
    corpus_id = None if corpus is None else catalog.corpus(corpus).corpus_id
    return {run.run_id: run.worker for run in catalog.runs(limit, corpus_id=corpus_id, state=state)}


def _record(context: CommandContext, run: RunInfo) -> dict[str, Any]:
    """Return the run's request, worker and tries at slices. Only the catalog knows them: they name folders and machines."""
    if context.remote is not None:
        return {"worker": "", "request": {}, "attempts": []}
    catalog = context.runtime.catalog
    record = catalog.run(run.run_id)
    attempts = [_attempt(attempt, over=run.finished_at is not None) for attempt in catalog.attempts(run_id=run.run_id)]
    return {"worker": record.worker, "request": record.request, "attempts": attempts}


def _facts(context: CommandContext, run: RunInfo) -> dict[str, Any]:
    until = run.finished_at or run.heartbeat_at or run.started_at
    is_heard_of = context.remote is not None or run.finished_at is not None or _has_heartbeat(run)
    return run.model_dump() | {"heard_of": is_heard_of, "worker": "", "seconds": _seconds(run.started_at, until)}


def _has_heartbeat(run: RunInfo) -> bool:
    """Return whether the run gave a heartbeat of late, by the clock of this machine."""
    from lodestone.indexing.heartbeat import BEAT_SECONDS, LOST_BEATS

    return run.heartbeat_at is None or (datetime.now(UTC) - run.heartbeat_at).total_seconds() < LOST_BEATS * BEAT_SECONDS


def _seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two moments; 0 where the clock was set back between them."""
    return round(max((end - start).total_seconds(), 0.0), 3)


def _attempt(attempt: SliceAttempt, *, over: bool) -> dict[str, Any]:
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
    stage = ("stage",) if facts["stage"] != facts["state"] else ()
    for name in ("run_id", "kind", "corpus", "state", *stage, "worker", "started_at", "finished_at", "heartbeat_at", "error"):
        if value := facts[name]:
            shown = local_time(value, seconds=True) if isinstance(value, datetime) else value
            console.print(printable(f"{name:<13} {shown}"), markup=False)
    if paths := facts["request"].get("paths"):
        console.print(printable(f"{'paths':<13} {', '.join(paths)}"), markup=False)
    counts = ", ".join(f"{count:,} {name}" for name, count in facts["counts"].items() if count)
    console.print(f"{'counts':<13} {counts or 'nothing'}")
    if facts["progress"]:
        for line in progress_lines(facts["progress"], running=facts["state"] == "running"):
            console.print(line, markup=False)
    console.print(f"{'failures':<13} {facts['failures']:,}")
    tries = facts["attempts"]
    bad = [attempt for attempt in tries if attempt["state"] != "done"]
    if tries:
        console.print(f"{'tries':<13} {len(tries):,}, of which {len(bad):,} came to nothing")
    for attempt in bad[:_TRIES_SHOWN]:
        line = f"  {attempt['slice_id'][:8]} try {attempt['attempt']} {attempt['state']}: {attempt['error']}"
        console.print(printable(line), markup=False)
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
