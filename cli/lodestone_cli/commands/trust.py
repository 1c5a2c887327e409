"""Commands `lodestone trust …`: show, undo, reset, export and import what feedback taught about spaces."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import counted, id_among, local_time, short
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import HomeOption, ProfileOption
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.catalog.use_records import TrustEvent
    from lodestone_schemas.api import TrustPage

app = Commands(help="What feedback has taught about the spaces, topic by topic.", no_args_is_help=True)

_TEACH = "lodestone feedback QUERY_ID --relevant 1 --irrelevant 2"


@app.command()
def show(at: HomeOptions) -> None:
    """Show the trust in each space, topic by topic; 1 is neutral."""
    with CommandContext(at, away=True, existing=True) as context:
        page = context.api.trust()
        context.emit(page.model_dump(mode="json"), lambda console: _print_topics(console, page))


@app.command()
def events(
    at: HomeOptions,
    topic: Annotated[str | None, typer.Option("--topic", help="Only of this topic.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="Events to show.")] = 20,
) -> None:
    """List what changed trust, newest first, with its cause."""
    with CommandContext(at, existing=True) as context:
        from lodestone.trust.events import UNDO, in_force

        found = context.runtime.trust.events(topic=topic, limit=limit)
        standing = {one.event_id for one in in_force(context.runtime.catalog.trust_events())} if found else set()
        undone = {one.event_id for one in found if one.kind != UNDO} - standing
        rows = [{**_as_dict(one), "undone": one.event_id in undone} for one in found]
        context.emit(rows, lambda console: _print_events(console, found, undone))


@app.command()
def undo(
    at: HomeOptions, event_id: Annotated[str, typer.Argument(help="Id of an event, or its beginning: lodestone trust events.")]
) -> None:
    """Take one change back: trust becomes what it would be without it."""
    with CommandContext(at, purpose="lodestone trust", writes=True, existing=True) as context:
        known = {one.event_id: one for one in context.runtime.catalog.trust_events()}
        undone = known[id_among(event_id, known, what="change of trust", hint="lodestone trust events")]
        event = context.runtime.trust.undo(undone.event_id)
        context.emit(_as_dict(event), lambda console: _say(console, f"undone: {_description(undone)}", event))


@app.command()
def reset(at: HomeOptions, topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None) -> None:
    """Make trust neutral again. The events stay, so this can be undone, too."""
    with CommandContext(at, purpose="lodestone trust", writes=True, existing=True) as context:
        known = [one.topic for one in context.runtime.trust.show().topics]
        if not known:
            raise NotFoundError("nothing is learnt yet: trust is neutral", hint=_TEACH)
        event = context.runtime.trust.reset(topic)
        what = f"topic {topic}" if topic else counted(len(known), "topic")
        context.emit(_as_dict(event), lambda console: _say(console, f"trust is neutral again: {what}", event))


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; standard output by default.")] = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Write the learnt trust as JSON."""
    with CommandContext(HomeOptions(home=home, profile=profile), existing=True) as context:
        content = context.runtime.trust.export()
        text = _one_topic_a_line(content)
        if file is None:
            sys.stdout.write(text)
            return
        try:
            file.expanduser().write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidRequestError(f"cannot write {str(file)!r}: {error.strerror}", hint="name a writable file") from error
        context.messages.print(printable(f"wrote {counted(len(content['topics']), 'topic')} to {file}"), markup=False)


@app.command("import")
def import_(at: HomeOptions, file: Annotated[Path, typer.Argument(help="Written by lodestone trust export.")]) -> None:
    """Take over exported trust: its topics replace those of the same name, all others stay."""
    with CommandContext(at, purpose="lodestone trust", writes=True) as context:
        content = _content(file.expanduser())
        context.require_home()
        event = context.runtime.trust.import_(content)
        taken = counted(len(event.details["topics"]), "topic")
        context.emit(_as_dict(event), lambda console: _say(console, f"took over {taken} from {file}", event))


def _one_topic_a_line(content: dict[str, Any]) -> str:
    """Return JSON with one topic on each line, so that people can read and compare it."""
    whole = json.dumps({**content, "topics": []}, ensure_ascii=False, indent=2)
    lines = ",\n".join(f"    {json.dumps(one, ensure_ascii=False)}" for one in content["topics"])
    return (whole.replace('"topics": []', f'"topics": [\n{lines}\n  ]') if lines else whole) + "\n"


def _content(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {str(file)!r}", hint="lodestone trust export FILE writes one") from error
    except OSError as error:
        raise InvalidRequestError(f"cannot read {str(file)!r}: {error.strerror}", hint="name a readable file") from error
    except (ValueError, RecursionError) as error:  # not JSON, not even text, or nested without end
        raise InvalidRequestError(f"{str(file)!r} is not JSON: {error}", hint="lodestone trust export writes one") from error


def _as_dict(event: TrustEvent) -> dict[str, object]:
    from dataclasses import asdict

    facts = asdict(event)
    del facts["vector"]  # of the query, as bytes
    facts["created_at"] = event.created_at.isoformat().replace("+00:00", "Z")  # as everywhere else
    return facts


def _description(event: TrustEvent) -> str:
    """Return what an event was, in a few words."""
    if event.kind == "feedback":
        return f"feedback on {event.details.get('text', '')!r}"
    if event.kind == "undo":
        return f"undo of {short(event.cause)}"
    if event.kind == "import":
        return f"import of {counted(len(event.details['topics']), 'topic')}"
    return f"reset of {event.topic or 'all topics'}"


def _say(console: Console, done: str, event: TrustEvent) -> None:
    console.print(printable(done), markup=False)
    console.print(f"take it back: lodestone trust undo {short(event.event_id)}", style="dim", markup=False)


def _weights(weights: dict[str, float], console: Console) -> str:
    """Return the weights as text: one space on each line for a terminal, and all on one line elsewhere."""
    if not console.is_terminal:
        return ", ".join(f"{printable(space)} {weight:.3f}" for space, weight in weights.items())
    widest = max(map(len, weights), default=0)
    return "\n".join(f"{printable(space):{widest}} {weight:.3f}" for space, weight in weights.items())


def _print_topics(console: Console, page: TrustPage) -> None:
    from rich.table import Table
    from rich.text import Text

    if not page.topics:
        console.print(f"nothing is learnt yet: {_TEACH}")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("topic", overflow="fold")
    table.add_column("trust (1 is neutral)", no_wrap=True)
    table.add_column("feedback", justify="right", no_wrap=True)
    table.add_column("queries like", overflow="fold", style="dim")
    for one in page.topics:
        words = Text(printable("; ".join(one.words)))
        table.add_row(Text(printable(one.topic)), Text(_weights(one.weights, console)), str(one.queries), words)
    print_table(console, table)


def _print_events(console: Console, found: list[TrustEvent], undone: set[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not found:
        console.print(f"nothing has changed trust yet: {_TEACH}")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("when", no_wrap=True, style="dim")
    table.add_column("what", overflow="fold")
    table.add_column("trust after it", no_wrap=True)
    for one in found:
        what = Text(printable(_description(one)))
        if one.event_id in undone:
            what.append(" (undone)", style="yellow")
        after = "" if one.event_id in undone else _weights(one.after, console)
        table.add_row(short(one.event_id), local_time(one.created_at), what, Text(after))
    print_table(console, table)
