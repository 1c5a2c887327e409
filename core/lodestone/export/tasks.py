"""Messages between the driver of an export and its workers: a file that is to be written, and what was written.

A task holds everything that the catalog says of its pictures, so a worker on another machine needs no catalog. Vectors are read
from the Parquet files of the embeddings, and pictures from their places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from blake3 import blake3

from lodestone.catalog.records import ImageRecord, Receipt, Root
from lodestone.files.beneath import Enclosure

FORMAT: Final = 1
"""Version of what files of an export hold; with another one, all files are written again."""

_FACTS: Final = attrgetter(*(column.name for column in fields(ImageRecord)))


class ExportedPicture(NamedTuple):
    """What the catalog says of a picture.

    Attributes:
        image: The picture.
        captions: (source, text) pairs.
        tags: (text, source, score) triples; the score of a tag by hand is None.
    """

    image: ImageRecord
    captions: tuple[tuple[str, str], ...] = ()
    tags: tuple[tuple[str, str, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedSlice:
    """A slice with those of its pictures that are exported.

    Attributes:
        corpus_id: Id of its corpus.
        fingerprint: Names its files.
        receipts: Part -> receipt, of the parts that are read.
        pictures: The pictures, in row order.
    """

    corpus_id: str
    fingerprint: str
    receipts: Mapping[str, Receipt]
    pictures: tuple[ExportedPicture, ...]


@dataclass(frozen=True, slots=True)
class RootAccess:
    """A root, and the folder that its local files must lie in; None where nothing limits it."""

    root: Root
    within: Enclosure | None = None


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Task to write one file.

    Attributes:
        name: Name of the file.
        corpora: Corpus id -> name.
        roots: Root id -> root.
        slices: What the file holds.
    """

    name: str
    corpora: Mapping[str, str]
    roots: Mapping[str, RootAccess]
    slices: tuple[ExportedSlice, ...]

    @property
    def key(self) -> str:
        """Return the name of the file."""
        return self.name

    @property
    def pictures(self) -> int:
        """Return the number of pictures."""
        return sum(len(one.pictures) for one in self.slices)

    def inputs(self, selection: str) -> str:
        """Return a digest of everything that the content of the file depends on, 32 hex characters.

        Args:
            selection: Digest of what all files of the export depend on.
        """
        digest = blake3(json.dumps([FORMAT, selection]).encode())
        for one in self.slices:
            names = [self.corpora[one.corpus_id], {root_id: access.root.name for root_id, access in self.roots.items()}]
            checksums = sorted((part, receipt.checksum) for part, receipt in one.receipts.items())
            rows = [(_FACTS(image), captions, tags) for image, captions, tags in one.pictures]
            digest.update(json.dumps([names, one.fingerprint, checksums, rows], sort_keys=True).encode())
        return str(digest.hexdigest(length=16))


class LeftOut(NamedTuple):
    """A picture that could not be read; `code` is that of the error."""

    id: str
    uri: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of an export.

    Attributes:
        name: Its name.
        pictures: Number of pictures in it.
        bytes: Its size.
        blake3: Checksum of its content, hex.
        without_vector: Space -> number of pictures that have no vector in it.
        left_out: Pictures that it lacks because they could not be read.
        inputs: What it was made of (`ExportTask.inputs`); set by the driver.
    """

    name: str
    pictures: int
    bytes: int
    blake3: str
    without_vector: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    inputs: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as JSON has them."""
        return {**asdict(self), "left_out": [one._asdict() for one in self.left_out]}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> WrittenFile:
        """Return the file that `as_dict` described.

        Raises:
            TypeError, ValueError, KeyError: the facts are none of a file.
        """
        left_out = tuple(LeftOut(**one) for one in facts["left_out"])
        return cls(**{**facts, "left_out": left_out})
