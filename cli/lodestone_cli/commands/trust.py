"""`lodestone trust …`: how far is each space trusted, why, and take it back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session, printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.catalog.records import TrustEvent
    from lodestone_schemas.api import TrustPage

app = typer.Typer(help="What feedback has taught about the spaces, topic by topic.", no_args_is_help=True)


@app.command()
def show(home: HomeOption = None, profile: ProfileOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Show the trust in each space, topic by topic; 1 is neutral."""
    with Session(home=home, profile=profile, output=output) as session:
        page = session.runtime.trust.show()
        session.emit(page.model_dump(mode="json"), lambda console: _print_topics(console, page))


@app.command()
def events(
    topic: Annotated[str | None, typer.Option("--topic", help="Only of this topic.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="Events to show.")] = 20,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """List what changed trust, newest first, with its cause."""
    with Session(home=home, profile=profile, output=output) as session:
        found = session.runtime.trust.events(topic=topic, limit=limit)
        session.emit([_as_dict(one) for one in found], lambda console: _print_events(console, found))


@app.command()
def undo(
    event_id: Annotated[str, typer.Argument(help="Id of an event: lodestone trust events.", show_default=False)],
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Take one change back: trust becomes what it would be without it."""
    with Session(home=home, profile=profile, output=output) as session:
        event = session.runtime.trust.undo(event_id)
        session.emit(_as_dict(event), lambda console: console.print(printable(f"undone: {event_id}"), markup=False))


@app.command()
def reset(
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.", show_default=False)] = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Make trust neutral again. The events stay, so this can be undone, too."""
    with Session(home=home, profile=profile, output=output) as session:
        event = session.runtime.trust.reset(topic)
        what = f"topic {topic}" if topic else "all topics"
        session.emit(_as_dict(event), lambda console: console.print(printable(f"trust is neutral again: {what}"), markup=False))


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; standard output by default.", show_default=False)] = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
) -> None:
    """Write the learnt trust as JSON."""
    with Session(home=home, profile=profile) as session:
        text = json.dumps(session.runtime.trust.export(), ensure_ascii=False, indent=2) + "\n"
        if file is None:
            sys.stdout.write(text)
            return
        try:
            file.expanduser().write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidRequestError(f"cannot write {str(file)!r}: {error.strerror}", hint="name a writable file") from error


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="Written by lodestone trust export.", show_default=False)],
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Replace the learnt trust by an exported one."""
    with Session(home=home, profile=profile, output=output) as session:
        event = session.runtime.trust.import_(_content(file.expanduser()))
        session.emit(_as_dict(event), lambda console: console.print(printable(f"trust is now that of {file}"), markup=False))


def _content(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {str(file)!r}", hint="lodestone trust export FILE writes one") from error
    except OSError as error:
        raise InvalidRequestError(f"cannot read {str(file)!r}: {error.strerror}", hint="name a readable file") from error
    except ValueError as error:
        raise InvalidRequestError(f"{str(file)!r} is not JSON: {error}", hint="lodestone trust export writes one") from error


def _as_dict(event: TrustEvent) -> dict[str, object]:
    from dataclasses import asdict

    facts = asdict(event)
    del facts["vector"]  # of the query, as bytes
    return facts


def _print_topics(console: Console, page: TrustPage) -> None:
    from rich.table import Table
    from rich.text import Text

    if not page.topics:
        console.print("nothing is learnt yet: lodestone feedback QUERY_ID --relevant 1 --irrelevant 2")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("topic", "trust", "feedback", "queries like"):
        table.add_column(heading)
    for one in page.topics:
        weights = ", ".join(f"{space} {weight:.2f}" for space, weight in one.weights.items())
        table.add_row(Text(printable(one.topic)), weights, str(one.queries), Text(printable("; ".join(one.words)), style="dim"))
    console.print(table)


def _print_events(console: Console, found: list[TrustEvent]) -> None:
    if not found:
        console.print("nothing has changed trust yet")
    for one in found:
        console.print(
            printable(f"{one.event_id}  {one.created_at:%Y-%m-%d %H:%M}  {one.kind}  {one.topic or ''}"), markup=False
        )
