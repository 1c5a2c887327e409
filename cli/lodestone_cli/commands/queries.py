"""`lodestone explain`, `replay` and `feedback`: why was this answer given, is it given again, and was it right?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.options import HomeOption, LocalOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session, printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.query.trace import Trace
    from lodestone_schemas.api import ExplainedHit, FeedbackResult, QueryExplanation, QueryPage, ReplayResult

_RecordedOption = Annotated[
    str | None,
    typer.Argument(help="Query id, or its beginning; the newest query by default.", show_default=False),
]
_PARTS = 4  # of each hit, in a table for people


def explain(
    query_id: _RecordedOption = None,
    history: Annotated[bool, typer.Option("--list", help="List recorded queries instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Hits to explain, or queries to list.")] = 10,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Show how a query was answered: plan, gate, guides, weights, and what put each picture where it stands."""
    with Session(home=home, profile=profile, output=output) as session:
        from lodestone.query.explain import explain as explanation_of
        from lodestone.query.history import query_page

        if history:
            page = query_page(session.runtime.catalog, offset=0, limit=limit)
            session.emit(page.model_dump(mode="json"), lambda console: _print_history(console, page))
            return
        explanation = explanation_of(_trace(session, query_id))
        explanation = explanation.model_copy(update={"hits": explanation.hits[:limit]})
        session.emit(explanation.model_dump(mode="json"), lambda console: _print_explanation(console, explanation))


def replay(
    query_id: _RecordedOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again, over the collection as it is now, and compare.")] = False,
    local: LocalOption = False,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Make a recorded query's ranking once more. From its record it is the same ranking, whatever changed since."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone replay") as session:
        from lodestone.query.replay import replay as replayed

        trace = _trace(session, query_id)
        client = session.service() if fresh and not local else None
        if client is not None:
            result = client.replay(trace.query_id, fresh=True)
        elif fresh:
            result = asyncio.run(_again(session, trace))
        else:
            result = replayed(trace)
        session.emit(result.model_dump(mode="json"), lambda console: _print_replay(console, trace, result))


def feedback(
    query_id: Annotated[str, typer.Argument(help="Query id, as the search printed it.", show_default=False)],
    relevant: Annotated[
        list[str] | None, typer.Option("--relevant", "-r", help="A right picture: its id or rank.", show_default=False)
    ] = None,
    irrelevant: Annotated[
        list[str] | None, typer.Option("--irrelevant", "-i", help="A wrong picture: its id or rank.", show_default=False)
    ] = None,
    eta: Annotated[
        float | None, typer.Option("--eta", help="Learning rate, up to 1; default: trust.eta.", show_default=False)
    ] = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Say which pictures of an answer were right: spaces that ranked them well are trusted more for such queries."""
    with Session(home=home, profile=profile, output=output) as session:
        from lodestone_schemas.api import FeedbackRequest

        if not relevant and not irrelevant:
            raise InvalidRequestError("no picture is named", hint="--relevant 1 --relevant 3 --irrelevant 2, by rank or by id")
        if eta is not None and not 0 < eta <= 1:
            raise InvalidRequestError(f"--eta {eta} is out of range", hint="above 0, at most 1")
        trace = _trace(session, query_id)
        request = FeedbackRequest(
            query_id=trace.query_id,
            relevant=[_picture(trace, one) for one in relevant or []],
            irrelevant=[_picture(trace, one) for one in irrelevant or []],
            eta=eta,
        )
        client = session.service()
        result = client.feedback(request) if client else session.runtime.learn(request)
        if client is None:
            session.runtime.deliver_tags()
        session.emit(result.model_dump(mode="json"), lambda console: _print_feedback(console, result))


def _trace(session: Session, query_id: str | None) -> Trace:
    from lodestone.query.trace import load_trace

    catalog = session.runtime.catalog
    if query_id is not None and len(query_id) == len("00000000-0000-0000-0000-000000000000"):
        return load_trace(catalog, query_id)
    recorded = [one.query_id for one in catalog.queries(0, 1 if query_id is None else 100_000)]
    found = recorded if query_id is None else [one for one in recorded if one.startswith(query_id)]
    if not found:
        what = "no query is recorded yet" if query_id is None else f"no query {query_id!r} is recorded"
        raise NotFoundError(what, hint="lodestone explain --list; the setting query.history says how many are kept")
    if len(found) > 1:
        raise InvalidRequestError(f"{len(found)} queries begin with {query_id!r}", hint="give more of the id")
    return load_trace(catalog, found[0])


def _picture(trace: Trace, name: str) -> str:
    """The image id behind an id or a rank."""
    if name.isdigit():
        rank = int(name)
        if not 1 <= rank <= len(trace.ranking.ids):
            raise InvalidRequestError(f"the answer has no rank {rank}", hint=f"1 to {len(trace.ranking.ids)}, or an image id")
        return trace.ranking.ids[rank - 1]
    return name


async def _again(session: Session, trace: Trace) -> ReplayResult:
    from lodestone.query.history import ask_again

    engine = session.runtime.engine()
    await engine.warm_up()
    return await ask_again(engine, session.runtime.catalog, trace)


def _print_history(console: Console, page: QueryPage) -> None:
    if not page.queries:
        console.print('no query is recorded yet: lodestone search "two dogs on a beach"')
    for one in page.queries:
        console.print(
            printable(f"{one.query_id}  {one.created_at:%Y-%m-%d %H:%M}  {one.text or f'({one.kind})'}"), markup=False
        )


def _print_explanation(console: Console, explanation: QueryExplanation) -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(printable(explanation.text or explanation.kind))}[/]  [dim]{explanation.query_id}[/]")
    spaces = ", ".join(f"{name} ({collection})" for name, collection in explanation.plan.get("spaces", {}).items())
    console.print(printable(f"asked {explanation.created_at:%Y-%m-%d %H:%M:%S} UTC over {spaces}"), markup=False, style="dim")
    if explanation.gate is not None:
        console.print(f"gate: [bold]{explanation.gate.verdict}[/]: {escape(explanation.gate.why)}")
    if explanation.topic is not None:
        trust = ", ".join(f"{space} {weight:.2f}" for space, weight in explanation.trust.items())
        console.print(printable(f"topic {explanation.topic}: trust {trust or 'neutral'}"), markup=False)
    if explanation.guides:
        table = Table(title="guides", title_justify="left", box=None, pad_edge=False)
        for heading in ("guide", "weight", "status", "unlike", "from"):
            table.add_column(heading)
        for guide in explanation.guides:
            origin = guide.provenance.get("caption") or guide.provenance.get("prompt") or guide.provenance.get("tag") or ""
            unlike = "" if guide.outlier_score is None else f"{guide.outlier_score:.2f}"
            status = guide.status if guide.cached is None else f"{guide.status} ({guide.cached} from cache)"
            table.add_row(escape(guide.guide_id), f"{guide.weight:.2f}", status, unlike, escape(printable(str(origin))))
        console.print(table)
    table = Table(title="hits, and what each score is made of", title_justify="left", box=None, pad_edge=False)
    for heading in ("#", "score", "picture", "largest parts"):
        table.add_column(heading)
    for hit in explanation.hits:
        table.add_row(str(hit.rank), f"{hit.score:.4f}", hit.image_id, escape(printable(_parts(hit))))
    console.print(table)
    for note in (*explanation.warnings, *(f"left out: {one}" for one in explanation.dropped)):
        console.print(f"[yellow]note:[/] {escape(printable(note))}")
    timings = ", ".join(f"{stage} {spent:.1f}" for stage, spent in explanation.timings_ms.items())
    console.print(f"milliseconds: {timings}", style="dim", markup=False)


def _parts(hit: ExplainedHit) -> str:
    shown = [
        f"{part.part:+.3f} {part.space} by {part.guide}{'' if part.rank is None else f' (rank {part.rank})'}"
        for part in hit.parts[:_PARTS]
    ]
    rest = hit.parts[_PARTS:]
    if rest:
        shown.append(f"{sum(part.part for part in rest):+.3f} by {len(rest)} more")
    return "\n".join([*shown, *([] if hit.explained > 1 - 1e-4 else [f"only {hit.explained:.1%} of it is explained"])])


def _print_replay(console: Console, trace: Trace, result: ReplayResult) -> None:
    source = "the collection of now" if result.fresh else "its record"
    if result.identical:
        console.print(f"identical: {len(result.ids)} pictures, ids, order and scores, from {source}")
    else:
        console.print(
            f"[yellow]not identical:[/] {len(result.moved)} of {len(trace.ranking.ids)} pictures moved, from {source}"
        )


def _print_feedback(console: Console, result: FeedbackResult) -> None:
    if not result.applied:
        console.print("this feedback was given before: nothing changed")
    for space, after in result.after.items():
        console.print(printable(f"trust in {space} for {result.topic}: {result.before.get(space, 1.0):.3f} -> {after:.3f}"))
    if result.ignored:
        console.print(f"[yellow]note:[/] {len(result.ignored)} pictures were not in the lists of this query")
