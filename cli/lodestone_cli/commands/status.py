"""Command `lodestone status`: corpora, spaces, the last runs, failures and the running service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.file_names import name_of, shown_name
from lodestone_cli.naming import corpora_of, local_time
from lodestone_cli.progress import short_progress
from lodestone_cli.remains import print_notes, remains_facts
from lodestone_cli.stopping import resume_command

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_client import Lodestone

_RUNS: Final = 5
_ENDS: Final = {"interrupted": "was interrupted", "cancelled": "was cancelled", "failed": "failed"}
_RUN_FIELDS: Final = {"run_id", "kind", "state", "stage", "started_at", "counts", "progress", "error"}


def status(
    at: HomeOptions,
    failures: Annotated[
        bool, typer.Option("--failures", help="List the files that could not be used, with the reason.")
    ] = False,
) -> None:
    """Show corpora, spaces, the last runs and the running service; with --failures the files that could not be used."""
    with CommandContext(at, away=True) as context:
        if context.remote is not None:
            remote_facts = _failures_of_last_run(context.remote) if failures else _facts_of(context.remote)
            context.emit(remote_facts, lambda console: _print_remote(console, remote_facts))
            return
        if failures:
            rows = _failures(context)
            context.emit(rows, lambda console: _print_failures(console, rows))
            return
        facts = _facts(context)

        def human(console: Console) -> None:
            _print(console, facts)

        context.emit(facts, human)


def _facts(context: CommandContext) -> dict[str, Any]:
    from lodestone.config.home import home_of
    from lodestone.home.space_status import space_status
    from lodestone.spaces.names import CAPTIONS

    settings = context.loaded.settings
    home = home_of(settings)
    facts: dict[str, Any] = {"home": str(home.path), "profile": settings.profile, "exists": home.exists()}
    service = context.service()
    facts["service"] = service.address.url if service else None
    if not home.exists():
        return facts
    aliases, facts["store"] = _aliases(context)
    facts["idle"] = _idle(context)
    facts["corpora"] = [corpus.model_dump(mode="json") for corpus in context.api.iter_corpora()]
    facts["unfinished"] = _unfinished(context)
    facts |= remains_facts(context)
    going_on = context.runtime.catalog.indexing_now()
    facts["indexing"] = None if going_on is None else str(going_on)
    spaces = space_status(context.runtime)
    facts["spaces"] = {
        name: _collection_facts(aliases.get(name), collection) for name, collection in spaces.collections.items()
    }
    facts["captions"] = None
    if context.runtime.catalog.has_captions():
        facts["captions"] = _collection_facts(aliases.get(CAPTIONS), spaces.captions)
    facts["missing_models"] = [
        {"model": model, "message": error.message, "hint": error.hint} for model, error in spaces.missing.items()
    ]
    facts["runs"] = [run.model_dump(include=_RUN_FIELDS) for run in context.api.runs(limit=_RUNS).runs]
    return facts


def _collection_facts(promoted: str | None, in_force: str | None) -> dict[str, Any]:
    """Return what is known of a collection by those that the alias names and that the profile needs, which may be unknown."""
    return {
        "collection": promoted,
        "current": in_force is not None and promoted == in_force,
        "available": in_force is not None,
    }


def _aliases(context: CommandContext) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the collection of each alias, and whether the store answered: the catalog's facts are shown in any case."""
    from lodestone.errors import LodestoneError

    try:
        return context.runtime.promoted(), {"ok": True, "detail": ""}
    except LodestoneError as error:
        return {}, {"ok": False, "detail": error.message}


def _idle(context: CommandContext) -> dict[str, str]:
    """Return the parts of queries that can do nothing in this home; a gate that cannot be read is one."""
    from lodestone.errors import LodestoneError

    try:
        return context.runtime.idle_parts()
    except LodestoneError as error:
        return {"gate": error.message}


def _unfinished(context: CommandContext) -> list[dict[str, Any]]:
    """Return the corpora whose last run ended early, how far it came, and the command that goes on."""
    from lodestone.indexing.run.unfinished import unfinished_run

    catalog, home = context.runtime.catalog, context.loaded.settings.home
    named = home if context.loaded.sources.get("home") == "flag" else None
    runs = [run for corpus in corpora_of(catalog) if (run := unfinished_run(catalog, corpus)) is not None]
    return [
        {
            "corpus": run.corpus,
            "run_id": run.run_id,
            "state": run.state.value,
            "kept": run.kept,
            "waiting": run.waiting,
            "progress": run.progress,
            "resume": resume_command(run.corpus, named),
        }
        for run in runs
    ]


def _facts_of(remote: Lodestone) -> dict[str, Any]:
    return {
        "service": remote.url,
        **remote.status().model_dump(mode="json"),
        "corpora": [corpus.model_dump(mode="json") for corpus in remote.iter_corpora()],
        "runs": [run.model_dump(mode="json") for run in remote.runs(limit=_RUNS).runs],
    }


def _failures_of_last_run(remote: Lodestone) -> list[dict[str, Any]]:
    """Return the failures of the service's last run: its API lists them for one run at a time."""
    runs = remote.runs(limit=1).runs
    return [failure.model_dump(mode="json") for failure in remote.iter_run_failures(runs[0].run_id)] if runs else []


def _print_remote(console: Console, facts: dict[str, Any] | list[dict[str, Any]]) -> None:
    from lodestone.catalog.work.going_on import indexing_words

    if isinstance(facts, list):
        _print_failures(console, facts)
        return
    state = "ready" if facts["ready"] else "not ready"
    lines = [f"service  {facts['service']} ({state})", f"version  {facts['version']}", f"profile  {facts['profile']}"]
    for name, check in facts["checks"].items():
        lines += [] if check["ok"] else [f"  {name} does not answer: {check['detail']}"]
    lines += [f"{part}: {reason}" for part, reason in facts.get("idle", {}).items()]
    lines += [f"corpus {corpus['name']}: {corpus['images']:,} pictures" for corpus in facts["corpora"]]
    going_on = next((run for run in facts["runs"] if run["state"] == "running" and run["kind"] == "index"), None)
    lines += [] if going_on is None else [indexing_words({"stage": going_on["stage"], **(going_on.get("progress") or {})})]
    lines += [_run_line(run) for run in facts["runs"]]
    for line in lines:
        console.print(printable(" ".join(line.split())), markup=False)


def _failures(context: CommandContext) -> list[dict[str, str]]:
    from lodestone.config.home import home_of

    if not home_of(context.loaded.settings).exists():
        return []
    catalog = context.runtime.catalog
    corpora = {corpus.corpus_id: corpus.name for corpus in corpora_of(catalog)}
    roots = {root.root_id: root for root in catalog.roots(None)}
    return [
        {
            "corpus": corpora[roots[failure.root_id].corpus_id],
            "root": roots[failure.root_id].name,
            "uri": failure.uri,
            "code": failure.code,
            "message": failure.message,
        }
        for failure in catalog.failures()
    ]


def _print_failures(console: Console, rows: list[dict[str, str]]) -> None:
    for row in rows:
        place = shown_name(f"{row['root']}/{name_of(row['uri'])}")
        console.print(f"{printable(row['corpus'])}: {place}: {printable(row['message'])} [{row['code']}]", markup=False)
    if not rows:
        console.print("every file could be used")


def _print_incomplete(console: Console, facts: dict[str, Any]) -> None:
    if incomplete := sum(corpus["incomplete"] for corpus in facts["corpora"]):
        console.print(
            f"{incomplete:,} incomplete: their files end early, and they are found by what could be decoded", style="dim"
        )


def _print(console: Console, facts: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    console.print(printable(f"home     {facts['home']}"), markup=False)
    console.print(f"profile  {facts['profile']}", markup=False)
    console.print(f"service  {facts['service'] or 'not running'}")
    if not facts["exists"]:
        console.print("\nnothing is indexed yet: lodestone index ~/Pictures")
        return
    table = Table(box=None, pad_edge=False, title_justify="left")
    for title in ("corpus", "pictures", "failures", "roots"):
        table.add_column(title, overflow="fold", justify="right" if title in {"pictures", "failures"} else "left")
    for corpus in facts["corpora"]:
        roots = ", ".join(f"{root['name']} ({root['images']:,})" for root in corpus["roots"])
        table.add_row(
            escape(printable(corpus["name"])), f"{corpus['images']:,}", f"{corpus['failures']:,}", escape(printable(roots))
        )
    console.print()
    console.print(table)
    _print_incomplete(console, facts)
    console.print()
    print_notes(console, facts)
    for line, style in _run_remarks(facts):
        console.print(printable(line), style=style, markup=False)
    if not facts["store"]["ok"]:
        console.print(printable(f"store: {facts['store']['detail']}"), markup=False)
    for line in _collection_lines(facts) if facts["store"]["ok"] else ():
        console.print(line)
    for lacking in facts["missing_models"]:
        line = f"model {lacking['model']}: {lacking['message']}; {lacking['hint']}"
        console.print(printable(line), style="yellow", markup=False)
    for part, reason in facts["idle"].items():
        console.print(printable(f"{part}: {reason}"), style="yellow", markup=False)
    for run in facts["runs"]:
        shown = Text(printable(" ".join(_run_line(run).split())), style="dim")
        shown.truncate(console.width, overflow="ellipsis")
        console.print(shown)


def _run_remarks(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a line and its style for the run that goes on, and for each one that ended before everything was done."""
    if facts["indexing"]:
        yield facts["indexing"], "green"
    for run in facts["unfinished"]:
        yield f"the last run of {run['corpus']} {_ENDS[run['state']]}: {run['progress']}; `{run['resume']}` goes on", "yellow"


def _collection_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each space, and one for captions that words cannot be compared with."""
    waits = bool(facts["unfinished"] or facts["indexing"])
    shown = {f"space {name}": space for name, space in facts["spaces"].items()}
    if facts["captions"] is not None and not facts["captions"]["current"]:
        shown["captions"] = facts["captions"]
    for name, collection in shown.items():
        yield f"{name}: {collection['collection'] or 'not built'}{_state(collection, waits=waits)}"


def _run_line(run: dict[str, Any]) -> str:
    state = "" if run["stage"] == run["state"] else f"({run['stage']})"
    if run["state"] == "running" and (progress := short_progress(run.get("progress"))):
        state = f"({run['stage']}: {progress})"
    began = local_time(datetime.fromisoformat(str(run["started_at"])))
    return f"run {run['run_id'][:8]} of {began} {run['kind']}: {run['state']} {state} {run['error']}"


def _state(space: dict[str, Any], *, waits: bool) -> str:
    if not space["available"]:
        return "  (its models are missing)"
    if space["current"]:
        return ""
    return "  (waits for the run)" if waits else "  (out of date: run `lodestone index --resume`, once for each corpus)"
