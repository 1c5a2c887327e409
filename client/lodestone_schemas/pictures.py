"""API models of indexed pictures and corpora."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, DisplayedModel, ImageId, Model

TAKEN_LOCAL = (
    "What the clock showed where it was taken, as precisely as is known: `2024-07-01T18:30:15`, or only `1993-06-05`, "
    "`1993-06` or `1993`. `taken_at` is the beginning of that."
)


class ImageInfo(DisplayedModel):
    """Holds what is known about one picture."""

    image_id: str
    corpus: str
    root: str
    uri: str
    hash: str
    size: int = Field(description="Bytes.")
    width: int
    height: int
    format: str
    taken_at: datetime | None = Field(None, description="UTC. Without `utc_offset_minutes`, what the camera's clock showed.")
    utc_offset_minutes: int | None = Field(None, description="Local time minus UTC where the picture was taken.")
    taken_local: str | None = Field(None, description=TAKEN_LOCAL)
    taken_source: str | None = Field(
        None,
        description="Where the date is from: exif, exif_digitized, exif_changed, gps, xmp, iptc, text, sidecar or name (of the "
        "file).",
    )
    taken_zone: str | None = Field(
        None, description="What says the offset: stated (in the file) or gps (its clock); null where the offset is unknown."
    )
    latitude: float | None = Field(None, description="Degrees, north positive.")
    longitude: float | None = Field(None, description="Degrees, east positive.")
    place: str | None = Field(
        None,
        description="Names of the position, the smallest area first, e.g. `Bergen, Vestland, Norway`: those of the nearest "
        "town, which may be a neighbour. Null without a position, and far from every town.",
    )
    camera_make: str | None = None
    camera_model: str | None = None
    decoded_share: float | None = Field(
        None, description="Share of its rows that could be decoded, if its file ends early; null for a complete picture."
    )
    captions: list[str] = Field(default_factory=list)
    thumbnail: str


class PictureLabel(Model):
    """Names something that a picture may show."""

    text: str
    similarity: float = Field(description="Cosine of the picture and the name in the label space.")


class PictureQuality(Model):
    """Holds technical measures of a picture's luma, of the picture reduced to 512 pixels."""

    sharpness: float = Field(description="Variance of the Laplacian; blurred pictures have a low one.")
    brightness: float = Field(description="Mean luma, from 0 (black) to 1 (white).")
    contrast: float = Field(description="Standard deviation of luma.")
    shadows: float = Field(description="Share of pixels that are nearly black.")
    highlights: float = Field(description="Share of pixels that are nearly white.")


class PictureSafety(Model):
    """Holds a model's judgement of whether a picture is safe to show at work."""

    not_safe: float = Field(description="Probability that it is not.")
    model: str


class PictureTags(Model):
    """Holds what models and measures find out about one picture."""

    labels: list[PictureLabel] | None = Field(description="Nearest first; null where the profile has no label space.")
    quality: PictureQuality
    safety: PictureSafety | None = Field(description="Null where no safety model is installed.")


class PathsRequest(Model):
    """Asks where the files of pictures are."""

    image_ids: list[ImageId] = Field(min_length=1, max_length=1_000)


class PicturePaths(Model):
    """Says where the files of pictures are, seen from the service's machine."""

    paths: dict[str, str] = Field(
        description="Image id to absolute path, or to the URL of what is in a bucket. Pictures that are unknown, or whose "
        "names are no text, are left out."
    )


class ImagePage(Model):
    """Holds one page of a corpus's pictures, by root and path."""

    images: list[ImageInfo]
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)


class RootInfo(Model):
    """Describes one indexed folder."""

    name: str
    images: int


class CorpusInfo(Model):
    """Describes one corpus: pictures that were indexed under one name."""

    name: str
    corpus_id: str
    images: int
    failures: int
    incomplete: int = Field(0, description="Pictures whose files end early: they are found by the part that could be decoded.")
    roots: list[RootInfo]
    created_at: datetime


class CorpusRename(Model):
    """Asks for another name of a corpus."""

    name: str = Field(min_length=1, max_length=200, description="The new name; no corpus may have it.")


class CorpusRenamed(Model):
    """Says what a corpus is called now, and which keys were changed with it."""

    corpus: CorpusInfo
    keys: list[str] = Field(description="Ids of the keys that named the corpus, and name it by its new name now.")
    notes: list[str] = Field(description="What names the corpus elsewhere, and has to be changed by hand.")


class CorpusPage(Model):
    """Holds one page of the list of corpora."""

    corpora: list[CorpusInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)
