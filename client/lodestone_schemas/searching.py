"""API models of searching: requests, answers, and the events of a streamed answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt, StringConstraints, model_validator

from lodestone_schemas.base import (
    MAX_CURSOR_CHARS,
    MAX_FIELDS,
    MAX_GUIDES,
    MAX_LIMIT,
    MAX_OFFSET,
    MAX_PARTS,
    MAX_QUERY_CHARS,
    MAX_SET,
    MAX_SET_IMAGES,
    MAX_TAG_CHARS,
    MAX_VALUES,
    DisplayedModel,
    ImageId,
    Model,
)
from lodestone_schemas.dates import RequestDate
from lodestone_schemas.pictures import TAKEN_LOCAL
from lodestone_schemas.problems import Problem

MAX_FACETS: Final = 1_000
"""Values of a kind of facts in one answer, at most."""

GuideId = Annotated[str, Field(max_length=200)]

CORRECTED_QUERY = "Words that were searched in place of the query's, some of which were misspelt; null if none was corrected."
LANGUAGE = "ISO 639-1 code of the language that the query seems to be in; null for English, and where it cannot be told."

WHICH_CLOCK = (
    "A year, month, day or time in ISO 8601. Without an offset it is the time where the picture was taken; with one (`Z`, "
    "`+02:00`) it is absolute time, in which pictures of unknown offset count as UTC."
)


WHICH_VALUES = (
    "Each has at least one of its values: a word as it stands, a number, or numbers from one up to another, which is not "
    "included, as a text (`3000..4000`, `3000..`, `..4000`)."
)


def where_of(texts: object) -> object:
    """Return conditions `NAME=VALUE` on fields of parts as `SearchFilters.where` has them; anything but a list as it is.

    Raises:
        ValueError: one of them has not that form.
    """
    if not isinstance(texts, list):
        return texts
    where: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = str(text).partition("=")
        if not (name.strip() and equals and value.strip()):
            raise ValueError(f"write a condition as NAME=VALUE, such as place=Norway, not {str(text)!r}")
        where.setdefault(name.strip(), []).append(value.strip())
    return where


def texts_of(where: Mapping[str, Sequence[object]]) -> list[str]:
    """Return conditions on fields of parts as texts, one for each value, which `where_of` reads."""
    return [f"{name}={value}" for name, values in where.items() for value in values]


FieldName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
FieldValue = Annotated[str, StringConstraints(min_length=1, max_length=1_000)] | StrictInt | StrictFloat
FieldValues = Annotated[list[FieldValue], Field(min_length=1, max_length=MAX_VALUES)]
FieldsWanted = dict[FieldName, FieldValues]


class SearchFilters(Model):
    """Restricts a search; all given conditions hold together. They are evaluated inside the vector store."""

    corpora: list[str] = Field(default_factory=list, max_length=100, description="Names of corpora; empty for all.")
    roots: list[str] = Field(default_factory=list, max_length=100, description="Names of roots; empty for all.")
    path_prefix: str | None = Field(None, max_length=4096, description="Folder inside the root, e.g. `2024/summer`.")
    taken_from: RequestDate | None = Field(None, description=f"Taken at or after the beginning of this. {WHICH_CLOCK}")
    taken_to: RequestDate | None = Field(None, description=f"Taken before the beginning of this. {WHICH_CLOCK}")
    where: Annotated[FieldsWanted, BeforeValidator(where_of, json_schema_input_type=FieldsWanted | list[str])] = Field(
        default_factory=dict,
        max_length=MAX_FIELDS,
        description="Facts (`place`, `during`, `camera`, `shape`, `has`), and fields that further parts of pictures have: "
        "their values by name, or a list of texts `NAME=VALUE`. " + WHICH_VALUES,
    )


class QuerySet(Model):
    """Says which pictures may be found and what ranks them, with exactly one member.

    `words` and `like` rank: every picture is more or less like them. The others restrict. `all` ranks by everything in it
    together; of `any`, the part that says most for a picture counts; `none` takes restrictions alone.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    all: list[QuerySet] | None = Field(None, min_length=1, max_length=MAX_SET, description="Pictures that meet each of these.")
    any: list[QuerySet] | None = Field(
        None, min_length=1, max_length=MAX_SET, description="Pictures that meet at least one of these."
    )
    none: list[QuerySet] | None = Field(
        None, min_length=1, max_length=MAX_SET, description="Pictures that meet not one of these restrictions."
    )
    words: str | None = Field(None, max_length=MAX_QUERY_CHARS, description="Ranks by what the picture shows, in words.")
    like: ImageId | None = Field(None, description="Ranks by likeness to an indexed picture.")
    filters: SearchFilters | None = Field(
        None, description="Pictures that meet these conditions on place, time and fields of parts."
    )
    images: list[ImageId] | None = Field(
        None, max_length=MAX_SET_IMAGES, description="Pictures of this set, by their ids; unknown ones are ignored."
    )
    tagged: str | None = Field(
        None, max_length=MAX_TAG_CHARS, description="Pictures with this whole tag, set by hand or learnt."
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(given := [name for name in type(self).model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"give exactly one member, e.g. words; given: {', '.join(given) or 'none'}")
        return self


RESTRICTIONS_IN_WORDS: Final = ("tagged",)
"""Members of `QuerySet` that restrict by a text; the command line takes them in `--where NAME=TEXT` and `--not NAME=TEXT`."""


class BrowseRequest(Model):
    """Asks for the pictures that pass filters, without words: newest first, those without a date last."""

    filters: SearchFilters = Field(default_factory=SearchFilters)
    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="Pictures a page.")
    cursor: str | None = Field(None, max_length=MAX_CURSOR_CHARS, description="`next_cursor` of the page before.")


class FacetsRequest(Model):
    """Asks for the values of one kind of facts among the pictures that pass filters, with their numbers of pictures."""

    of: str = Field(max_length=40, description="Kind of facts, as `where` of filters names it: place, during, camera, …")
    filters: SearchFilters = Field(default_factory=SearchFilters)
    limit: int = Field(50, ge=1, le=MAX_FACETS, description="Values, at most.")


class FacetValue(Model):
    """Counts the pictures with one value."""

    value: str = Field(description="The value, as `where` of filters takes it, e.g. `norway`.")
    name: str = Field(description="The value as people write it, e.g. `Norway`.")
    pictures: int = Field(description="Pictures that pass the filters and have the value.")
    image_id: str = Field(description="One of these pictures.")


class Facets(Model):
    """Holds the values of one kind of facts, the most frequent first."""

    values: list[FacetValue]
    pictures: int = Field(description="Pictures that pass the filters, whether they have a value or not.")
    more: bool = Field(description="Whether there are further, rarer values.")


class SearchOptions(Model):
    """Holds the options that every kind of search takes besides its query."""

    limit: int = Field(20, ge=1, le=MAX_LIMIT, description="Pictures a page.")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="Pictures to skip (paging).")
    filters: SearchFilters = Field(default_factory=SearchFilters)
    spaces: list[str] | None = Field(None, max_length=16, description="Spaces to search; default: the profile's.")
    fusion: str | None = Field(None, max_length=64, description="Fusion method; default: the profile's.")
    deadline_ms: int | None = Field(None, ge=1, le=600_000, description="Time allowed for the whole answer.")
    explain: bool = Field(False, description="Attach to each hit the lists that put it there.")
    collapse: bool = Field(False, description="Of pictures known to be copies of each other, show the best alone.")


class QueryRegion(Model):
    """Describes a part of a picture, in shares of its width and height from the upper left corner, all within 0 and 1."""

    x: float = Field(description="Left edge.")
    y: float = Field(description="Upper edge.")
    w: float = Field(description="Width, above 0.")
    h: float = Field(description="Height, above 0.")


class QueryPart(Model):
    """Describes one part of a composed query."""

    name: str = Field(description="Name in `weights` and `drop`: picture, words, unlike, without; picture2 is a second one.")
    weight: float = Field(ge=0, le=1, description="Share of the score that the part decides; those of an alternative sum to 1.")
    avoid: bool = Field(False, description="Whether pictures like this part are to be avoided.")
    alternative: int = Field(
        0, ge=0, description="Alternative that the part belongs to, where the query has several (`any`); the first is 0."
    )
    text: str | None = Field(None, description="The words of a part in words.")
    image_id: str | None = Field(None, description="The indexed picture that the part was taken from.")
    region: QueryRegion | None = Field(None, description="The region of the picture; null for all of it.")


class SearchRequest(SearchOptions):
    """Requests a search in words, or one composed of words and pictures."""

    query: str = Field(
        "",
        max_length=MAX_QUERY_CHARS,
        description="What the picture shows, in words. It may be empty where there is a picture.",
    )
    match: QuerySet | None = Field(
        None,
        description="Further words, pictures and restrictions, with `all`, `any` and `none`, which hold beside the rest of the "
        "request.",
    )
    without: list[str] = Field(
        default_factory=list, max_length=MAX_PARTS, description="What the picture should not show, each in words."
    )
    like: list[ImageId] = Field(default_factory=list, max_length=MAX_PARTS, description="Indexed pictures that it is like.")
    unlike: list[ImageId] = Field(default_factory=list, max_length=MAX_PARTS, description="Indexed pictures that it is unlike.")
    weights: dict[str, float] = Field(
        default_factory=dict,
        max_length=2 * MAX_PARTS,
        description="Part to weight, at least 0; only their ratios count, and 0 leaves the part out. Default: 1 for all "
        "pictures together, 0.8 for all words (1 where the composition has weights), 0.5 for all words to avoid, and 0.5 for "
        "all pictures to avoid.",
    )
    refine_of: str | None = Field(
        None,
        max_length=64,
        description="Recorded query of the caller: its parts, filters, restrictions (`match`), spaces, `collapse`, `diversity` "
        "and `composition` are taken over.",
    )
    reference: ImageId | None = Field(
        None, description="Result of `refine_of` that takes the place of the pictures of that query."
    )
    drop: list[str] = Field(
        default_factory=list, max_length=2 * MAX_PARTS, description="Parts of `refine_of` that are left out, by name."
    )
    region: QueryRegion | None = Field(None, description="The region that counts of the picture that this request names.")
    composition: str | None = Field(
        None,
        max_length=40,
        description="Composition of the settings that compares the parts, `[compositions.NAME]`; default: `default`.",
    )
    diversity: float = Field(0.0, description="Between 0 and 1: how much a picture loses for being like those before it (MMR).")
    generators: list[str] | None = Field(None, max_length=16, description="Guide generators; default: the profile's.")
    guides: int | None = Field(None, ge=0, le=MAX_GUIDES, description="Most guides to use; 0 for the text pass alone.")
    seed: int = Field(0, ge=0, le=2**31 - 1)
    without_guides: list[GuideId] = Field(
        default_factory=list,
        max_length=MAX_GUIDES,
        description="Guides that are drawn but not used, by their ids in the answer to the same words and seed.",
    )
    topic: str | None = Field(
        None, max_length=200, description="Topic whose trust weights count; default: the nearest learnt one."
    )
    gate: bool | None = Field(
        None, description="Let the complexity gate stop simple queries after the text pass; default: setting."
    )
    outliers: bool | None = Field(None, description="Leave out guides that are unlike the others; default: setting.")
    adaptive: bool | None = Field(None, description="Draw guides until the first results are stable; default: setting.")
    spelling: Literal["auto", "off"] | None = Field(
        None, description="auto: correct misspelt words, and say so in `corrected_query`; default: setting."
    )
    phrases: Literal["auto", "off"] | None = Field(
        None,
        description="auto: beside a picture, understand English phrases of change (make it X, without Y, X instead of Y); the "
        "answer's `parts` say how; default: setting.",
    )
    trust: bool = Field(True, description="Let learnt trust weigh the spaces.")
    tags: bool = Field(True, description="Let tags speak for pictures and make guides of them.")
    budget: float | None = Field(None, ge=0, description="Most that paid generators may cost for this query; default: setting.")


class UrlSearchRequest(Model):
    """Requests a search by a picture that the service fetches."""

    url: str = Field(min_length=1, max_length=2_048, description="Public http(s) address of the picture.")
    options: SearchOptions = Field(default_factory=SearchOptions)


class Contribution(Model):
    """Describes one (guide, space) list that contains a hit."""

    guide: str
    space: str
    rank: int = Field(ge=1)
    score: float
    weight: float
    part: float | None = Field(None, description="Share of the hit's score; the shares sum to it. Composed queries only.")


class Hit(DisplayedModel):
    """Describes one found picture. `score` orders hits of one answer only; it is not comparable between queries."""

    rank: int = Field(ge=1)
    image_id: str
    score: float
    corpus: str
    root: str
    uri: str = Field(description="Path inside the root; never a path of the server's disk.")
    width: int
    height: int
    taken_at: datetime | None = None
    taken_local: str | None = Field(None, description=TAKEN_LOCAL)
    captions: list[str] = Field(default_factory=list)
    thumbnail: str = Field(description="Where the thumbnail is served.")
    contributions: list[Contribution] | None = Field(None, description="With `explain`; of a composed query, its parts.")
    found_by: list[Literal["folder", "file", "camera", "date", "place"]] = Field(
        default_factory=list,
        description="Where words of the query stand that pictures do not show: names, the camera, the date and the place.",
    )
    copies: int = Field(0, ge=0, description="Candidates further down that are copies of it, left out for `collapse`.")
    missing: bool = Field(False, description="Whether its file, in a folder of the service's machine, is gone.")


class GateDecision(Model):
    """Holds the complexity gate's decision on the text pass (NEEDLE, F.1). A simple query is answered without guides."""

    verdict: Literal["simple", "complex"]
    predicted_ap: float = Field(description="Average precision that the model expects of the text pass, in [0, 1].")
    threshold: float = Field(description="A query is simple from this predicted AP on.")
    why: str = Field(description="In a sentence.")
    features: dict[str, float] = Field(default_factory=dict)
    model: str = Field("", description="Version of the fitted model.")


class GuideInfo(Model):
    """Describes one guide: its engine, its weight, its provenance, and whether it was used."""

    guide_id: str
    engine: str
    weight: float
    provenance: dict[str, Any]
    status: Literal["used", "rejected", "dropped"] = Field(
        "used", description="rejected: unlike the other guides; dropped: no time or no need for it."
    )
    outlier_score: float | None = Field(None, description="How unlike the others it is; rejected above 1.")
    cached: Literal["exact", "semantic"] | None = Field(
        None, description="Came from the guide cache, and how it was found there."
    )
    cost: float = Field(0.0, description="What its engine charged, in the unit of the engine's setting.")
    picture: str | None = Field(None, description="Where its picture is served; null for a guide without one.")


class QueryNote(Model):
    """Notes a wish in the words of a query that an option fulfils: to leave something out, or to filter by dates."""

    code: Literal["leave_out_by_option", "dates_by_filter"] = Field(description="What is noted; codes stay as they are.")
    phrase: str = Field(description="The words that ask for it.")
    message: str = Field(description="What the words alone do, in English.")
    option: str = Field(description="The option of the command line that does it.")
    query: str = Field("", description="The words without that phrase; empty where nothing else was asked.")
    without: list[str] = Field(default_factory=list, description="What `without` of a request should hold.")
    taken_from: date | None = Field(None, description="What `filters.taken_from` should be.")
    taken_to: date | None = Field(None, description="What `filters.taken_to` should be: the day after the last one.")


class SearchResponse(DisplayedModel):
    """Holds one page of an answer."""

    query_id: str
    corrected_query: str | None = Field(None, description=CORRECTED_QUERY)
    language: str | None = Field(None, description=LANGUAGE)
    stage: Literal["text", "guides", "picture"]
    hits: list[Hit]
    next_offset: int | None = Field(None, description="Offset of the next page; null at the end.")
    fusion: str
    space_weights: dict[str, float]
    parts: list[QueryPart] = Field(default_factory=list, description="Parts of a composed query; empty for all others.")
    guides: list[GuideInfo] = Field(default_factory=list)
    gate: GateDecision | None = Field(None, description="Null where no gate was asked.")
    confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How likely the collection shows what the words say; null for searches by picture, and for profiles and "
        "spaces without a fitted model.",
    )
    probably_nothing: bool = Field(
        False, description="Whether the confidence is so low that probably no picture shows what the words say."
    )
    topic: str | None = Field(None, description="Topic whose trust weights counted.")
    trust: dict[str, float] = Field(default_factory=dict, description="Space to learnt trust, 1 being neutral.")
    cost: float = Field(0.0, description="What engines charged for this query, also for calls that brought nothing.")
    dropped: list[str] = Field(default_factory=list, description="What the deadline or a failure made Lodestone leave out.")
    warnings: list[str] = Field(default_factory=list)
    notes: list[QueryNote] = Field(
        default_factory=list, description="Wishes in the words that options fulfil, such as dates; the words are searched."
    )
    timings_ms: dict[str, float] = Field(default_factory=dict, description="Milliseconds of each stage.")


class PlanEvent(Model):
    """Announces what will be done; it is the first event."""

    type: Literal["plan"] = "plan"
    query_id: str
    spaces: dict[str, str] = Field(description="Space to collection, resolved once.")
    space_weights: dict[str, float]
    generators: list[str]
    guides: int
    fusion: str
    corrected_query: str | None = Field(None, description=CORRECTED_QUERY)
    language: str | None = Field(None, description=LANGUAGE)


class ResultsEvent(Model):
    """Holds a complete answer, as good as known so far; a later one replaces it."""

    type: Literal["results"] = "results"
    response: SearchResponse


class GuideEvent(Model):
    """Reports that a guide has arrived."""

    type: Literal["guide"] = "guide"
    query_id: str
    guide: GuideInfo


class DoneEvent(Model):
    """Carries the final answer; it is the last event of a successful query."""

    type: Literal["done"] = "done"
    response: SearchResponse


class ErrorEvent(Model):
    """Carries the error of a query that failed after streaming began; it is its last event."""

    type: Literal["error"] = "error"
    problem: Problem


Event = Annotated[PlanEvent | ResultsEvent | GuideEvent | DoneEvent | ErrorEvent, Field(discriminator="type")]
