"""Contract of a part of a picture: what it reads, what it writes, and how one picture of a slice becomes rows of its file.

A slice has one Parquet file for each part, named by the part's name and version: a part of another version is another part. A
slice that lacks the file of a part is unfinished, and the next index run makes that part of it alone. So a part that is added
to the registry is made for pictures that were indexed before, and no model of the other parts is loaded for it.

A worker uses a part in this order:

- Construction is light, and `name`, `version`, `reads`, `after`, `schema`, `fields` and `resources` need no model.
- `prepare` takes from an opened picture what the part needs of it, in the threads (or processes) that decode. Pure.
- `setup` loads the models, once a worker, before the first pictures are processed.
- `process` turns pictures into results. A part that reads pixels gets batches across slices and has the models to itself.
  Every other part gets the pictures of one slice at once, after their pixels are done, and takes turns with the models.
- `table` joins the results of a slice into the rows of its file.

The result of a picture is a value or one of two drops: `Dropped` is permanent, and written down; `Postponed` is transient: the
part of this slice is not written, and the next run tries again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import cached_property
from typing import Any, ClassVar, Final

import pyarrow as pa

from lodestone.imaging.decode import DecodedImage
from lodestone.indexing.tasks import EMBEDDED_SOURCES, RowFailure, SliceRow, SliceTask, file_safe
from lodestone.models.context import ModelContext
from lodestone.sources.captions import embedded_captions
from lodestone.store.base import Payload
from lodestone_schemas.arrow import part_schema
from lodestone_schemas.collections import FieldKind


class Reads(Flag):
    """What a part reads of a picture. Everything but `ROW` opens the picture's file."""

    ROW = auto()  # what the catalog knows of the picture: names, hash, captions
    METADATA = auto()  # facts in the file beside the pixels
    BYTES = auto()  # the content of the file
    PIXELS = auto()


OPENS: Final = Reads.METADATA | Reads.BYTES | Reads.PIXELS


@dataclass(frozen=True, slots=True)
class Made:
    """Result of a picture.

    Attributes:
        value: What `table` of the part takes; for that of this module, one mapping for each row, by column name.
    """

    value: Any


@dataclass(frozen=True, slots=True)
class Dropped:
    """Permanent drop: the part cannot be made of this picture, and is not tried again before the picture or the part changes.

    Attributes:
        code: Stable word, e.g. `too_small`.
        message: Reason, as a clause.
    """

    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Transient drop: the part cannot be made of this picture now, so its slice lacks the part until a later run.

    Attributes:
        message: Reason, as a clause.
    """

    message: str


PartResult = Made | Dropped | Postponed


@dataclass(frozen=True, slots=True)
class PartResources:
    """Resources that a part needs for a picture.

    Attributes:
        prepared_bytes: Bytes of what `prepare` returns; they limit how many prepared pictures wait for the models.
        side: Least side, in pixels, that a picture may be reduced to while it is decoded.
        on_gpu: Whether the part runs on a GPU here, where a pass over hundreds of pictures pays.
    """

    prepared_bytes: int = 0
    side: int = 1
    on_gpu: bool = False


@dataclass(frozen=True)
class OpenedPicture:
    """An opened picture, as `prepare` gets it.

    Attributes:
        row: The planned row.
        decoded: Pixels, and facts of the file.
        content: The content of the file; None for a local file that is too large for memory.
    """

    row: SliceRow
    decoded: DecodedImage
    content: bytes | None

    @cached_property
    def captions(self) -> tuple[tuple[str, str], ...]:
        """Return (source, text) pairs: those known before that are not from the file, then those inside the file."""
        known = tuple(pair for pair in self.row.captions if pair[0] not in EMBEDDED_SOURCES)
        inside = tuple((caption.source.value, caption.text) for caption in embedded_captions(self.decoded.embedded))
        return tuple(dict.fromkeys((*known, *inside)))


def ignore(_work: float) -> None:
    """Ignore the work that is done."""


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """Pictures that are processed together.

    Attributes:
        rows: Their rows (n).
        prepared: What `collate` of the part returned for what `prepare` returned; without it, a sequence (n) of these, which
            are None for a part that opens no file.
        others: Tables of the parts named in `after`, of the whole slice, by name. They may have rows of further pictures, and
            lack those of pictures that the other part was not made of.
        turn: Returns a context in which no other part of the worker runs a model; for parts that read no pixels.
        tell: Called with the work that is done, in the unit of `work`, as it grows.
    """

    rows: Sequence[SliceRow]
    prepared: Any
    others: Mapping[str, pa.Table] = field(default_factory=dict)
    turn: Callable[[], AbstractContextManager[object]] = nullcontext
    tell: Callable[[float], None] = ignore


@dataclass(frozen=True, slots=True)
class FinishedSlice:
    """Results of all pictures of a slice.

    Attributes:
        task: The slice's task.
        rows: Pictures that could be used (n), in the task's order.
        results: What was made of each of them (n); no `Postponed`.
        failures: Pictures that could not be used, in the task's order.
    """

    task: SliceTask
    rows: Sequence[SliceRow]
    results: Sequence[Made | Dropped]
    failures: Sequence[RowFailure]


class SlicePart(ABC):
    """Part of a picture; the module's docstring describes the contract.

    Attributes:
        name: Name of the part, e.g. `captions`.
        reads: What it reads.
        after: Names of other parts whose rows it reads. A part that reads pixels names none.
        fields: Filter fields that its rows give the points of a picture in every collection: columns of the same names.
        resources: What it needs for a picture.
    """

    name: str
    reads: Reads
    after: tuple[str, ...] = ()
    fields: tuple[tuple[str, FieldKind], ...] = ()
    embeds: ClassVar[bool] = False  # whether it is the outputs of a model, which pictures are found by

    @property
    @abstractmethod
    def version(self) -> str:
        """Return a short stable string (<= 16 characters, [0-9a-z]), another one whenever other rows would be written."""

    @property
    def file(self) -> str:
        """Return the name that files and receipts of the part have."""
        return f"{file_safe(self.name)}-{self.version}"

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns of the part's file."""

    @property
    def resources(self) -> PartResources:
        """Return what the part needs for a picture."""
        return PartResources()

    @property
    def opens(self) -> bool:
        """Return whether the part needs the picture's file."""
        return bool(self.reads & OPENS)

    @property
    def in_batches(self) -> bool:
        """Return whether pictures are processed in batches as they are decoded, and not by slices."""
        return bool(self.reads & Reads.PIXELS)

    def prepare(self, picture: OpenedPicture) -> Any:  # noqa: ANN401, ARG002 - belongs to the part
        """Return what `process` needs of an opened picture, small and picklable, or its `Dropped`. Pure and thread-safe.

        Raises:
            ImageError: the picture cannot be used at all; it becomes a failure for all parts.
        """
        return None

    def setup(self, context: ModelContext) -> None:  # noqa: B027 - most need nothing
        """Load the models. Called once a worker, before `collate` and `process`.

        Args:
            context: The cache of models, and the threads of a pass.

        Raises:
            ModelUnavailableError: a model's package is not installed, or memory has no room for it.
        """

    def collate(self, prepared: Sequence[Any]) -> Any:  # noqa: ANN401 - belongs to the part
        """Return a batch of what `prepare` returned. Called while another batch may be in the models. Thread-safe."""
        return prepared

    @abstractmethod
    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        """Return the result of each picture, in their order; result i depends on picture i alone."""

    def work(self, rows: Sequence[SliceRow]) -> float:  # noqa: ARG002
        """Return the work of a part that reads no pixels, in pictures that go through all stages; for progress."""
        return 0.0

    def table(self, finished: FinishedSlice) -> pa.Table:
        """Return the rows of a slice, in `schema`: those of each picture, and one row of nulls for a picture without any.

        A picture that was dropped, or could not be used, has one row with the reason.
        """
        rows: list[dict[str, Any]] = []
        dropped = {failure.image_id: Dropped(failure.code, failure.message) for failure in finished.failures}
        results = {row.image_id: result for row, result in zip(finished.rows, finished.results, strict=True)}
        for row in finished.task.rows:
            key = {"image_id": row.image_id, "hash": row.hash}
            result = results.get(row.image_id) or dropped.get(row.image_id)
            if isinstance(result, Dropped):
                rows.append(key | {"error_code": result.code, "error_message": result.message})
            elif isinstance(result, Made):
                own: Sequence[Mapping[str, Any]] = result.value or ({},)
                rows += [{**key, **columns} for columns in own]
        return pa.Table.from_pylist(rows, self.schema).replace_schema_metadata({"part": self.file})

    def file_key(self, task: SliceTask) -> str:
        """Return the fingerprint in the name of the part's file: another one whenever the same task would give other rows."""
        return task.fingerprint

    def fits(self, read: Callable[[Sequence[str]], pa.Table], needed: Mapping[str, str]) -> bool:
        """Return whether a file of a killed run has rows of all the pictures that it must have, and no reason in place of rows.

        The reason may be that a picture could not be read then.

        Args:
            read: Reads columns of the file.
            needed: Image id -> content hash.
        """
        rows = read(("image_id", "hash", "error_code")).to_pylist()
        held = {row["image_id"]: row["hash"] for row in rows if row["error_code"] is None}
        return all(held.get(image_id) == content for image_id, content in needed.items())

    def payloads(self, table: pa.Table) -> Mapping[str, Payload]:
        """Return image id -> filter fields, from the columns of `fields` of the part's file.

        A keyword field gets all values of the picture's rows, and a number that of its first row that has one.
        """
        fields: dict[str, dict[str, Any]] = {}
        for row in table.select(["image_id", *(name for name, _ in self.fields)]).to_pylist():
            held = fields.setdefault(row["image_id"], {})
            for name, kind in self.fields:
                value = row[name]
                if value is None:
                    continue
                if kind is not FieldKind.KEYWORD:
                    held.setdefault(name, value)
                elif value not in held.setdefault(name, []):
                    held[name].append(value)
        return fields


def own_schema(*columns: pa.Field) -> pa.Schema:
    """Return the schema of a part with these nullable columns of its own, for the `table` of `SlicePart`."""
    return part_schema(columns)


def in_order(parts: Collection[SlicePart]) -> Iterator[SlicePart]:
    """Yield parts so that each comes behind those that it names in `after`.

    Raises:
        ValueError: two parts wait for each other.
    """
    names = {part.name for part in parts}
    yielded: set[str] = set()
    waiting = list(parts)
    while waiting:
        ready = [part for part in waiting if all(name in yielded or name not in names for name in part.after)]
        if not ready:
            raise ValueError(f"the parts {sorted(part.name for part in waiting)} wait for each other: correct their `after`")
        yield from ready
        yielded.update(part.name for part in ready)
        waiting = [part for part in waiting if part.name not in yielded]
