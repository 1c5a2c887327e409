"""Commands `lodestone explain`, `replay` and `feedback`, which work on recorded queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_queries
from lodestone_cli.file_names import path_fields
from lodestone_cli.history import KINDS, print_history
from lodestone_cli.naming import checked, counted, first_few, short
from lodestone_cli.options import LocalOption
from lodestone_cli.progress import shown_wait
from lodestone_cli.recorded import RecordedAnswer, load_recorded, picture_of, recorded_id
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from lodestone_schemas.api import FeedbackResult, ReplayResult

_RecordedOption = Annotated[
    str | None, typer.Argument(help="Query id, or its beginning; the newest query by default.", autocompletion=complete_queries)
]
_JudgedHelp = "picture: its rank in the answer, its file or its id; may be given several times."
_SHOWN = 1e-4  # the smallest change of a weight that four decimals show
_MOVED = 5  # pictures that a replay names


def explain(
    at: HomeOptions,
    query_id: _RecordedOption = None,
    history: Annotated[bool, typer.Option("--list", help="List recorded queries instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Hits to explain, or queries to list.")] = 10,
    guides: Annotated[
        Path | None, typer.Option("--guides", help="Save the pictures that were drawn for it in this folder.")
    ] = None,
) -> None:
    """Show how a query was answered: plan, gate, guides, weights, and what put each picture where it stands."""
    with CommandContext(at, away=True, existing=True) as context:
        from lodestone_cli.explanation import print_explanation

        if history:
            page = context.api.queries(limit=limit)
            value = page.model_dump(mode="json")
            context.emit(value, lambda console: print_history(console, page, context.api, context.locator))
            return
        explanation = context.api.explain(recorded_id(context.api, query_id))
        explanation = explanation.model_copy(update={"hits": explanation.hits[:limit]})
        shown = [str(guide.provenance["image_id"]) for guide in explanation.guides if "image_id" in guide.provenance]
        shown += [part.image_id for part in explanation.parts if part.image_id is not None]
        paths = context.locator.paths([*(hit.image_id for hit in explanation.hits), *shown])
        value = explanation.model_dump(mode="json")
        _add_paths(value["hits"], paths)
        if guides is not None:
            drawn = [guide.guide_id for guide in explanation.guides if "image_id" not in guide.provenance]
            _save_guides(context, explanation.query_id, drawn, guides.expanduser())
        context.emit(value, lambda console: print_explanation(console, explanation, paths))


def replay(
    at: HomeOptions,
    query_id: _RecordedOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again, over the collection as it is now, and compare.")] = False,
    local: LocalOption = False,
) -> None:
    """Make a recorded query's ranking once more. From its record it is the same ranking, whatever changed since."""
    with CommandContext(at, purpose="lodestone replay", away=True, local=local, existing=True) as context:
        recorded = load_recorded(context, query_id)
        with shown_wait(context, "asking again" if fresh else "replaying"):
            result = context.api.replay(recorded.query_id, fresh=fresh)
        paths = context.locator.paths(result.moved[:_MOVED])
        context.emit(result.model_dump(mode="json"), lambda console: _print_replay(console, recorded, result, paths))


def feedback(
    at: HomeOptions,
    query_id: _RecordedOption = None,
    relevant: Annotated[list[str] | None, typer.Option("--relevant", "-r", help=f"A right {_JudgedHelp}")] = None,
    irrelevant: Annotated[list[str] | None, typer.Option("--irrelevant", "-i", help=f"A wrong {_JudgedHelp}")] = None,
    eta: Annotated[float | None, typer.Option("--eta", help="Learning rate, up to 1; default: trust.eta.")] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take this feedback back, as it was given: its change of trust and its tags go.")
    ] = False,
) -> None:
    """Say which pictures of an answer were right: spaces that ranked them well are trusted more for such queries."""
    with CommandContext(at, purpose="lodestone feedback", away=True) as context:
        from lodestone_schemas.api import FeedbackRequest

        if not relevant and not irrelevant:
            raise InvalidRequestError("no picture is named", hint="--relevant 1 --relevant 3 --irrelevant 2, by rank")
        if eta is not None and not 0 < eta <= 1:
            raise InvalidRequestError(f"--eta {eta} is out of range", hint="above 0, at most 1")
        context.require_home()
        recorded = load_recorded(context, query_id)
        request = checked(
            lambda: FeedbackRequest(
                query_id=recorded.query_id,
                relevant=[picture_of(context, recorded, name) for name in relevant or []],
                irrelevant=[picture_of(context, recorded, name) for name in irrelevant or []],
                eta=eta,
            )
        )
        with shown_wait(context, "taking it back" if withdraw else "learning"):
            result = context.api.withdraw_feedback(request) if withdraw else context.api.feedback(request)
        judged = {*request.relevant, *request.irrelevant}

        def human(console: Console) -> None:
            if withdraw:
                _print_withdrawn(console, recorded, result)
            else:
                _print_feedback(console, recorded, result, judged)

        context.emit(result.model_dump(mode="json"), human)


def _add_paths(hits: list[dict[str, Any]], paths: Mapping[str, str]) -> None:
    for hit in hits:
        hit.update(path_fields(paths.get(hit["image_id"])))


def _save_guides(context: CommandContext, query_id: str, guide_ids: list[str], folder: Path) -> None:
    saved = 0
    for guide_id in guide_ids:
        try:
            data = context.api.guide_picture(query_id, guide_id)
        except NotFoundError as error:
            context.messages.print(printable(f"note: {error.message}"), markup=False)
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{guide_id.replace('/', '-')}.jpg").write_bytes(data)
        except OSError as error:
            raise InvalidRequestError(f"cannot write to {str(folder)!r}: {error.strerror}", hint="name a folder") from error
        saved += 1
    context.messages.print(printable(f"saved {counted(saved, 'picture')} of guides in {folder}"), markup=False)


def _print_replay(console: Console, recorded: RecordedAnswer, result: ReplayResult, paths: Mapping[str, str]) -> None:
    source = "the collection of now" if result.fresh else "its record"
    console.print(
        printable(f"{recorded.text or KINDS.get(recorded.kind, recorded.kind)}  {short(recorded.query_id)}"), markup=False
    )
    if result.identical:
        console.print(f"identical: {counted(len(result.ids), 'picture')}, ids, order and scores, from {source}")
        return
    if not result.moved:
        console.print(f"the same order, with other scores, from {source}")
        return
    whole = len({*recorded.ids, *result.ids})
    stand = "stands" if len(result.moved) == 1 else "stand"
    console.print(f"not identical: {len(result.moved)} of {counted(whole, 'picture')} {stand} elsewhere in {source}")
    before = {image_id: rank for rank, image_id in enumerate(recorded.ids, 1)}
    after = {image_id: rank for rank, image_id in enumerate(result.ids, 1)}
    for one in result.moved[:_MOVED]:
        places = f"{before.get(one, '-'):>4} -> {after.get(one, '-'):<4}"
        console.print(printable(f"{places} {paths.get(one, one)}"), markup=False)
    if len(result.moved) > _MOVED:
        console.print(f"{'':>12} and {len(result.moved) - _MOVED} more", style="dim")


def _print_withdrawn(console: Console, recorded: RecordedAnswer, result: FeedbackResult) -> None:
    if result.applied:
        console.print(printable(f"took back the feedback on {recorded.text!r}"), markup=False)
        _print_trust(console, result)
    else:
        console.print("nothing changed: this feedback does not count, or names other pictures than were judged together")


def _print_trust(console: Console, result: FeedbackResult) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("trust in", "before", "", "now"):
        table.add_column(heading)
    for space, after in result.after.items():
        table.add_row(printable(space), f"{result.before.get(space, 1.0):.4f}", "->", f"{after:.4f}")
    print_table(console, table)


def _print_feedback(console: Console, recorded: RecordedAnswer, result: FeedbackResult, judged: set[str]) -> None:
    unknown = [one for one in result.ignored if one in judged]
    if result.applied:
        console.print(
            printable(f"learnt from {counted(len(judged) - len(unknown), 'picture')} of {recorded.text!r}"), markup=False
        )
        _print_trust(console, result)
        if all(abs(after - result.before.get(space, 1.0)) < _SHOWN / 2 for space, after in result.after.items()):
            console.print("no weight changed: the spaces ranked these pictures alike", style="dim")
    elif len(unknown) == len(judged):
        console.print("nothing changed: this answer holds none of these pictures")
    else:
        console.print("nothing changed: this feedback was given before")
    if unknown and len(unknown) < len(judged):
        console.print(f"note: this answer does not hold {first_few([short(one) for one in unknown], _MOVED)}", style="yellow")
    if result.applied and result.event_id is not None:
        line = f"topic {result.topic}; take it back: lodestone trust undo {short(result.event_id)}"
        console.print(printable(line), style="dim", markup=False)
