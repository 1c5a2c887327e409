"""Interpretation of `lodestone index TEXT`: a folder or file, a bucket's prefix, or tables or archives with pictures.

The text is tried in this order: a URL, by its last part's extension; a path that exists, likewise, and a folder without
pictures by the tables or archives in it; a path that does not exist and has `*`, `?`, `[…]` or `{000..099}` in its last parts,
as a pattern.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Enclosure
from lodestone.files.filesystems import FileSystems
from lodestone.files.urls import Url, is_url
from lodestone.sources.base import Source
from lodestone.sources.containers import ContainerSource
from lodestone.sources.file_kinds import is_picture_name
from lodestone.sources.locators import FOLDER, LABELS, LANCE, OBJECT, TABLE, TABLE_EXTENSIONS, TAR, TAR_EXTENSIONS, root_path
from lodestone.sources.objects import ObjectSource, list_objects
from lodestone.sources.patterns import MAGIC, Pattern

_COMPRESSED: Final = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True, slots=True)
class Named:
    """Kind and place of the pictures that a text names.

    Attributes:
        kind: `folder`, `object`, `table` or `tar`.
        base: Where uris start from: an absolute path, or a URL as roots store it.
        names: Names below `base`, "" for all.
        literal: True when `names` are names, one per line, and not patterns.
    """

    kind: str
    base: str
    names: str = ""
    literal: bool = False

    @property
    def root_path(self) -> str:
        """Return the path of the root that it belongs to, if it becomes a root of its own."""
        return root_path(self.kind, self.base)

    @property
    def pattern(self) -> Pattern:
        """Return the pattern that selects names below `base`."""
        return Pattern(self.names, literal=self.literal)


def locate(text: str | Path, *, filesystems: FileSystems | None = None) -> Named:
    """Return what a text names.

    A folder on disk with pictures, or anything unknown, is a `folder`, to be checked by the caller.

    Raises:
        InvalidRequestError: a URL that cannot be used or holds credentials, or an archive that must be unpacked first.
        SourceError: the place cannot be listed.
    """
    text = os.fspath(text)
    if text.lower().startswith("file://"):
        text = text[len("file://") :]
    if text.lower().rstrip("/").endswith(_COMPRESSED):
        raise InvalidRequestError(
            f"{text!r} is compressed: its pictures cannot be reached one by one",
            hint="unpack it, or write an uncompressed .tar",
        )
    if is_url(text):
        return _located_url(text, filesystems or FileSystems())
    return _located_path(os.path.abspath(text))  # noqa: PTH100 - not resolve(): a linked root keeps its name


def together(named: Sequence[Named]) -> list[Named]:
    """Merge tables and archives of one folder that were named one by one (as shells do for a pattern)."""
    merged: dict[tuple[str, str, bool], Named] = {}
    complete_bases = {(item.kind, item.base) for item in named if not item.names}
    for item in named:
        if item.names and (item.kind, item.base) in complete_bases:
            continue
        key = (item.kind, item.base, item.literal)
        before = merged.get(key)
        names = "\n".join(dict.fromkeys((*(before.names.split("\n") if before else ()), *item.names.split("\n"))))
        merged[key] = replace(item, names=names)
    return list(merged.values())


def source_of(named: Named, filesystems: FileSystems, within: Enclosure | None = None) -> Source:
    """Return a source that lists what is named, for a first look."""
    if named.kind == OBJECT:
        return ObjectSource(Url.stored(named.base), filesystems, pattern=named.pattern)
    return ContainerSource(named.base, named.kind, filesystems, pattern=named.pattern, within=within)


def _kind_of(name: str) -> str | None:
    lower = name.lower()
    return TAR if lower.endswith(TAR_EXTENSIONS) else TABLE if lower.endswith(TABLE_EXTENSIONS) else None


def _located_url(text: str, filesystems: FileSystems) -> Named:
    url = Url.typed(text)
    if MAGIC.search(url.key) and not url.is_web:
        parts = url.key.split("/")
        first = next(number for number, part in enumerate(parts) if MAGIC.search(part))
        base = replace(url, key="/".join(parts[:first]))
        return _matching(_kind_of(url.key) or OBJECT, str(base), "/".join(parts[first:]))
    kind = _kind_of(url.name)
    if kind is not None and (url.name.lower().endswith(LANCE) or not _is_prefix(url, filesystems)):
        return Named(kind, str(url.parent), url.name, literal=True)
    if kind is None and is_picture_name(url.name):
        return Named(OBJECT, str(url.parent), url.name, literal=True)
    if url.is_web:
        raise InvalidRequestError(
            f"{text!r}: web servers list nothing", hint="name a picture, a .tar or a .parquet, or list the addresses in a table"
        )
    return Named(kind or _kind_below(url, filesystems), str(url))


def _is_prefix(url: Url, filesystems: FileSystems) -> bool:
    """Return whether a URL that looks like a table's is a folder of part files, as Spark writes them."""
    if url.is_web:
        return False
    try:
        system, path = filesystems.at(url)
        return not system.get_file_info(path).is_file and system.get_file_info(path).type.name == "Directory"
    except OSError:
        return False  # listing it reports the error


def _kind_below(url: Url, filesystems: FileSystems) -> str:
    """Return the kind of a prefix: `object` at the first picture, else that of the tables or archives in it."""
    other = OBJECT
    for entry in list_objects(url, filesystems, lambda _: True):
        if is_picture_name(entry.relative.rsplit("/", 1)[-1]):
            return OBJECT
        other = _kind_of(entry.relative) or (TABLE if f"{LANCE}/" in entry.relative else other)
    return other


def _located_path(path: str) -> Named:
    name = Path(path).name
    kind = _kind_of(name)
    if Path(path).is_dir():
        if kind == TABLE and name.lower().endswith(LANCE):
            return Named(TABLE, str(Path(path).parent), name, literal=True)
        folder_kind = _kind_in(path)
        return Named(folder_kind, path)
    if kind is not None and Path(path).exists():
        return Named(kind, str(Path(path).parent), name, literal=True)
    if MAGIC.search(path) and not Path(path).exists() and _kind_of(path):
        parts = Path(path).parts
        first = next(number for number, part in enumerate(parts) if MAGIC.search(part))
        return _matching(_kind_of(path) or FOLDER, str(Path(*parts[:first])), "/".join(parts[first:]))
    return Named(FOLDER, path)


def _matching(kind: str, base: str, names: str) -> Named:
    """Return what a pattern names; a root's own default pattern means everything below the base."""
    return Named(kind, base, "" if names == LABELS.get(kind) else names)


def _kind_in(folder: str) -> str:
    """Return `folder` at the first picture, so that folders of pictures answer at once; else the kind of what is in it."""
    other, inner = FOLDER, [folder]
    while inner:
        below: list[str] = []
        with suppress(OSError), os.scandir(inner.pop()) as listing:  # indexing it reports the error
            for entry in listing:
                if entry.name.startswith("."):
                    continue
                if not entry.is_dir():
                    if is_picture_name(entry.name):
                        return FOLDER
                    other = _kind_of(entry.name) or other
                elif entry.name.lower().endswith(LANCE):
                    other = TABLE
                elif not entry.is_symlink():
                    below.append(entry.path)
        inner += sorted(below, reverse=True)
    return other
