"""Captions of a picture: they are read from sidecar files, from the picture's own metadata and from a table.

There are four sources: text files beside the picture (`photo.txt`, `photo.jpg.txt`), XMP and IPTC descriptions inside it, and a
table given on the command line. A caption is one line: white space is folded, empty lines are dropped, and length and number
are limited.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Enclosure, open_file
from lodestone.files.urls import bare_of
from lodestone.imaging.descriptions import iptc_descriptions, xmp_descriptions
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.sources.uris import name_of

_log = logging.getLogger(__name__)

MAX_CAPTION_CHARACTERS = 2_000
MAX_CAPTIONS = 20  # most captions of one picture
_MAX_SIDECAR_BYTES = 256 << 10

_HEADER = ["file", "caption"]


class CaptionSource(StrEnum):
    """Source of a caption; the catalog stores it with the caption."""

    SIDECAR = "sidecar"
    XMP = "xmp"
    IPTC = "iptc"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption: one line of text about one picture, and where the text comes from."""

    text: str
    source: CaptionSource


class CaptionTable:
    """Captions by file, which `load` reads from a table."""

    def __init__(self, captions: Mapping[str, tuple[Caption, ...]], *, shared_names: frozenset[str] = frozenset()) -> None:
        self._captions = dict(captions)
        self._shared_names = shared_names

    def __len__(self) -> int:
        return len(self._captions)

    @classmethod
    def load(cls, path: Path) -> CaptionTable:
        """Read a table with the header `file`, `caption` and any number of rows a file.

        A `.csv` is comma-separated with the usual quotes; anything else is tab-separated with no quoting at all. UTF-8, or
        UTF-16 with a byte order mark. `file` is a picture's uri, or its bare name where only one picture has that name.

        Raises:
            InvalidRequestError: The file is missing, or its encoding, header or a row is wrong; the line is named.
        """
        captions: dict[str, list[Caption]] = {}
        for line, file, caption in _read_rows(_decode_table(path), path):
            text = _clean(caption)
            if not file:
                raise _bad_table(path, line, "the column `file` is empty")
            if text:
                captions.setdefault(file, []).append(Caption(text, CaptionSource.TABLE))
        return cls({file: tuple(texts[:MAX_CAPTIONS]) for file, texts in captions.items()})

    def for_uri(self, uri: str) -> tuple[Caption, ...]:
        """Return the captions of the picture `uri`: those listed under the uri, else those under its bare name.

        A bare name that several pictures share (see `with_unique_names`) gives no captions.
        """
        if uri in self._captions:
            return self._captions[uri]
        name = name_of(uri)
        return () if name in self._shared_names else self._captions.get(name, ())

    def with_unique_names(self, uris: Iterable[str]) -> CaptionTable:
        """Return the table for the pictures `uris`; a bare name that several of them share matches none of them.

        Without this call `for_uri` gives a bare name's captions to every picture of that name.
        """
        names = Counter(name for uri in uris if (name := name_of(uri)) in self._captions)
        shared = frozenset(name for name, count in names.items() if count > 1)
        for name in sorted(shared):
            _log.warning("captions of %r: %d pictures have that name; give their paths", name, names[name])
        return CaptionTable(self._captions, shared_names=shared)

    def unmatched(self, uris: Iterable[str]) -> list[str]:
        """Return the files of the table that name none of the pictures `uris`, sorted."""
        left = set(self._captions)
        for uri in uris:
            left.discard(uri)
            left.discard(name_of(uri))
        return sorted(left)


def gather_captions(
    path: str | os.PathLike[str], uri: str, embedded: EmbeddedMetadata, *, table: CaptionTable | None = None
) -> tuple[Caption, ...]:
    """Return all captions of one picture: from the table first, then sidecar, XMP and IPTC.

    Each text occurs once; at most `MAX_CAPTIONS` are returned.
    """
    candidates = [
        *(table.for_uri(uri) if table is not None else ()),
        *read_sidecars(path),
        *embedded_captions(embedded),
    ]
    unique = {caption.text: caption for caption in reversed(candidates)}  # the first source of a text wins
    return tuple(caption for caption in candidates if unique[caption.text] is caption)[:MAX_CAPTIONS]


def embedded_captions(embedded: EmbeddedMetadata) -> tuple[Caption, ...]:
    """Return the descriptions written inside the picture (see `DecodedImage.embedded`), XMP first."""
    described = [(text, CaptionSource.XMP) for text in xmp_descriptions(embedded)]
    described += [(text, CaptionSource.IPTC) for text in iptc_descriptions(embedded)]
    return tuple(Caption(clean, source) for text, source in described if (clean := _clean(text)))[:MAX_CAPTIONS]


def read_sidecars(path: str | os.PathLike[str], within: Enclosure | None = None) -> tuple[Caption, ...]:
    """Read captions from the text files beside a picture: `photo.jpg.txt`, then `photo.txt`.

    Each non-empty line is a caption. The files must lie in the enclosure, if there is one.
    """
    picture = os.fspath(path)
    names = dict.fromkeys((f"{picture}.txt", f"{os.path.splitext(picture)[0]}.txt"))  # noqa: PTH122 - may hold surrogates
    lines = [line for name in names for line in _read_lines(name, within)]
    return tuple(Caption(line, CaptionSource.SIDECAR) for line in dict.fromkeys(lines))[:MAX_CAPTIONS]


def _read_lines(name: str, within: Enclosure | None) -> Iterator[str]:
    try:
        with open_file(name, within) as file:
            content = file.read(_MAX_SIDECAR_BYTES)
    except (FileNotFoundError, IsADirectoryError):
        return
    except OSError as error:
        if error.errno == errno.EINVAL:  # a folder, or a pipe
            return
        _log.warning("captions beside a picture cannot be read: %s", error)
        return
    yield from caption_lines(content)


def caption_lines(content: bytes) -> tuple[str, ...]:
    """Return the captions in a text file's content; each non-empty line is one."""
    return cleaned(_decode_sidecar(content[:_MAX_SIDECAR_BYTES]).splitlines())


def cleaned(texts: Iterable[str]) -> tuple[str, ...]:
    """Turn texts into captions: one line each, of limited length, without duplicates, at most `MAX_CAPTIONS`."""
    return tuple(dict.fromkeys(clean for text in texts if (clean := _clean(text))))[:MAX_CAPTIONS]


def _decode_sidecar(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(content) == _MAX_SIDECAR_BYTES and error.start > len(content) - 4:  # cut in the middle of a character
            return content[: error.start].decode("utf-8-sig")
        return content.decode("latin-1")


def _clean(text: str) -> str:
    """Return the text as one printable line of limited length."""
    return " ".join(text.replace("\0", " ").split())[:MAX_CAPTION_CHARACTERS].rstrip()


def _decode_table(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        named = bare_of(str(path).replace(":/", "://", 1)) or path  # `Path` removes one of a URL's slashes
        raise InvalidRequestError(
            f"cannot read the captions table {named}: {error.strerror}", hint="give --captions a file of this machine"
        ) from error
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _bad_table(
            path, line, f"byte 0x{content[error.start]:02x} is not UTF-8", hint="save the table as UTF-8"
        ) from error


def _read_rows(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line number, file and caption of each row after the header.

    Lines count from 1; a quoted row that spans several lines has the number of its last.
    """
    is_csv = path.suffix.lower() == ".csv"
    separator = "comma" if is_csv else "tab"
    lines = io.StringIO(text, newline="")
    rows = csv.reader(lines) if is_csv else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = next(rows, [])
        if [cell.strip().lower() for cell in header] != _HEADER:
            raise _bad_table(path, 1, f"the header is {header!r}; expected `file` and `caption`, {separator}-separated")
        for row in rows:
            if len(row) == len(_HEADER):
                yield rows.line_num, row[0], row[1]
            elif row:
                raise _bad_table(path, rows.line_num, f"{len(row)} columns; expected {len(_HEADER)}, {separator}-separated")
    except csv.Error as error:
        raise _bad_table(path, max(rows.line_num, 1), str(error)) from error


def _bad_table(
    path: Path, line: int, problem: str, *, hint: str = "see `lodestone index --help`, --captions"
) -> InvalidRequestError:
    return InvalidRequestError(f"captions table {path}, line {line}: {problem}", hint=hint, line=line)
