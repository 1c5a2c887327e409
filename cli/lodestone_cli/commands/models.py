"""Commands `lodestone models …`: list the models of all spaces, and swap one while searching goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import LocalOption

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.indexing.embed.executors import ExecutorFactory
    from lodestone.indexing.progress import Progress
    from lodestone.swap.overview import SwapReport
    from lodestone.swap.swapping import Swapper

app = Commands(help="See what spaces are made of, and swap models.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """See what spaces are made of, and swap models."""


@app.command("list")
def list_(at: HomeOptions) -> None:
    """Spaces, what they are made of, and what they could be made of instead."""
    with CommandContext(at, purpose="lodestone models list") as context:
        from lodestone.swap.overview import models_overview

        found = models_overview(context.runtime)
        context.emit(found, lambda console: _print_models(console, found))


@app.command()
def swap(
    at: HomeOptions,
    space: Annotated[str | None, typer.Option("--space", help="Which space.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="What to make it of: a backbone, classifiers (A+B), a version.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the swaps of this home.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Ask the recorded queries of both versions again.")] = False,
    promote: Annotated[bool, typer.Option("--promote", help="Search the new version from now on.")] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Search the former version again.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Keep the new version for good; drop the former one.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give up a swap that was not promoted.")] = False,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="With --to: pictures that cannot be read become failures, and are not found.")
    ] = False,
    executor: Annotated[str | None, typer.Option("--executor", help="auto, inline, processes or ray.")] = None,
    local: LocalOption = False,
) -> None:
    """Put another model behind a space. Searching goes on; nothing changes for it before --promote.

    `--space SPACE --to MODEL` computes and loads what the new version lacks, then compares both on recorded queries. The same
    command goes on with a swap that was cut short.
    """
    actions = {"promote": promote, "rollback": rollback, "finish": finish, "cancel": cancel, "compare": compare}
    chosen = [name for name, wanted in actions.items() if wanted]
    if status + len(chosen) + (to is not None) != 1:
        raise InvalidRequestError(
            "say what to do",
            hint="--space SPACE --to MODEL, or one of --status, --compare, --promote, --rollback, --finish, --cancel",
        )
    if leave_out and to is None:
        raise InvalidRequestError("--leave-out is about what a swap computes", hint="--space SPACE --to MODEL --leave-out")
    if to is not None and space is None:
        raise InvalidRequestError(f"which space shall be made of {to!r}?", hint="--space SPACE; see lodestone models list")
    flags = {"index": {"executor": executor}}
    with CommandContext(at, purpose="lodestone models swap", flags=flags, local=local, writes=True, existing=True) as context:
        from lodestone.swap.overview import swap_reports
        from lodestone_cli.progress import shown_progress
        from lodestone_jobs.pools import ray_pool

        if status:
            reports = [one for one in swap_reports(context.runtime) if space in {None, one.swap.space}]
            context.emit([one.as_dict() for one in reports], lambda console: _print_all(console, reports))
            return
        with shown_progress(context) as progress, ray_pool(context.runtime) as pool:
            swapper = _swapper(context, pool.executor, progress, leave_out=leave_out)
            report = swapper.start(space or "", to) if to is not None else getattr(swapper, chosen[0])(space)
        context.emit(report.as_dict(), lambda console: _print(console, report))


def _swapper(context: CommandContext, pool: ExecutorFactory, progress: Progress, *, leave_out: bool) -> Swapper:
    from lodestone.swap.swapping import Swapper
    from lodestone_jobs.index import through
    from lodestone_schemas.swaps import ShadowRequest

    service = context.service()
    if service is None:
        return Swapper(context.runtime, pool=pool, leave_out=leave_out, progress=progress)

    def shadow(space: str) -> dict[str, Any]:
        return service.shadow(ShadowRequest(space=space)).report

    return Swapper(
        context.runtime,
        synchronise=through(service),
        shadow=shadow,
        pool=pool,
        leave_out=leave_out,
        progress=progress,
    )


def _print_models(console: Console, found: dict[str, Any]) -> None:
    from rich.markup import escape

    for one in found["spaces"]:
        changed = "  [yellow](not as the profile says)[/]" if one["overridden"] else ""
        console.print(f"[bold]{escape(one['space'])}[/]  {escape(one['source'])}{changed}")
        state = "" if one["promoted"] in {None, one["collection"]} else f"  [yellow]searched: {escape(one['promoted'])}[/]"
        console.print(f"  collection {one['collection']}, backbones {escape(', '.join(one['backbones']))}{state}", style="dim")
        if one["swap"]:
            console.print(f"  swap to {escape(one['swap']['to'])}: {one['swap']['state']}")
        if one["versions"]:
            console.print(f"  versions here: {escape(', '.join(one['versions']))}", style="dim")
    installed = ", ".join(one["name"] for one in found["backbones"] if one["installed"])
    console.print(f"backbones installed: {escape(installed)}; also timm:… and open_clip:… (docs/models.md)", style="dim")


def _print_all(console: Console, reports: list[SwapReport]) -> None:
    if not reports:
        console.print("no model was ever swapped here: lodestone models swap --space SPACE --to MODEL")
    for report in reports:
        _print(console, report)


_NEXT = {
    "shadow": "searching has not changed; lodestone models swap --promote, or --cancel",
    "promoted": "lodestone models swap --rollback goes back at once; --finish drops the former version",
}


def _print(console: Console, report: SwapReport) -> None:
    from rich.markup import escape

    said = report.as_dict()
    console.print(f"[bold]{escape(said['space'])}[/]: {escape(said['from'])} -> {escape(said['to'])}  [bold]{said['state']}[/]")
    if report.embedded:
        console.print(f"{report.embedded:,} pictures went through {escape(', '.join(report.computed))}", style="dim")
    if report.waiting:
        console.print(f"[yellow]{report.waiting:,} pictures are not in the other collection yet[/]")
    for uri, code in report.unreadable:
        console.print(
            f"[yellow]could not be read:[/] {escape(printable(uri))} ({code}); "
            "run lodestone index, then this again (or --leave-out)"
        )
    if said["error"]:
        console.print(f"[red]stopped:[/] {escape(printable(said['error']))}")
    if said["shadow"] and said["state"] in {"shadow", "promoted"}:
        _print_shadow(console, said["shadow"])
    if hint := _NEXT.get(said["state"]):
        console.print(hint, style="dim")


_OVERLAPS = {
    "overlap": "answers, all spaces",
    "space_overlap": "answers, this space alone",
    "neighbours": "neighbours of pictures",
}


def _print_shadow(console: Console, found: dict[str, Any]) -> None:
    asked = found["queries"]
    console.print(
        f"compared on {asked['asked']:,} recorded queries (failed: old {asked['failed_old']}, new {asked['failed_new']})"
    )
    for key, title in _OVERLAPS.items():
        if one := found.get(key):
            console.print(f"  overlap@{found['k']} of {title}: {one['mean']:.2f} (tenth percentile {one['low']:.2f})")
    if judged := found.get("judged"):
        for name in ("old", "new"):
            one = judged[name]
            console.print(
                f"  {name}, {judged['queries']} judged: average precision {one.get('average_precision', 0):.3f}, "
                f"recall@{found['k']} {one.get('recall', 0):.3f}, called wrong: {one['wrong_in_first']}"
            )
