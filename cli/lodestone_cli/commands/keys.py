"""Commands `lodestone keys …`: API keys with their scopes, corpora, rate limits and expiry."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lodestone.errors import InvalidRequestError
from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.naming import local_time
from lodestone_cli.option_groups import Commands

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.access.keys import ApiKey
    from lodestone_schemas.access import Scope

app = Commands(help="API keys of the service (serve.auth.keys).", no_args_is_help=True)

_KeyId = Annotated[str, typer.Argument(help="Id of a key: lodestone keys list.")]
_LISTED: Final = 1_000
_SPAN: Final = re.compile(r"(\d{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MOST_S: Final = 100 * 365 * 86_400


@app.command()
def create(
    at: HomeOptions,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", "-s", help="search (default), feedback, index or admin; several times.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", "-c", help="Only this corpus is seen, not all; several times.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="After so long, e.g. 90d, or at a date.")] = None,
    rate: Annotated[str | None, typer.Option("--rate", help="Requests at most, e.g. 600/minute.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Take a corpus that does not exist yet.")] = False,
) -> None:
    """Make a key. It is shown this once: what is kept is a digest."""
    with CommandContext(at, purpose="lodestone keys", writes=True) as context:
        from lodestone.access.keys import ApiKey
        from lodestone.services.keys import check_corpora
        from lodestone_schemas.access import KeyRequest

        request = KeyRequest.model_construct(
            name=name,
            scopes=_scopes(scope or ["search"]),
            corpora=list(corpus) if corpus else None,
            allow_unknown_corpora=force,
            rate=rate,
            expires_at=None if expires is None else _end(expires),
        )
        key, written = ApiKey.new(request)
        check_corpora(request, context.runtime.catalog if context.runtime.home.exists() else None)
        context.runtime.home.prepare()
        context.runtime.catalog.add_key(key)
        _emit_new(context, key, written)


@app.command("list")
def list_(at: HomeOptions) -> None:
    """List the keys, newest first; also those that are not valid any more."""
    with CommandContext(at, purpose="lodestone keys") as context:
        keys = context.runtime.catalog.keys(0, _LISTED) if context.runtime.home.exists() else []

        def human(console: Console) -> None:
            if not keys:
                console.print("there are no keys; make one: lodestone keys create NAME")
            for key in keys:
                console.print(printable(_line(key)), markup=False)

        context.emit([key.info().model_dump(mode="json") for key in keys], human)


@app.command()
def revoke(at: HomeOptions, key_id: _KeyId) -> None:
    """End a key; every service that uses this home refuses it within five seconds."""
    with CommandContext(at, purpose="lodestone keys", writes=True, existing=True) as context:
        key = context.runtime.catalog.revoke_key(key_id)
        context.emit(key.info().model_dump(mode="json"), lambda console: console.print(printable(_line(key)), markup=False))


@app.command()
def rotate(
    at: HomeOptions,
    key_id: _KeyId,
    overlap: Annotated[str, typer.Option("--overlap", help="The old one stays valid so long, e.g. 0s, 1h, 7d.")] = "1h",
) -> None:
    """Put a new key in a key's place, with the same rights. Its holder keeps their queries and limits."""
    until = datetime.now(UTC) + timedelta(seconds=_seconds(overlap))
    with CommandContext(at, purpose="lodestone keys", writes=True, existing=True) as context:
        key, written = context.runtime.catalog.rotate_key(key_id, until=until)
        _emit_new(context, key, written)


def _emit_new(context: CommandContext, key: ApiKey, written: str) -> None:
    def human(console: Console) -> None:
        console.print(written, markup=False)
        context.messages.print(printable(_line(key)), markup=False)
        context.messages.print("keep it now: it is not shown again. Send it as `Authorization: Bearer …`", markup=False)
        if not context.loaded.settings.serve.auth.keys:
            for line in _how_to_ask(context):
                context.messages.print(printable(line), markup=False)

    context.emit({"key": key.info().model_dump(mode="json"), "secret": written}, human)


def _how_to_ask(context: CommandContext) -> list[str]:
    """Return lines that say how the service is made to ask for keys: by a command, or by which lines of which file."""
    from lodestone.config.settings import config_path

    return [
        "the service does not ask for keys yet: lodestone config set serve.auth.keys true",
        f"which writes these lines into {config_path(context.loaded.settings.home)}; then start it again:",
        "  [serve.auth]",
        "  keys = true",
    ]


def _scopes(names: list[str]) -> list[Scope]:
    from lodestone_schemas.access import Scope

    known = {str(scope): scope for scope in Scope}
    for name in names:
        if name not in known:
            raise InvalidRequestError(f"there is no scope {name!r}", hint=f"one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _end(text: str) -> datetime:
    """Return the moment that `text` means: a span from now on (`90d`), or a date in ISO 8601."""
    if _SPAN.fullmatch(text):
        return datetime.now(UTC) + timedelta(seconds=_seconds(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(f"{text!r} is no time", hint="write it like 90d, 2027-01-31 or 2027-01-31T12:00Z") from error
    return moment if moment.tzinfo else moment.astimezone()


def _seconds(text: str) -> int:
    found = _SPAN.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if found is None or seconds > _MOST_S:
        raise InvalidRequestError(f"{text!r} is no span of time", hint="write it like 30m, 12h or 90d")
    return seconds


def _line(key: ApiKey) -> str:
    invalid = key.invalid(datetime.now(UTC))
    parts = [
        f"{key.key_id:<18}",
        f"{invalid or 'valid':<8}",
        ",".join(key.scopes),
        "all corpora" if key.corpora is None else f"corpora {', '.join(key.corpora)}",
    ]
    parts += [key.rate] if key.rate else []
    parts += [f"until {local_time(key.expires_at)}"] if key.expires_at is not None else []
    parts += [f"used {local_time(key.last_used_at)}"] if key.last_used_at is not None else ["never used"]
    return f"{'  '.join(parts)}  {key.name}"
