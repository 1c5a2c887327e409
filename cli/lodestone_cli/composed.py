"""Composed queries on the command line: what people type for weights and regions, and the pictures that they name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.completion import complete_pictures
from lodestone_cli.naming import is_id
from lodestone_cli.picture_files import picture_file, picture_id, read_picture
from lodestone_cli.while_indexing import saying_how_far

if TYPE_CHECKING:
    from lodestone_cli.command_context import CommandContext
    from lodestone_schemas.api import SearchRequest, SearchResponse

_PANEL = "Pictures and words together"
_NUMBERS = 4  # of a region

WithoutOption = Annotated[
    list[str] | None,
    typer.Option("--without", help="What it should not show, in words; may be given several times.", rich_help_panel=_PANEL),
]
LikeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        help="A picture that it is like: a file, or an image id; may be given several times.",
        rich_help_panel=_PANEL,
        autocompletion=complete_pictures,
    ),
]
UnlikeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unlike",
        help="An indexed picture that it is unlike, by its id; may be given several times.",
        rich_help_panel=_PANEL,
        autocompletion=complete_pictures,
    ),
]
WeightOption = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        help="How much a part counts: words=2, picture=0.5, without=1; may be given several times.",
        rich_help_panel=_PANEL,
    ),
]
RegionOption = Annotated[
    str | None,
    typer.Option(
        "--region",
        help="The part of the picture that counts: x,y,width,height in shares of its size (0.5,0,0.5,1: its right half).",
        rich_help_panel=_PANEL,
    ),
]
PhrasesOption = Annotated[
    bool | None,
    typer.Option(
        "--phrases/--no-phrases",
        help="Understand `make it X` or `without Y` beside a picture, or take the words as they are.",
        rich_help_panel=_PANEL,
    ),
]
CompositionOption = Annotated[
    str | None,
    typer.Option(
        "--composition",
        help="Compare the parts as this composition of the settings says (compositions.NAME).",
        rich_help_panel=_PANEL,
    ),
]
DiversityOption = Annotated[
    float | None,
    typer.Option(
        "--diversity", help="0 to 1: how much a picture loses for being like those before it.", rich_help_panel=_PANEL
    ),
]


def switch_of(wish: bool | None) -> Literal["auto", "off"] | None:
    """Return how a request switches something on or off; None to leave it to the settings."""
    return None if wish is None else "auto" if wish else "off"


def weights_of(texts: Iterable[str] | None) -> dict[str, float]:
    """Return part -> weight of texts such as `words=2`.

    Raises:
        InvalidRequestError: a text is not of that form.
    """
    weights = {}
    for text in texts or ():
        name, _, number = text.partition("=")
        weight = _number(number)
        if weight is None:
            raise InvalidRequestError(f"--weight {text!r} is no part with a number", hint="e.g. --weight words=2")
        weights[name.strip()] = weight
    return weights


def _number(text: str) -> float | None:
    """Return the finite number that a text means; None if it means none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def region_of(text: str | None) -> dict[str, float] | None:
    """Return the region that `x,y,width,height` means; None for None.

    Raises:
        InvalidRequestError: the text is not of that form.
    """
    if text is None:
        return None
    numbers = [number for part in text.split(",") if (number := _number(part)) is not None]
    if len(numbers) != _NUMBERS or text.count(",") != _NUMBERS - 1:
        raise InvalidRequestError(
            f"--region {text!r} is no region", hint="x,y,width,height in shares of the picture: 0.5,0,0.5,1 for its right half"
        )
    return dict(zip("xywh", numbers, strict=True))


def given(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - the members of a request
    """Return the members of a request that the user has given: those that are not None and not empty."""
    return {name: value for name, value in values.items() if value is not None and value not in ([], {})}


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Options of composed queries that a search and a refinement share."""

    without: WithoutOption = None
    weight: WeightOption = None
    region: RegionOption = None
    diversity: DiversityOption = None
    phrases: PhrasesOption = None
    composition: CompositionOption = None

    def members(self) -> dict[str, Any]:
        """Return the members of a request that the options give.

        Raises:
            InvalidRequestError: a weight or the region is not of its form.
        """
        return given(
            without=self.without,
            weights=weights_of(self.weight),
            region=region_of(self.region),
            diversity=self.diversity,
            phrases=switch_of(self.phrases),
            composition=self.composition,
        )


@dataclass(frozen=True, slots=True)
class NamedPictures:
    """Pictures that a user names: the ids of indexed ones, and the content of files."""

    ids: list[str]
    files: list[bytes]


def pictures_of(context: CommandContext, names: Iterable[str] | None) -> NamedPictures:
    """Return the pictures of image ids and of files; files that are not indexed, or changed since, are read.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: a file cannot be read.
    """
    pictures = NamedPictures([], [])
    for name in names or ():
        if (image_id := picture_id(context.locator, name)) is not None:
            pictures.ids.append(image_id)  # it need not be read again, and is not among its own results
        else:
            most_mb = context.loaded.settings.serve.max_upload_mb if context.is_served else None
            pictures.files.append(read_picture(picture_file(name), most_mb=most_mb))
    return pictures


def indexed(context: CommandContext, names: Iterable[str] | None) -> list[str]:
    """Return the ids of indexed pictures, named by their ids or files.

    Raises:
        NotFoundError: a name is neither.
    """
    found = []
    for name in names or ():
        try:
            found.append(name.lower() if is_id(name) else context.locator.pictures(name)[0])
        except NotFoundError as error:
            raise NotFoundError(
                f"{name!r} is no indexed picture", hint='take the id from a search: "image_id" in lodestone search -o json'
            ) from error
    return found


def answer_of(context: CommandContext, request: SearchRequest, files: list[bytes]) -> SearchResponse:
    """Return the answer to a request with these uploaded pictures, if there are any.

    Raises:
        StoreLockedError: another process owns the store; where it indexes, the message says how far it is.
    """
    from lodestone_cli.progress import shown_wait

    with shown_wait(context, "searching"), saying_how_far(context):
        if not files:
            return context.searcher.search(request)
        return context.searcher.by_picture(files[0], request, more=files[1:])
