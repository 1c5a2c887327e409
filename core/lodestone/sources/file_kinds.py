"""Kinds of files by name and by first bytes: pictures, what certainly is none, and what must be looked into.

A name that every camera and program uses for pictures is believed, and so is one of a film, a sound or a document. A file of
any other name is known by its first bytes: `photo`, `photo.jpg_large` and `photo.jpg~` are pictures if they begin like one.
"""

from __future__ import annotations

import os
from typing import Final

from lodestone.files.beneath import Enclosure, open_file
from lodestone.imaging.raw import RAW_EXTENSIONS
from lodestone.imaging.sniff import HEAD_BYTES, name_unsupported
from lodestone.sources.content import refusal_of

PICTURE_EXTENSIONS = (
    frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"})
    | frozenset({".heic", ".heif", ".hif", ".avif", ".avifs"})
    | RAW_EXTENSIONS
)

PICTURES: Final = "pictures"
UNKNOWN: Final = "files of unknown names"
OTHERS: Final = "other files"
UNFINISHED: Final = "unfinished files"
UNREADABLE: Final = "files that cannot be read"

UNFINISHED_ENDINGS: Final = (".tmp", ".part", ".partial", ".crdownload", ".download")
"""Endings of names that browsers and tools give to files which they still write."""

_KINDS: Final = {
    "videos": "mp4 m4v mov qt avi mkv webm mpg mpeg m2v mts m2ts ts 3gp 3g2 wmv asf flv f4v vob mod tod insv lrv ogv rm",
    "sounds": "mp3 m4a m4b wav flac ogg oga opus aac wma aif aiff amr mid midi ape",
    "documents": "pdf doc docx xls xlsx ppt pptx odt ods odp rtf md html htm epub mobi pages numbers key tex ps eps ai indd",
    "texts": "txt",
    "sidecars": "xmp aae thm json xml yaml yml ini pp3 dop cos on1 rmd",
    "archives": "zip tar gz tgz bz2 xz zst 7z rar iso dmg img",
    "tables": "csv tsv parquet parq pq lance arrow feather",
    OTHERS: "db sqlite sqlite3 db-wal db-shm log py pyc js css c h cpp hpp java sh bat exe dll so o a lib lrcat ttf otf",
}
_BY_EXTENSION: Final = {f".{ending}": kind for kind, endings in _KINDS.items() for ending in endings.split()}


def is_picture_name(name: str) -> bool:
    """Return whether a file of this name may be a picture: it has a picture's extension and is not hidden."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_EXTENSIONS  # noqa: PTH122


def kind_of_name(name: str) -> str:
    """Return the kind of a file by its name: `PICTURES`, `UNKNOWN` where its content decides, or the kind of something else."""
    lower = name.lower()
    if lower.endswith(UNFINISHED_ENDINGS):
        return UNFINISHED
    extension = os.path.splitext(lower)[1]  # noqa: PTH122 - many files
    return PICTURES if extension in PICTURE_EXTENSIONS else _BY_EXTENSION.get(extension, UNKNOWN)


def kind_of_head(head: bytes) -> str:
    """Return the kind of a file that begins with `head` (`HEAD_BYTES` of it): `PICTURES` if it can be decoded."""
    if refusal_of(head) is None:
        return PICTURES
    unsupported = name_unsupported(head)
    return OTHERS if unsupported is None else f"{unsupported} files"


def kind_of_file(path: str | os.PathLike[str], within: Enclosure | None = None) -> str:
    """Return the kind of a local file, by its name, or else by its first bytes, for which it is opened.

    Args:
        path: The file.
        within: The folder that it must lie in; None for none.
    """
    kind = kind_of_name(os.path.basename(path))  # noqa: PTH119 - many files
    if kind != UNKNOWN:
        return kind
    try:
        with open_file(path, within) as file:
            return kind_of_head(file.read(HEAD_BYTES))
    except OSError:  # nothing says that it is a picture, so it is counted and is no failure
        return UNREADABLE
