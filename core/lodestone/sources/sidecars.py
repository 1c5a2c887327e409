"""Files beside a picture in which other programs keep what people wrote about it.

There are three kinds: text files (`photo.txt`, `photo.jpg.txt`), XMP (`photo.xmp`, `photo.jpg.xmp`), and the JSON of Google
Takeout (`photo.jpg.json`, `photo.jpg.supplemental-metadata.json`, whose names it cuts). Capitals of their names do not count.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from lodestone.files.beneath import Enclosure, open_file
from lodestone.imaging.dates import DateSource, FileDate, is_doubtful
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.metadata import stated_date
from lodestone.imaging.written_texts import is_noise, written_texts
from lodestone.sources.captions import (
    MAX_CAPTIONS,
    MAX_SIDECAR_BYTES,
    Caption,
    CaptionSource,
    cleaned,
    decode_sidecar,
)

_log = logging.getLogger(__name__)

SIDECAR_SUFFIXES: Final = (".txt", ".xmp", ".json")
_MAX_BYTES: Final = 1 << 20  # of XMP and JSON
_TAKEOUT: Final = ".supplemental-metadata"
_TAKEOUT_CHARACTERS: Final = 46  # of a name before `.json`: longer ones are cut, unless a program has renamed them
_SECONDS: Final = re.compile(r"-?\d{1,12}", re.ASCII)
_NUMBERED: Final = re.compile(r"(.*)(\(\d+\))(\.[^.]*)?")


@dataclass(slots=True)
class FolderSidecars:
    """Sidecars of one folder by their names.

    Attributes:
        folder: The folder.
        names: Folded name -> names on disk.
    """

    folder: str
    names: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, folder: str) -> FolderSidecars:
        """List a folder; one that cannot be listed has none."""
        names: dict[str, tuple[str, ...]] = {}
        try:
            with os.scandir(folder or os.curdir) as listing:
                for name in sorted(entry.name for entry in listing if entry.name.lower().endswith(SIDECAR_SUFFIXES)):
                    names[_folded(name)] = (*names.get(_folded(name), ()), name)
        except OSError as error:
            _log.info("files beside pictures cannot be listed: %s", error)
        return cls(folder, names)

    def beside(self, picture: str) -> Iterator[str]:
        """Yield the paths of the sidecars of a picture, given its name in the folder: texts first, then XMP, then JSON."""
        for candidate in _candidates(picture) if self.names else ():
            for name in self.names.get(_folded(candidate), ()):
                yield os.path.join(self.folder, name)  # noqa: PTH118 - may hold surrogates


@dataclass(frozen=True, slots=True)
class Beside:
    """Holds what the sidecars of one picture say.

    Attributes:
        captions: Each text once, at most `MAX_CAPTIONS`.
        date: When it was taken; the first of the sidecars that says it.
        place: Latitude and longitude in degrees, north and east positive.
    """

    captions: tuple[Caption, ...] = ()
    date: FileDate | None = None
    place: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class _Told:
    """What one sidecar says."""

    texts: Iterable[str] = ()
    date: FileDate | None = None
    place: tuple[float, float] | None = None


@dataclass(slots=True)
class SidecarReader:
    """Reads the captions beside pictures, and remembers the folder that it listed last.

    Attributes:
        unreadable: Paths of sidecars that are no text, in the order in which they were met.
    """

    unreadable: list[str] = field(default_factory=list)
    _listed: FolderSidecars | None = None

    def read(self, path: str | os.PathLike[str], within: Enclosure | None = None) -> Beside:
        """Return what the files beside a picture say. They must lie in the enclosure, if there is one."""
        folder, picture = os.path.split(os.fspath(path))
        if self._listed is None or self._listed.folder != folder:
            self._listed = FolderSidecars.of(folder)
        told = [told for name in self._listed.beside(picture) if (told := self._told(name, within)) is not None]
        texts = dict.fromkeys(text for one in told for text in cleaned(one.texts))
        return Beside(
            tuple(Caption(text, CaptionSource.SIDECAR) for text in texts)[:MAX_CAPTIONS],
            next((one.date for one in told if one.date is not None), None),
            next((one.place for one in told if one.place is not None), None),
        )

    def _told(self, name: str, within: Enclosure | None) -> _Told | None:
        content = _content(name, within)
        if not content:
            return None
        told = _READERS[os.path.splitext(name)[1].lower()](content)  # noqa: PTH122 - may hold surrogates
        if told is None:
            self.unreadable.append(name)
            _log.warning("captions beside a picture cannot be read: %r is no text", name)
        return told


def read_sidecars(path: str | os.PathLike[str], within: Enclosure | None = None) -> tuple[Caption, ...]:
    """Return the captions beside one picture; many are read by a `SidecarReader`, which lists a folder once."""
    return SidecarReader().read(path, within).captions


def _candidates(picture: str) -> Iterator[str]:
    """Yield the names that a picture's sidecars may have."""
    stem, extension = os.path.splitext(picture)  # noqa: PTH122 - may hold surrogates
    for suffix in (".txt", ".xmp"):
        yield from dict.fromkeys((f"{picture}{suffix}", f"{stem}{suffix}"))
    titles = [(picture, "")]
    if numbered := _NUMBERED.fullmatch(stem):  # Takeout moves the number of `photo(1).jpg` behind the rest
        titles.append((f"{numbered[1]}{extension}", numbered[2]))
    if stem.endswith("-edited"):
        titles.append((f"{stem.removesuffix('-edited')}{extension}", ""))
    for title, number in titles:
        whole = f"{title}{_TAKEOUT}"
        lengths = range(min(len(title), _TAKEOUT_CHARACTERS), len(whole) + 1)
        yield from (f"{whole[:length]}{number}.json" for length in reversed(lengths))


def _content(name: str, within: Enclosure | None) -> bytes:
    try:
        with open_file(name, within) as file:
            return file.read(_MAX_BYTES if not name.lower().endswith(".txt") else MAX_SIDECAR_BYTES)
    except (FileNotFoundError, IsADirectoryError):
        return b""
    except OSError as error:
        if error.errno != errno.EINVAL:  # a folder, or a pipe
            _log.warning("captions beside a picture cannot be read: %s", error)
        return b""


def _of_text(content: bytes) -> _Told | None:
    text = decode_sidecar(content)
    return None if text is None else _Told(text.splitlines())


def _of_xmp(content: bytes) -> _Told | None:
    embedded = EmbeddedMetadata(xmp=content)
    return _Told([text for text, _ in written_texts(embedded)], stated_date(embedded))


def _of_json(content: bytes) -> _Told | None:
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return _Told()
    description = facts.get("description")
    texts = description.splitlines() if isinstance(description, str) and not is_noise(description) else ()
    return _Told(texts, _takeout_date(facts.get("photoTakenTime")), _takeout_place(facts.get("geoData")))


def _takeout_date(taken: object) -> FileDate | None:
    """Return Takeout's date, which is absolute: nothing says what the clock showed where the picture was taken."""
    seconds = taken.get("timestamp") if isinstance(taken, dict) else None
    if not isinstance(seconds, str | int) or not _SECONDS.fullmatch(str(seconds)):
        return None
    try:
        date = FileDate(datetime.fromtimestamp(int(seconds), UTC).replace(tzinfo=None), source=DateSource.SIDECAR)
    except (ValueError, OverflowError, OSError):
        return None
    return None if is_doubtful(date) else date


def _takeout_place(place: object) -> tuple[float, float] | None:
    """Return Takeout's latitude and longitude; 0, 0 says that it knows none."""
    if not isinstance(place, dict):
        return None
    latitude, longitude = (
        float(value) if isinstance(value := place.get(name), int | float) else 999.0 for name in ("latitude", "longitude")
    )
    is_known = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0)
    return (latitude, longitude) if is_known else None


def _folded(name: str) -> str:
    """Return a name under which all its spellings meet: capitals and composed letters do not count."""
    return unicodedata.normalize("NFC", name).casefold()


_READERS: Final[Mapping[str, Callable[[bytes], _Told | None]]] = {
    ".txt": _of_text,
    ".xmp": _of_xmp,
    ".json": _of_json,
}
