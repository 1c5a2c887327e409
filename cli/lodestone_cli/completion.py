"""Completion of values in a shell: names of corpora, roots, profiles and settings, ids of pictures, queries and runs.

Names come from the catalog of the home on this machine, which is read without the library. A remote service is not asked,
because a key that is pressed should answer at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

COMPLETION: Final = "_LODESTONE_COMPLETE"
"""Variable that a shell's script sets while it completes, as Typer writes it."""

Completed = list[tuple[str, str]]
"""Values that fit, each with a remark, which zsh and fish show."""

_SHORT: Final = 8  # characters of an id that commands take for it
_IN_BASH: Final = "complete_bash"
_IN_ZSH: Final = "complete_zsh"
_OBEYED: Final = re.compile(r"[\\$`\"'\[\]]")  # by a shell, or by Typer as markup
_SPECIAL: Final = re.compile(r"([^\w@%+=:,./-])")
_CATALOG: Final = "catalog.sqlite"
_BEGINNING_OF_AN_ID: Final = re.compile(r"[0-9a-f][0-9a-f-]*")


def complete_corpora(ctx: typer.Context, incomplete: str) -> Completed:
    """Return the corpora of the home that begin so."""
    return _safe(_known(ctx, "corpus", incomplete))


def complete_roots(ctx: typer.Context, incomplete: str) -> Completed:
    """Return the roots of the home that begin so, with their paths."""
    return _safe(_known(ctx, "root", incomplete))


def complete_pictures(ctx: typer.Context, incomplete: str) -> Completed:
    """Return the ids of pictures that begin so; none before a first character, so that the shell completes files."""
    is_id = _BEGINNING_OF_AN_ID.fullmatch(incomplete) is not None and not Path(incomplete).exists()
    return _safe(_known(ctx, "picture", incomplete)) if is_id else []


def complete_queries(ctx: typer.Context, incomplete: str) -> Completed:
    """Return the recorded queries whose ids begin so, the newest first, with their words."""
    return _safe(_shortened(_known(ctx, "query", incomplete), incomplete))


def complete_runs(ctx: typer.Context, incomplete: str) -> Completed:
    """Return the runs whose ids begin so, the newest first, with what they were and what became of them."""
    return _safe(_shortened(_known(ctx, "run", incomplete), incomplete))


def complete_profiles(incomplete: str) -> Completed:
    """Return the profiles that begin so: those that ship, and those of the settings."""
    return _safe(_quietly(_profiles, incomplete))


def complete_settings(incomplete: str) -> Completed:
    """Return the settings and sections that begin so."""
    return _safe(_quietly(_settings, incomplete))


def _profiles() -> Iterable[str]:
    from lodestone.config.profiles import PROFILES
    from lodestone.config.settings import load_settings

    return [*PROFILES, *load_settings({}).settings.profiles]


def _settings() -> Iterable[str]:
    from lodestone.config.settings import flatten, load_settings

    return flatten(load_settings({}).settings.model_dump(mode="json"))


def _quietly(names: Callable[[], Iterable[str]], incomplete: str) -> Completed:
    """Return the names that begin so; none where the settings cannot be read, which the command itself explains."""
    from lodestone.errors import LodestoneError

    try:
        return [(name, "") for name in names() if name.startswith(incomplete)]
    except (LodestoneError, ValueError):
        return []


def _known(ctx: typer.Context, kind: str, incomplete: str) -> Completed:
    from lodestone.catalog.known_names import known_names

    if os.environ.get("LODESTONE_URL") or (ctx.find_root().params or {}).get("url"):
        return []
    return known_names(_home(ctx) / _CATALOG, kind, incomplete)


def _home(ctx: typer.Context) -> Path:
    named = ctx.params.get("home") or os.environ.get("LODESTONE_HOME")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_data_path("lodestone", appauthor=False)


def _shortened(found: Completed, incomplete: str) -> Completed:
    """Return ids cut to what people type, unless more than that was typed or two begin alike."""
    short = [value[:_SHORT] for value, _ in found]
    if len(incomplete) > _SHORT or len(set(short)) < len(short):
        return found
    return [(value[:_SHORT], remark) for value, remark in found]


def _safe(found: Completed) -> Completed:
    """Return what a shell can be given: nothing that it or a terminal would obey, and quoted where the shell does not quote.

    Remarks may be anybody's words: of a query that somebody else sent to the service. Zsh evaluates what Typer prints, and
    Typer escapes no backslash, so that one before `$` would undo the escape of `$`.
    """
    shown = [
        (value, _OBEYED.sub(" ", remark) if remark.isprintable() else "") for value, remark in found if value.isprintable()
    ]
    shell = os.environ.get(COMPLETION)
    if shell == _IN_BASH:  # it puts words into the line as they are
        return [(_SPECIAL.sub(r"\\\1", value), remark) for value, remark in shown]
    if shell == _IN_ZSH:
        return [(value.replace("\\", "\\\\"), remark) for value, remark in shown]
    return shown


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[_Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the completion of a shell: `source <(lodestone completion bash)`. `--install-completion` installs it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # public by its documentation, not by its module

    typer.echo(get_completion_script(prog_name="lodestone", complete_var=COMPLETION, shell=shell.value))
