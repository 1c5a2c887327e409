"""Reading of tables (Parquet and Lance): all rows in a stream to list them, and single rows by number for workers.

A worker's rows follow each other, so a Parquet file is read forward, a few batches at a time; going back starts at the row's
own row group. A row group is never held whole.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from lodestone.errors import ConfigurationError, SourceError
from lodestone.files.beneath import Enclosure, open_file
from lodestone.files.urls import Url, is_url
from lodestone.sources.columns import Columns, find_columns
from lodestone.sources.locators import LANCE

if TYPE_CHECKING:
    import pyarrow as pa

    from lodestone.files.filesystems import FileSystems

_BATCH_BYTES_ROWS: Final = 32  # rows of a batch that hold pictures
_BATCH_URI_ROWS: Final = 2_000
_KEPT: Final = 6  # batches that one open table holds


class Rows(ABC):
    """A Parquet or Lance table that is open for reading. Thread-safe.

    Attributes:
        columns: Columns that are read.
    """

    columns: Columns

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the columns, in order."""

    @abstractmethod
    def row(self, number: int) -> Any:  # noqa: ANN401 - a value of the picture column
        """Return the picture column's value in one row. Raises `IndexError` past the end."""

    def read(self, position: int, size: int) -> bytes:  # noqa: ARG002 - the signature is that of archives
        """Return the picture in one row; b"" where there is none."""
        try:
            return picture_bytes(self.row(position))
        except IndexError:
            return b""


def picture_bytes(value: Any) -> bytes:  # noqa: ANN401 - bytes, a struct with bytes, or None
    """Return the bytes in a value of the picture column; b"" where there are none."""
    content = value.get("bytes") if isinstance(value, dict) else value
    return content if isinstance(content, bytes) else b""


def open_rows(where: str, filesystems: FileSystems, within: Enclosure | None = None) -> Rows:
    """Open a table by its path or URL.

    Args:
        where: Path or URL.
        filesystems: Opens URLs.
        within: The folder that a local table must lie in; None for none.

    Raises:
        SourceError: it is damaged, or holds no pictures.
        OSError: it is missing, or denied.
    """
    name = (Url.stored(where).key if is_url(where) else where).lower()
    if not name.endswith(LANCE):
        return _Parquet(where, filesystems, within)
    if within is not None:
        raise lance_refused(where)
    return _Lance(where)


def lance_refused(where: str) -> SourceError:
    """Return the error for a Lance table where links must not lead out of a folder: its library opens its files by itself."""
    return SourceError(
        f"the Lance table {where!r} lies in a folder of serve.index_folders, where only Parquet tables are read",
        hint="write it as Parquet",
        reason="unreadable",
    )


class _Parquet(Rows):
    def __init__(self, where: str, filesystems: FileSystems, within: Enclosure | None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        source: Any = where
        if is_url(where):
            system, path = filesystems.at(Url.stored(where))
            source = system.open_input_file(path)
        elif within is not None:
            source = open_file(where, within)
        try:
            self._file = pq.ParquetFile(source)
        except pa.ArrowInvalid as error:
            raise _damaged(where, error) from error
        self.columns = find_columns(self._file.schema_arrow, where)
        groups = self._file.metadata
        self._starts = [0, *accumulate(groups.row_group(i).num_rows for i in range(groups.num_row_groups))]
        self._lock = threading.Lock()
        self._window: deque[tuple[int, pa.Array]] = deque(maxlen=_KEPT)
        self._forward: Iterator[pa.RecordBatch] | None = None
        self._next = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        size = _BATCH_BYTES_ROWS if self.columns.holds_bytes else _BATCH_URI_ROWS
        yield from self._file.iter_batches(batch_size=size, columns=self.columns.all)

    def row(self, number: int) -> Any:  # noqa: ANN401
        with self._lock:
            if (value := self._seen(number)) is not None:
                return value.as_py()
            if number >= self._starts[-1]:
                raise IndexError(number)
            group = bisect_right(self._starts, number) - 1
            if self._forward is None or number < self._next or self._starts[group] > self._next:
                self._window.clear()
                self._next = self._starts[group]
                self._forward = self._file.iter_batches(
                    batch_size=_BATCH_BYTES_ROWS,
                    row_groups=list(range(group, len(self._starts) - 1)),
                    columns=[self.columns.picture],
                )
            for batch in self._forward:
                self._window.append((self._next, batch.column(0)))
                self._next += batch.num_rows
                if number < self._next:
                    break
            value = self._seen(number)
            return None if value is None else value.as_py()

    def _seen(self, number: int) -> pa.Scalar | None:
        for start, column in self._window:
            if start <= number < start + len(column):
                return column[number - start]
        return None


class _Lance(Rows):
    def __init__(self, where: str) -> None:
        self._dataset = _lance(where)
        self.columns = find_columns(self._dataset.schema, where)
        self._rows = self._dataset.count_rows()

    def batches(self) -> Iterator[pa.RecordBatch]:
        size = _BATCH_BYTES_ROWS if self.columns.holds_bytes else _BATCH_URI_ROWS
        yield from self._dataset.to_batches(columns=self.columns.all, batch_size=size)

    def row(self, number: int) -> Any:  # noqa: ANN401
        if number >= self._rows:
            raise IndexError(number)
        return self._dataset.take([number], columns=[self.columns.picture]).column(0)[0].as_py()


def lance_version(where: str) -> tuple[int, int]:
    """Return a Lance table's present version, and when it was written (nanoseconds since the epoch).

    Raises:
        SourceError: it cannot be opened.
    """
    dataset = _lance(where)
    version = int(dataset.version)
    latest = next(v for v in dataset.versions() if v["version"] == version)
    return version, int(latest["timestamp"].timestamp() * 1e6) * 1000


def _lance(where: str) -> Any:  # noqa: ANN401 - lance has no types
    try:
        import lance  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ConfigurationError(
            f"reading the Lance table {where!r} needs the package pylance", hint="pip install pylance"
        ) from error
    address, options = where, {}
    if is_url(where):
        from urllib.parse import parse_qsl

        url = Url.stored(where)
        parameters = dict(parse_qsl(url.query))
        endpoint = parameters.get("endpoint_override", "")
        if endpoint:
            scheme = parameters.get("scheme", "https")
            options = {"endpoint": endpoint if "://" in endpoint else f"{scheme}://{endpoint}", "allow_http": "true"}
        if "region" in parameters:
            options["region"] = parameters["region"]
        address = f"{url.scheme}://{url.bucket}/{url.key}"
    try:
        return lance.dataset(address, storage_options=options or None)
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the Lance table {where!r} cannot be opened: {error}", hint="check its path", reason="corrupt"
        ) from error


def _damaged(where: str, error: Exception) -> SourceError:
    return SourceError(
        f"the table {where!r} is no whole Parquet file: {error}", hint="copy or write it again", reason="corrupt"
    )
