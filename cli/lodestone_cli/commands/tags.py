"""Commands `lodestone tags …`: list, add, remove and undo tags of pictures, and suggest some."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.file_names import path_fields
from lodestone_cli.naming import counted, id_among, is_id, short
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import OneCorpusOption
from lodestone_cli.progress import shown_wait
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from lodestone_schemas.api import PictureTags, TagPage

app = Commands(help="Tags of pictures: those that searches left, and your own.", no_args_is_help=True)

_SourceOption = Annotated[str | None, typer.Option("--source", help="Only tags of this source: implicit, feedback or user.")]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PAGE = 10_000  # tags read at once to find the beginning of an id


@app.command("list")
def list_(
    at: HomeOptions,
    corpus: OneCorpusOption = None,
    text: Annotated[str | None, typer.Option("--text", help="Exactly this tag.")] = None,
    image: Annotated[str | None, typer.Option("--image", help="Of this picture: its file or id.")] = None,
    source: _SourceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Tags to show.")] = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Tags to skip.")] = 0,
) -> None:
    """List tags, newest first."""
    with CommandContext(at, away=True, existing=True) as context:
        image_id = None if image is None else _one_picture(context, image)
        page = context.api.tags(offset, limit, corpus=corpus, text=text, source=source, image_id=image_id)
        paths = context.locator.paths(tag.image_id for tag in page.tags)
        value = page.model_dump(mode="json")
        _add_paths(value["tags"], paths)
        context.emit(value, lambda console: _print(console, page, paths))


@app.command()
def texts(
    at: HomeOptions,
    source: _SourceOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Texts to show.")] = 50,
) -> None:
    """List the texts of tags with their numbers of pictures, those of most pictures first."""
    with CommandContext(at, away=True, existing=True) as context:
        value = context.api.tag_texts(limit, source=source)

        def human(console: Console) -> None:
            for one in value.texts:
                console.print(printable(f"{one.pictures:>7,}  {one.text}"), markup=False)
            if not value.texts:
                console.print("no tags", markup=False)

        context.emit(value.model_dump(mode="json"), human)


@app.command()
def add(
    at: HomeOptions,
    text: Annotated[str, typer.Argument(help="The tag, a few words.")],
    images: Annotated[list[str], typer.Argument(help="Pictures: files or ids.")],
) -> None:
    """Tag pictures by hand: `lodestone tags add "our old house" ~/Pictures/1987/*.jpg`."""
    with CommandContext(at, purpose="lodestone tags", away=True, existing=True) as context:
        from lodestone_schemas.api import TagRequest

        wanted = [image_id for name in images for image_id in context.locator.pictures(name)]
        started = datetime.now(UTC)
        with shown_wait(context, "tagging"):
            tags = context.api.add_tags(context.api_request(TagRequest, image_ids=wanted, text=text)).tags
        value = {"tags": [tag.model_dump(mode="json") for tag in tags]}
        _add_paths(value["tags"], context.locator.paths(tag.image_id for tag in tags))
        kept = sum(tag.created_at < started for tag in tags)
        had = f"{counted(kept, 'picture')} had the tag {tags[0].text!r} already"
        said = f"tagged {counted(len(tags) - kept, 'picture')} {tags[0].text!r}"
        said = had if kept == len(tags) else f"{said}, {kept:,} had it already" if kept else said
        context.emit(value, lambda console: console.print(printable(said), markup=False))


@app.command()
def suggest(
    at: HomeOptions, picture: Annotated[str, typer.Argument(help="A picture: a file, indexed or not, or the id of one.")]
) -> None:
    """Show what models find out about a picture: labels, sharpness and exposure, and whether it is safe. Nothing is kept."""
    with CommandContext(at, purpose="lodestone tags", away=True, existing=True) as context:
        with shown_wait(context, "looking at the picture"):
            tags = context.api.tag_image(picture.lower()) if is_id(picture) else context.api.tag_picture(_content(picture))
        context.emit(tags.model_dump(mode="json"), lambda console: _print_suggested(console, tags))


@app.command()
def remove(
    at: HomeOptions, tag_ids: Annotated[list[str], typer.Argument(help="Ids of tags, or their beginnings: tags list.")]
) -> None:
    """Take tags away from pictures."""
    with CommandContext(at, purpose="lodestone tags", away=True, existing=True) as context:
        removed = _removed(context, _tags_named(context, tag_ids))
        context.emit({"removed": removed}, lambda console: console.print(f"removed {counted(removed, 'tag')}"))


@app.command()
def undo(
    at: HomeOptions,
    since: Annotated[str, typer.Option("--since", help="A time, in UTC (2024-05-01T12:00), or how long ago (30m, 2h, 1d).")],
    corpus: OneCorpusOption = None,
    source: _SourceOption = None,
) -> None:
    """Take away every tag that was put since a time."""
    with CommandContext(at, purpose="lodestone tags", writes=True) as context:
        from lodestone_cli.home_client import deliver_tags

        moment = _moment(since)
        context.require_home()
        removed = context.runtime.tags.undo(since=moment, source=source, corpus=corpus)
        deliver_tags(context.runtime, context.service())
        when = f"since {moment:%Y-%m-%d %H:%M} UTC" if moment > _BEGINNING else "ever"
        said = f"removed {counted(removed, 'tag')} put {when}"
        context.emit({"removed": removed, "since": moment.isoformat()}, lambda console: console.print(said, markup=False))


_BEGINNING = datetime(1970, 1, 2, tzinfo=UTC)


def _removed(context: CommandContext, tag_ids: list[str]) -> int:
    """Remove tags: here all at once, so that the change is delivered once; the API removes one by one."""
    if context.remote is None:
        from lodestone_cli.home_client import deliver_tags

        removed = context.runtime.tags.remove(tag_ids)
        deliver_tags(context.runtime, context.service())
        return removed
    for tag_id in dict.fromkeys(tag_ids):
        context.remote.remove_tag(tag_id)
    return len(set(tag_ids))


def _moment(text: str) -> datetime:
    hint = "write 2024-05-01T12:00 (UTC), or 30m, 2h, 1d"
    if text[:-1].isdecimal() and text[-1] in _UNITS:
        try:
            return max(datetime.now(UTC) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])}), _BEGINNING)
        except (OverflowError, ValueError):  # before the calendar begins; too many digits for a number
            return _BEGINNING
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"--since {text!r} is no time", hint=hint) from error
    if moment > datetime.now(UTC):
        raise InvalidRequestError(f"--since {text!r} is in the future", hint=hint)
    return moment


def _one_picture(context: CommandContext, name: str) -> str:
    if is_id(name):
        return name.lower()
    image_ids = context.locator.pictures(name)
    if len(image_ids) > 1:
        raise InvalidRequestError(f"{name!r} is indexed {len(image_ids)} times", hint=f"give an id: {', '.join(image_ids)}")
    return image_ids[0]


def _tags_named(context: CommandContext, names: list[str]) -> list[str]:
    hint = "lodestone tags list"
    if context.remote is not None:
        known = [] if all(is_id(name) for name in names) else [tag.tag_id for tag in context.remote.iter_tags()]
        return [name.lower() if is_id(name) else id_among(name, known, what="tag", hint=hint) for name in names]
    known = []
    while page := context.runtime.catalog.list_tags(offset=len(known), limit=_PAGE):
        known += [tag.tag_id for tag in page]
    return [id_among(name, known, what="tag", hint=hint) for name in names]


def _content(name: str) -> bytes:
    hint = 'give a readable picture file, or an image id: "image_id" in lodestone search -o json'
    path = Path(name).expanduser()
    try:
        if path.exists() and not path.is_file():  # a pipe would block for ever, a device never end
            raise InvalidRequestError(f"{str(path)!r} is no file", hint=hint)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {str(path)!r}", hint=hint) from error
    except OSError as error:
        raise InvalidRequestError(f"cannot read {str(path)!r}: {error.strerror}", hint=hint) from error


def _print_suggested(console: Console, tags: PictureTags) -> None:
    labels = ", ".join(f"{label.text} ({label.similarity:.2f})" for label in tags.labels or ())
    console.print(printable(f"labels: {labels or 'none'}"), markup=False)
    quality = tags.quality
    console.print(f"sharpness: {quality.sharpness:.0f}")
    console.print(f"brightness: {quality.brightness:.2f}, contrast {quality.contrast:.2f}")
    console.print(f"nearly black: {quality.shadows:.0%}, nearly white: {quality.highlights:.0%}")
    if tags.safety is not None:
        console.print(f"not safe: {tags.safety.not_safe:.0%} ({tags.safety.model})")


def _add_paths(tags: list[dict[str, Any]], paths: Mapping[str, str]) -> None:
    for tag in tags:
        tag.update(path_fields(paths.get(tag["image_id"])))


def _print(console: Console, page: TagPage, paths: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not page.tags:
        console.print("no tags")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True, style="dim")
    table.add_column("put", no_wrap=True)
    table.add_column("source", no_wrap=True)
    table.add_column("score", no_wrap=True, justify="right")
    table.add_column("tag", overflow="fold", ratio=1)
    table.add_column("picture", overflow="fold", ratio=1)
    for one in page.tags:
        score = "" if one.score is None else f"{one.score:.2f}"
        created = one.created_at.astimezone()
        put = f"{created:%m-%d %H:%M}" if created.year == datetime.now(UTC).astimezone().year else f"{created:%Y-%m-%d}"
        path = paths.get(one.image_id)
        style = f"link {Path(path).as_uri()}" if path is not None else ""
        picture = Text(printable(short(one.image_id) if path is None else Path(path).name), style=style)
        table.add_row(short(one.tag_id), put, one.source, score, Text(printable(one.text)), picture)
    print_table(console, table)
    if page.next_offset is not None:
        console.print(f"there are more: --offset {page.next_offset}", style="dim")
