"""Captions of a picture: they are read from sidecar files, from the picture's own metadata and from a table.

There are three sources: files beside the picture (sources/sidecars.py), what its own metadata says, and a table given on the
command line. A caption is one line: white space is folded, empty lines are dropped, and length and number
are limited.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lodestone.errors import InvalidRequestError
from lodestone.files.urls import bare_of
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.text_encoding import decode_text
from lodestone.imaging.written_texts import written_texts
from lodestone.sources.uris import composed, name_of

_log = logging.getLogger(__name__)

MAX_CAPTION_CHARACTERS = 2_000
MAX_CAPTIONS = 20  # most captions of one picture
MAX_SIDECAR_BYTES = 256 << 10

_HEADER = ["file", "caption"]


class CaptionSource(StrEnum):
    """Source of a caption; the catalog stores it with the caption."""

    SIDECAR = "sidecar"
    XMP = "xmp"
    IPTC = "iptc"
    EXIF = "exif"
    COMMENT = "comment"
    KEYWORDS = "keywords"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption: one line of text about one picture, and where the text comes from."""

    text: str
    source: CaptionSource


class CaptionTable:
    """Captions by file, which `load` reads from a table. Names match files in either spelling of accents."""

    def __init__(self, captions: Mapping[str, tuple[Caption, ...]], *, shared_names: frozenset[str] = frozenset()) -> None:
        self._captions: dict[str, tuple[Caption, ...]] = {}
        for file, texts in captions.items():  # two spellings of one name are one file
            held = self._captions.get(composed(file), ())
            self._captions[composed(file)] = tuple(dict.fromkeys((*held, *texts)))[:MAX_CAPTIONS]
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
        uri = composed(uri)
        if uri in self._captions:
            return self._captions[uri]
        name = composed(name_of(uri))
        return () if name in self._shared_names else self._captions.get(name, ())

    def with_unique_names(self, uris: Iterable[str]) -> CaptionTable:
        """Return the table for the pictures `uris`; a bare name that several of them share matches none of them.

        Without this call `for_uri` gives a bare name's captions to every picture of that name.
        """
        names = Counter(name for uri in uris if (name := composed(name_of(uri))) in self._captions)
        shared = frozenset(name for name, count in names.items() if count > 1)
        for name in sorted(shared):
            _log.warning("captions of %r: %d pictures have that name; give their paths", name, names[name])
        return CaptionTable(self._captions, shared_names=shared)

    def unmatched(self, uris: Iterable[str]) -> list[str]:
        """Return the files of the table that name none of the pictures `uris`, sorted."""
        left = set(self._captions)
        for uri in uris:
            left.discard(composed(uri))
            left.discard(composed(name_of(uri)))
        return sorted(left)


def embedded_captions(embedded: EmbeddedMetadata) -> tuple[Caption, ...]:
    """Return what people wrote inside the picture (see `DecodedImage.embedded`): XMP first, keywords last."""
    unique: dict[str, Caption] = {}
    for text, place in written_texts(embedded):
        if clean := _clean(text):
            unique.setdefault(clean, Caption(clean, CaptionSource(place.value)))
    return tuple(unique.values())[:MAX_CAPTIONS]


def caption_lines(content: bytes) -> tuple[str, ...]:
    """Return the captions in a text file's content, each non-empty line of it; none where it is no text."""
    return cleaned((decode_sidecar(content) or "").splitlines())


def decode_sidecar(content: bytes) -> str | None:
    """Return the text of a text file, of which no more than `MAX_SIDECAR_BYTES` count; None where it is no text."""
    if len(content) >= MAX_SIDECAR_BYTES:
        content = content[:MAX_SIDECAR_BYTES]
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8-sig")
        for cut in range(1, 4):  # in the middle of a character
            with suppress(UnicodeDecodeError):
                return content[:-cut].decode("utf-8-sig")
    return decode_text(content)


def cleaned(texts: Iterable[str]) -> tuple[str, ...]:
    """Turn texts into captions: one line each, of limited length, without duplicates, at most `MAX_CAPTIONS`."""
    return tuple(dict.fromkeys(clean for text in texts if (clean := _clean(text))))[:MAX_CAPTIONS]


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
