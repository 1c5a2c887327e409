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
from typing import Final

from lodestone.files.beneath import Enclosure, open_file
from lodestone.imaging.exif import EmbeddedMetadata
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
_TAKEOUT_CHARACTERS: Final = 46  # of a name before `.json`: longer ones are cut
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


@dataclass(slots=True)
class SidecarReader:
    """Reads the captions beside pictures, and remembers the folder that it listed last.

    Attributes:
        unreadable: Paths of sidecars that are no text, in the order in which they were met.
    """

    unreadable: list[str] = field(default_factory=list)
    _listed: FolderSidecars | None = None

    def captions(self, path: str | os.PathLike[str], within: Enclosure | None = None) -> tuple[Caption, ...]:
        """Return the captions beside a picture, each text once. Sidecars must lie in the enclosure, if there is one."""
        folder, picture = os.path.split(os.fspath(path))
        if self._listed is None or self._listed.folder != folder:
            self._listed = FolderSidecars.of(folder)
        texts = [text for name in self._listed.beside(picture) for text in self._texts(name, within)]
        return tuple(Caption(text, CaptionSource.SIDECAR) for text in dict.fromkeys(texts))[:MAX_CAPTIONS]

    def _texts(self, name: str, within: Enclosure | None) -> tuple[str, ...]:
        content = _content(name, within)
        if not content:
            return ()
        texts = _READERS[os.path.splitext(name)[1].lower()](content)  # noqa: PTH122 - may hold surrogates
        if texts is None:
            self.unreadable.append(name)
            _log.warning("captions beside a picture cannot be read: %r is no text", name)
            return ()
        return cleaned(texts)


def read_sidecars(path: str | os.PathLike[str], within: Enclosure | None = None) -> tuple[Caption, ...]:
    """Return the captions beside one picture; many are read by a `SidecarReader`, which lists a folder once."""
    return SidecarReader().captions(path, within)


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
        lengths = range(min(len(title), _TAKEOUT_CHARACTERS), min(len(whole), _TAKEOUT_CHARACTERS) + 1)
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


def _of_text(content: bytes) -> Iterable[str] | None:
    text = decode_sidecar(content)
    return None if text is None else text.splitlines()


def _of_xmp(content: bytes) -> Iterable[str] | None:
    return [text for text, _ in written_texts(EmbeddedMetadata(xmp=content))]


def _of_json(content: bytes) -> Iterable[str] | None:
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return None
    description = facts.get("description") if isinstance(facts, dict) else None
    return description.splitlines() if isinstance(description, str) and not is_noise(description) else ()


def _folded(name: str) -> str:
    """Return a name under which all its spellings meet: capitals and composed letters do not count."""
    return unicodedata.normalize("NFC", name).casefold()


_READERS: Final[Mapping[str, Callable[[bytes], Iterable[str] | None]]] = {
    ".txt": _of_text,
    ".xmp": _of_xmp,
    ".json": _of_json,
}
