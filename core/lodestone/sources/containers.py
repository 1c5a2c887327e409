"""Source of pictures inside archives and tables below a folder or prefix. Those that have not changed are not read again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lodestone.catalog.records import Container
from lodestone.errors import InvalidRequestError, ManifestChangedError, SourceError
from lodestone.files.beneath import Enclosure, open_file
from lodestone.files.bounds import changed_ns
from lodestone.files.filesystems import FileSystems, Stat
from lodestone.files.tokens import hash_bytes
from lodestone.files.urls import Url, is_url
from lodestone.sources.base import FoundFile, Report, Settled, Source, UnreadablePath
from lodestone.sources.captions import cleaned
from lodestone.sources.digests import Digests
from lodestone.sources.locators import (
    LANCE,
    TABLE,
    TABLE_EXTENSIONS,
    TAR,
    TAR_EXTENSIONS,
    Inside,
    container_uri,
    place_below,
    split_container,
    target_of,
    uri_inside,
)
from lodestone.sources.objects import list_objects
from lodestone.sources.patterns import Pattern
from lodestone.sources.rows import Rows, lance_refused, lance_version, open_rows, picture_bytes
from lodestone.sources.tars import TarPlace, tar_pictures
from lodestone.sources.trouble import Trouble, read_failure, source_error, trouble_of
from lodestone.sources.uris import relative_path_of

if TYPE_CHECKING:
    import pyarrow as pa

_THREADS: Final = 16  # targets of a table's rows that are checked at once
_BATCH: Final = 256
_LONGEST_NAME: Final = 256  # characters of a row's name that its uri has


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """An archive or table that holds pictures.

    Attributes:
        relative: Name below the source's base.
        where: Path or URL.
        stat: Size, time and etag that the store reports.
    """

    relative: str
    where: str
    stat: Stat

    @property
    def uri(self) -> str:
        """Return the uri of the archive or table inside its root."""
        return container_uri(self.relative, TAR if self.relative.lower().endswith(TAR_EXTENSIONS) else TABLE)

    @property
    def token(self) -> str:
        """Return a token of its content, made of what a listing reports."""
        return hash_bytes(f"{self.stat.etag}\0{self.stat.size}\0{self.stat.mtime_ns}".encode())


class ContainerSource(Source):
    """Pictures inside the archives (`tar`) or tables (`table`) below a folder or URL.

    Args:
        base: Folder or URL that the root's uris start from.
        kind: `tar` or `table`.
        filesystems: Opens URLs.
        pattern: Selects archives or tables by their names below `base`.
        known: Those that were listed completely before, by uri.
        within: The folder that archives, tables, and the files that tables name must lie in; None for none. Tables may then
            name no URL: the credentials that open it are not their author's.
    """

    def __init__(
        self,
        base: str,
        kind: str,
        filesystems: FileSystems,
        *,
        pattern: Pattern | None = None,
        known: Mapping[str, Container] | None = None,
        within: Enclosure | None = None,
    ) -> None:
        self._base = base
        self._kind = kind
        self._filesystems = filesystems
        self._pattern = pattern or Pattern("")
        self._known = dict(known or {})
        self._within = within
        self.settled = Settled()

    def containers(self) -> Iterator[ContainerFile]:
        """Yield the archives or tables, by name."""
        for relative in self._names():
            where = place_below(self._base, relative)
            try:
                yield ContainerFile(relative, where, self._stat(where))
            except SourceError as error:
                if not self._pattern.literal or error.details.get("reason") != Trouble.MISSING.value:
                    raise  # an archive that was given by name and is missing has vanished

    def _names(self) -> Iterator[str]:
        if self._pattern.literal:
            yield from self._pattern.text.split("\n")
            return
        extensions = TAR_EXTENSIONS if self._kind == TAR else TABLE_EXTENSIONS
        deep = self._pattern.depth
        if is_url(self._base):
            relatives = _below_url(self._base, self._filesystems, extensions, deep)
        else:
            relatives = _below(self._base, extensions, deep, followlinks=self._within is None)
        yield from (relative for relative in relatives if self._pattern.matches(relative))

    def items(self, report: Report, *, reread: bool = False) -> Iterator[FoundFile]:
        """List the pictures of all archives or tables; unchanged ones are skipped unless `reread` is set.

        Raises:
            SourceError: the archives or tables cannot be listed.
            ManifestChangedError: one changed while it was read.
        """
        for container in self.containers():
            known = self._known.get(container.uri)
            if known is not None and known.token == container.token and not reread:
                self.settled.unchanged.append(known)
                continue
            count, targets = 0, False
            try:
                for file in self._pictures(container, report):
                    count += 1
                    targets = file.position is None
                    yield file
            except SourceError as error:
                self._leave(container, error.message, str(error.details.get("reason", "unreadable")), report)
                continue
            except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
                # Readers of archives and tables meet damage in more ways than they document. The others are still read.
                self._leave(container, f"it cannot be read: {type(error).__name__}: {error}", "corrupt", report)
                continue
            if self._stat(container.where) != container.stat:
                raise ManifestChangedError(
                    f"{_shown(container.where)} was changed while it was being read",
                    hint="nothing is lost: run the same command again when it is written",
                )
            if not targets:  # the files that a table points at change without the table
                self.settled.listed.append(Container("", container.uri, container.token, count))

    def _leave(self, container: ContainerFile, message: str, code: str, report: Report) -> None:
        """Report an archive or table that could not be read to its end; its known pictures are kept."""
        report(UnreadablePath(container.uri, container.where, message, code=code))
        self.settled.incomplete.append(container.uri)

    def covers(self, uri: str) -> bool:
        """Return whether the pattern selects the archive or table that the uri names."""
        return self._pattern.matches(relative_path_of(split_container(uri, self._kind)[0]))

    def _stat(self, where: str) -> Stat:
        try:
            if where.lower().partition("?")[0].endswith(LANCE):
                if self._within is not None:
                    raise lance_refused(where)
                version, written = lance_version(where)
                return Stat(0, written, f"lance-{version}")
            return self._look_at(where)
        except OSError as error:
            raise source_error(error, _shown(where), doing="read") from error

    def _look_at(self, where: str) -> Stat:
        if self._within is None:
            return self._filesystems.look_at(where)
        with open_file(where, self._within) as file:
            status = os.fstat(file.fileno())
            return Stat(status.st_size, changed_ns(status))

    def _pictures(self, container: ContainerFile, report: Report) -> Iterator[FoundFile]:
        seen = Digests()
        try:
            files = self._tar_pictures(container, report) if self._kind == TAR else self._table_pictures(container, report)
            for file in files:
                if seen.add_if_new(file.uri):  # of a repeated name, the first one counts
                    yield file
        except OSError as error:
            raise source_error(error, _shown(container.where), doing="read") from error

    def _tar_pictures(self, container: ContainerFile, report: Report) -> Iterator[FoundFile]:
        if is_url(container.where):
            system, path = self._filesystems.at(Url.stored(container.where))
            stream: Any = system.open_input_stream(path, buffer_size=1 << 20)
        else:
            stream = open_file(container.where, self._within)
        place = TarPlace(container.uri, container.where, container.stat.size, container.stat.mtime_ns)
        with stream:
            yield from tar_pictures(stream, place, report)

    def _table_pictures(self, container: ContainerFile, report: Report) -> Iterator[FoundFile]:
        rows = open_rows(container.where, self._filesystems, self._within)
        files = (
            _stored_pictures(rows, container, report) if rows.columns.holds_bytes else self._targets(rows, container, report)
        )
        try:
            yield from files
        except ValueError as error:  # ArrowInvalid: a page in the middle is damaged
            raise SourceError(
                f"the table {container.relative!r} is damaged: {error}", hint="write it again", reason="corrupt"
            ) from error

    def _targets(self, rows: Rows, container: ContainerFile, report: Report) -> Iterator[FoundFile]:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="stat") as pool:
            remaining = _values(rows)
            while batch := list(islice(remaining, _BATCH)):
                results = pool.map(lambda item: self._check_target(container, *item), batch)
                for file in results:
                    if isinstance(file, UnreadablePath):
                        report(file)
                    else:
                        yield file

    def _check_target(
        self,
        container: ContainerFile,
        number: int,
        value: Any,  # noqa: ANN401 - a cell
        texts: tuple[str, ...],
    ) -> FoundFile | UnreadablePath:
        if not isinstance(value, str) or not value.strip():
            return UnreadablePath(f"{container.uri}/{number:09d}", container.where, "the row names no picture", code="missing")
        uri = uri_inside(container.uri, value, TABLE)
        try:
            target = target_of(container.where, value)
            if self._within is not None and is_url(target):
                raise InvalidRequestError(
                    f"a table in a folder of serve.index_folders may not name URLs: {value[:200]!r}",
                    hint="let it name pictures beside itself",
                )
            stat = self._look_at(target)
        except InvalidRequestError as error:
            return UnreadablePath(f"{container.uri}/{number:09d}", container.where, error.message)
        except ValueError as error:  # a NUL in a path, an address that is none
            return UnreadablePath(
                f"{container.uri}/{number:09d}", container.where, f"{value[:200]!r} names no picture: {error}", code="missing"
            )
        except OSError as error:
            if trouble_of(error) in {Trouble.EXPIRED, Trouble.UNREACHABLE} and is_url(target):
                return UnreadablePath(
                    uri, target, source_error(error, _shown(target), doing="read").message, code="unreachable"
                )
            failure = read_failure(error)
            return UnreadablePath(uri, target, failure.message, code=str(failure.details["reason"]))
        token = Stat(stat.size, stat.mtime_ns, stat.etag).token(Url.stored(target)) if is_url(target) else ""
        return FoundFile(uri, target, stat.size, stat.mtime_ns, token=token, captions=texts)


def _stored_pictures(rows: Rows, container: ContainerFile, report: Report) -> Iterator[FoundFile]:
    columns = rows.columns
    number = -1
    for batch in rows.batches():
        names = batch.column(columns.name).to_pylist() if columns.name else [""] * batch.num_rows
        texts = batch.column(columns.text).to_pylist() if columns.text else [None] * batch.num_rows
        for name, text, cell in zip(names, texts, batch.column(columns.picture), strict=True):
            number += 1
            value = cell.as_py()
            data = picture_bytes(value)
            inner = value.get("path") if isinstance(value, dict) else ""
            uri = f"{container.uri}/{number:09d}{_suffix(name or inner)}"
            if not data:
                report(UnreadablePath(uri, container.where, "the row holds no picture", code="empty_file"))
                continue
            yield FoundFile(
                uri=uri,
                locator=str(Inside("row", number, container.where)),
                size=len(data),
                mtime_ns=container.stat.mtime_ns,
                token=hash_bytes(data),
                position=number,
                captions=_texts(text),
            )


def _values(rows: Rows) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    number = -1
    for batch in rows.batches():
        values: pa.Array = batch.column(rows.columns.picture)
        texts = batch.column(rows.columns.text).to_pylist() if rows.columns.text else [None] * batch.num_rows
        for value, text in zip(values.to_pylist(), texts, strict=True):
            number += 1
            yield number, value, _texts(text)


def _suffix(name: Any) -> str:  # noqa: ANN401 - a cell: text, a number or nothing
    base = (
        str(name if name is not None else "").replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].strip().replace("\0", "\ufffd")
    )
    if len(base) > _LONGEST_NAME:  # its beginning, and its end with the extension
        base = f"{base[: _LONGEST_NAME // 2]}…{base[-_LONGEST_NAME // 2 + 1 :]}"
    return f"-{base}" if base else ""


def _texts(cell: Any) -> tuple[str, ...]:  # noqa: ANN401 - a cell: text, a list of texts or nothing
    texts = cell if isinstance(cell, list) else [cell]
    return cleaned(text for text in texts if isinstance(text, str))


def _below(base: str, extensions: tuple[str, ...], depth: int | None, *, followlinks: bool = True) -> Iterator[str]:
    """Yield names of archives and tables below a folder, relative to it, in order. A Lance table is a folder."""

    def refused(error: OSError) -> None:
        raise source_error(error, repr(base)) from error

    seen: set[tuple[int, int]] = set()
    for folder, inner, names in os.walk(base, onerror=refused, followlinks=followlinks):
        status = os.stat(folder)  # noqa: PTH116 - may hold surrogates
        if (status.st_dev, status.st_ino) in seen:  # a link back to a folder above
            inner.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        relative = os.path.relpath(folder, base)
        prefix = "" if relative == os.curdir else f"{relative}/"
        tables = [name for name in inner if name.lower().endswith(LANCE) and LANCE in extensions]
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in tables)
        if depth is not None and prefix.count("/") >= depth:
            inner.clear()
        for name in sorted([*names, *tables]):
            if name.lower().endswith(extensions) and not name.startswith("."):
                yield f"{prefix}{name}"


def _below_url(base: str, filesystems: FileSystems, extensions: tuple[str, ...], depth: int | None) -> Iterator[str]:
    seen: set[str] = set()
    is_lance = LANCE in extensions  # a Lance table is a folder, found by listing its files
    below = None if depth is None else depth + 2 * is_lance
    for entry in list_objects(Url.stored(base), filesystems, lambda _: True, depth=below):
        parts = entry.relative.split("/")
        table = next((number for number, part in enumerate(parts[:-1]) if part.lower().endswith(LANCE)), None)
        name = "/".join(parts[: table + 1]) if table is not None and is_lance else entry.relative
        if name.lower().endswith(extensions) and name not in seen:
            seen.add(name)
            yield name


def _shown(where: str) -> str:
    """Return the path or URL as messages show it, without secrets."""
    return Url.stored(where).shown if is_url(where) else repr(where)
