"""Options that commands share."""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer


class Output(StrEnum):
    """Form of results on standard output; messages and progress go to standard error."""

    HUMAN = "human"
    JSON = "json"
    YAML = "yaml"


class ResultFormat(StrEnum):
    """Form of an answer for people and for other programs: a list with scores and captions, or paths alone."""

    LIST = "list"
    PATHS = "paths"


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


def as_options(text: str) -> str:
    """Return a message with the command's options in place of the fields that the API calls them by."""
    return _FIELD.sub(lambda match: _FIELDS[match[1]], text)


HomeOption = Annotated[
    Path | None, typer.Option("--home", help="Folder with all state of one collection (LODESTONE_HOME).", show_default=False)
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", help="Set of models, spaces and generators (LODESTONE_PROFILE).", show_default=False)
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of the result.")]
CorpusFilterOption = Annotated[
    list[str] | None, typer.Option("--corpus", "-c", help="Only this corpus; may be given several times.", show_default=False)
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Pictures to show.")]
OffsetOption = Annotated[int, typer.Option("--offset", min=0, max=1000, help="Pictures to skip.")]
PathPrefixOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        help="Only pictures below this folder: of their root (2024/summer), or of this machine (~/Pictures/2024).",
        show_default=False,
    ),
]
RootFilterOption = Annotated[
    list[str] | None, typer.Option("--root", help="Only this root; may be given several times.", show_default=False)
]
DateFromOption = Annotated[
    str | None, typer.Option("--from", help="Taken at or after this date (2024-07-01).", show_default=False)
]
DateToOption = Annotated[str | None, typer.Option("--to", help="Taken before this date.", show_default=False)]
FusionOption = Annotated[
    str | None,
    typer.Option(
        "--fusion", help="weighted_reciprocal_rank, rrf or mean_distance; default: the profile's.", show_default=False
    ),
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show which lists put each picture there.")]
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
    bool, typer.Option("--open", help="Open the first three in the system's viewer.", rich_help_panel=_FILES)
]
CopyToOption = Annotated[
    Path | None,
    typer.Option("--copy-to", help="Copy them to this folder.", rich_help_panel=_FILES, show_default=False),
]
LinkToOption = Annotated[
    Path | None,
    typer.Option("--link-to", help="Link them into this folder.", rich_help_panel=_FILES, show_default=False),
]
MinScoreOption = Annotated[
    float | None,
    typer.Option("--min-score", help="Leave out pictures with a lower score.", rich_help_panel=_FILES, show_default=False),
]
