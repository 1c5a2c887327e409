"""`lodestone tags …`: which tags do pictures carry, put some on, take some away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption
from lodestone_cli.session import Session, printable

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.api import TagPage

app = typer.Typer(help="Tags of pictures: those that searches left, and your own.", no_args_is_help=True)

_CorpusOption = Annotated[str | None, typer.Option("--corpus", "-c", help="Only this corpus.", show_default=False)]
_SourceOption = Annotated[
    str | None, typer.Option("--source", help="Only tags of this source: implicit, feedback or user.", show_default=False)
]
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@app.command("list")
def list_(
    corpus: _CorpusOption = None,
    text: Annotated[str | None, typer.Option("--text", help="Exactly this tag.", show_default=False)] = None,
    image: Annotated[str | None, typer.Option("--image", help="Of this picture, by id.", show_default=False)] = None,
    source: _SourceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Tags to show.")] = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Tags to skip.")] = 0,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """List tags, newest first."""
    with Session(home=home, profile=profile, output=output) as session:
        page = session.runtime.tags.list(corpus=corpus, text=text, source=source, image_id=image, offset=offset, limit=limit)
        session.emit(page.model_dump(mode="json"), lambda console: _print(console, page))


@app.command()
def add(
    text: Annotated[str, typer.Argument(help="The tag, a few words.", show_default=False)],
    images: Annotated[list[str], typer.Argument(help="Ids of pictures.", show_default=False)],
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Tag pictures by hand."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone tags") as session:
        tags = session.runtime.tags.add(images, text)
        _deliver(session)
        session.emit(
            {"tags": [one.model_dump(mode="json") for one in tags]},
            lambda console: console.print(printable(f"tagged {len(tags)} pictures {text!r}"), markup=False),
        )


@app.command()
def remove(
    tag_ids: Annotated[list[str], typer.Argument(help="Ids of tags.", show_default=False)],
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Take tags away."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone tags") as session:
        removed = session.runtime.tags.remove(tag_ids)
        if not removed:
            raise NotFoundError(f"there is no tag {tag_ids[0]!r}", hint="lodestone tags list --output json shows the ids")
        _deliver(session)
        session.emit({"removed": removed}, lambda console: console.print(f"removed {removed} tags"))


@app.command()
def undo(
    since: Annotated[
        str, typer.Option("--since", help="A time (2024-05-01T12:00), or how long ago (30m, 2h, 1d).", show_default=False)
    ],
    corpus: _CorpusOption = None,
    source: _SourceOption = None,
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Take away every tag that was put since a time."""
    with Session(home=home, profile=profile, output=output, purpose="lodestone tags") as session:
        moment = _moment(since)
        removed = session.runtime.tags.undo(since=moment, source=source, corpus=corpus)
        _deliver(session)
        session.emit(
            {"removed": removed, "since": moment.isoformat()},
            lambda console: console.print(f"removed {removed} tags put since {moment:%Y-%m-%d %H:%M} UTC"),
        )


def _deliver(session: Session) -> None:
    """Bring the tags' collection up to date: a running service does it, without one this command."""
    client = session.service()
    if client is None:
        session.runtime.deliver_tags()
    else:
        for _ in client.sync():
            pass


def _moment(text: str) -> datetime:
    if text[:-1].isdigit() and text[-1] in _UNITS:
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(f"--since {text!r} is no time", hint="write 2024-05-01T12:00, or 30m, 2h, 1d") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _print(console: Console, page: TagPage) -> None:
    from rich.table import Table
    from rich.text import Text

    if not page.tags:
        console.print("no tags")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("tag", "source", "score", "picture", "put", "id"):
        table.add_column(heading)
    for one in page.tags:
        score = "" if one.score is None else f"{one.score:.2f}"
        put = f"{one.created_at:%Y-%m-%d %H:%M}"
        table.add_row(Text(printable(one.text)), one.source, score, one.image_id, put, Text(one.tag_id, style="dim"))
    console.print(table)
