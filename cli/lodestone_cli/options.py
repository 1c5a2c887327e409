"""Options that commands share."""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from lodestone_cli.completion import complete_corpora, complete_profiles, complete_roots


class Output(StrEnum):
    """Form of results on standard output; messages and progress go to standard error."""

    HUMAN = "human"
    JSON = "json"
    YAML = "yaml"


class ResultFormat(StrEnum):
    """Form of an answer for people and for other programs: a list with scores and captions, or paths alone."""

    LIST = "list"
    PATHS = "paths"


class Pictures(StrEnum):
    """Way to show pictures in a terminal: by one of its graphics protocols, by half blocks of text, or not."""

    AUTO = "auto"
    KITTY = "kitty"
    SIXEL = "sixel"
    ITERM2 = "iterm2"
    BLOCKS = "blocks"
    NONE = "none"


SERVICE_URL: Final[ContextVar[str | None]] = ContextVar("SERVICE_URL", default=None)
"""Value of `lodestone --url`, for the command that follows it."""

_FIELDS: Final = {
    "deadline_ms": "--deadline",
    "filters.path_prefix": "--path",
    "path_prefix": "--path",
    "filters.corpora": "--corpus",
    "filters.roots": "--root",
    "filters.taken_from": "--from",
    "filters.taken_to": "--to",
    "generators": "--generator",
    "image_id": "IMAGE",
}
_FIELD: Final = re.compile(rf"(?<![\w.\"'`-])({'|'.join(map(re.escape, _FIELDS))})(?![\w.\"'`=-])")


_KEY_HEADERS: Final = "Authorization: Bearer …, or X-API-Key: …"
_KEY_VARIABLE: Final = "set LODESTONE_API_KEY to a key of that service; whoever runs it makes one: lodestone keys create"


def as_options(text: str) -> str:
    """Return a message with the command's options and variables in place of the fields and headers of the API."""
    return _FIELD.sub(lambda match: _FIELDS[match[1]], text.replace(_KEY_HEADERS, _KEY_VARIABLE))


HomeOption = Annotated[Path | None, typer.Option("--home", help="Folder with all state of one collection (LODESTONE_HOME).")]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile", help="Set of models, spaces and generators (LODESTONE_PROFILE).", autocompletion=complete_profiles
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of the result.")]
CorpusFilterOption = Annotated[
    list[str] | None,
    typer.Option("--corpus", "-c", help="Only this corpus; may be given several times.", autocompletion=complete_corpora),
]
OneCorpusOption = Annotated[
    str | None, typer.Option("--corpus", "-c", help="Only this corpus; default: all.", autocompletion=complete_corpora)
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Pictures to show.")]
OffsetOption = Annotated[int, typer.Option("--offset", min=0, max=1000, help="Pictures to skip.")]
PathPrefixOption = Annotated[
    str | None,
    typer.Option(
        "--path", help="Only pictures below this folder: of their root (2024/summer), or of this machine (~/Pictures/2024)."
    ),
]
RootFilterOption = Annotated[
    list[str] | None, typer.Option("--root", help="Only this root; may be given several times.", autocompletion=complete_roots)
]
DateFromOption = Annotated[
    str | None,
    typer.Option("--from", help="Taken from here on: 2024, 2024-07, 2024-07-01 or 2024-07-01T18:30, where it was taken."),
]
DateToOption = Annotated[str | None, typer.Option("--to", help="Taken before this; --to 2024 means before that year begins.")]
YearOption = Annotated[str | None, typer.Option("--year", help="Taken in this year (2024).")]
MonthOption = Annotated[str | None, typer.Option("--month", help="Taken in this month (2024-07).")]
FusionOption = Annotated[
    str | None, typer.Option("--fusion", help="weighted_reciprocal_rank, rrf or mean_distance; default: the profile's.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Show which lists put each picture there, and weights and times.")
]
CollapseOption = Annotated[
    bool, typer.Option("--collapse", help="Show one of pictures that are copies (see `lodestone duplicates find`).")
]
LocalOption = Annotated[bool, typer.Option("--local", help="Do not use a running service; work in this process.")]
_FILES: Final = "What is done with the pictures"
FormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="list, or paths: one path a line.", rich_help_panel=_FILES)
]
NulOption = Annotated[
    bool, typer.Option("--print0", "-0", help="Print paths, each ended by a NUL character (xargs -0).", rich_help_panel=_FILES)
]
OpenOption = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Open the running service's page at this query, or the first three in the viewer.",
        rich_help_panel=_FILES,
    ),
]
CopyToOption = Annotated[Path | None, typer.Option("--copy-to", help="Copy them to this folder.", rich_help_panel=_FILES)]
LinkToOption = Annotated[Path | None, typer.Option("--link-to", help="Link them into this folder.", rich_help_panel=_FILES)]
PicturesOption = Annotated[
    Pictures | None,
    typer.Option(
        "--pictures", help="How a terminal shows them; default: as it can (LODESTONE_PICTURES).", rich_help_panel=_FILES
    ),
]
ColumnsOption = Annotated[
    int | None, typer.Option("--columns", min=1, max=50, help="Pictures in a row; default: as fit.", rich_help_panel=_FILES)
]
MinScoreOption = Annotated[
    float | None, typer.Option("--min-score", help="Leave out pictures with a lower score.", rich_help_panel=_FILES)
]
