"""Part of a picture: the vectors of its captions, which are known to the catalog or were found inside its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lodestone.embeddings.slices import fingerprint
from lodestone.embeddings.tables import captions_table
from lodestone.indexing.parts.contract import FinishedSlice, Made, PartResult, PictureGroup, Reads, SlicePart
from lodestone.indexing.tasks import EMBEDDED_SOURCES, META_PART, SliceRow, SliceTask, captions_part
from lodestone.models.context import ModelContext
from lodestone.text_encoders.base import TextEncoder
from lodestone_schemas.arrow import captions_schema

CAPTIONS_PREFIX: Final = "captions-"
_AT_ONCE: Final = 256
_WORK: Final = 0.06  # of a picture's work: about 3 ms against 50 ms of a core, with the profile `embedded`


class CaptionsPart(SlicePart):
    """Encodes captions: one row for each, so none for a picture without any.

    The model is loaded at the first caption, because many homes have none.

    Args:
        encoder: The text encoder.
    """

    name = "captions"
    reads = Reads.ROW

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._threads = 0

    @property
    def version(self) -> str:
        """Return the version of the text encoder."""
        return self._encoder.version

    @property
    def file(self) -> str:
        """Return the name of captions encoded by this version of the text encoder."""
        return captions_part(self._encoder)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of captions and of their vectors."""
        return captions_schema(self._encoder.dim)

    def setup(self, context: ModelContext) -> None:
        """Keep the number of threads."""
        self._threads = context.threads

    def work(self, rows: Sequence[SliceRow]) -> float:
        """Return the work of encoding the captions of these pictures."""
        return sum(len(row.captions) for row in rows) * _WORK

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        """Return the vectors of each picture's captions. They are encoded by length: a pass is as long as its longest text."""
        texts = [text for row in pictures.rows for _, text in row.captions]
        vectors = np.empty((len(texts), self._encoder.dim), np.float32)
        if texts:
            with pictures.turn():
                self._encoder.warm_up(threads=self._threads)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(texts), _AT_ONCE):
            places = by_length[start : start + _AT_ONCE]
            with pictures.turn():
                vectors[places] = self._encoder.encode([texts[place] for place in places])
            pictures.tell((start + len(places)) * _WORK)
        ends = np.cumsum([len(row.captions) for row in pictures.rows]).tolist()
        return [Made(vectors[end - len(row.captions) : end]) for row, end in zip(pictures.rows, ends, strict=True)]

    def table(self, finished: FinishedSlice) -> pa.Table:
        """Return the captions of the pictures that could be used."""
        rows = [(row.image_id, *caption) for row in finished.rows for caption in row.captions]
        vectors = [result.value for result in finished.results if isinstance(result, Made)]
        joined = np.concatenate(vectors) if vectors else np.empty((0, self._encoder.dim), np.float32)
        return captions_table(rows, joined, metadata={"part": self.file})

    def file_key(self, task: SliceTask) -> str:
        """Return the fingerprint of the slice and of the texts: they may change alone.

        Texts inside the pictures' files are not yet known while `meta` is missing. They are told by the slice's fingerprint.
        """
        pixels = META_PART in task.parts
        texts = [
            (row.image_id, "\n".join(f"{source}\t{text}" for source, text in (known_captions(row) if pixels else row.captions)))
            for row in task.rows
        ]
        return fingerprint(texts, f"{task.fingerprint}{'' if pixels else '+'}")

    def fits(self, read: Callable[[Sequence[str]], pa.Table], needed: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Return True: the file's name tells its texts."""
        return True


def known_captions(row: SliceRow) -> tuple[tuple[str, str], ...]:
    """Return the captions that do not come from inside the picture's own file."""
    return tuple(pair for pair in row.captions if pair[0] not in EMBEDDED_SOURCES)
