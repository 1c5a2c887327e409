"""Paths that a backup may name: those of the kinds of files that it holds, inside the home.

A backup may be forged. It must not plant settings, the address of a service, or files outside the home.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from lodestone.errors import ConfigurationError

_PART: Final = re.compile(r"[^\x00-\x1f\x7f/\\:]+")
_PART_BYTES: Final = 200  # file systems take 255, and unfinished files have longer names
_PARTS: Final = 16
_ARTIFACTS: Final = "artifacts"
_THUMBNAIL: Final = re.compile(
    r"[0-9a-f]{2}/[0-9a-f]+\.jpg|packs/[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9_-]{2}/[A-Za-z0-9][A-Za-z0-9_-]*\.thumbnails"
)
_EMBEDDINGS: Final = ".parquet"


def require_artifact(path: str) -> None:
    """Require the path of a learnt artifact, relative to the home.

    Raises:
        ConfigurationError: It is another one.
    """
    parts = path.split("/")
    if not (len(parts) > 1 and parts[0] == _ARTIFACTS and _is_plain(parts)):
        raise _forged(path)


def require_embeddings(path: str) -> None:
    """Require the path of a Parquet file, relative to the area of the embeddings.

    Raises:
        ConfigurationError: It is another one.
    """
    if not (path.endswith(_EMBEDDINGS) and _is_plain(path.split("/"))):
        raise _forged(path)


def require_thumbnail(path: str) -> None:
    """Require the path of a thumbnail or of a pack of them, relative to the area of the thumbnails.

    Raises:
        ConfigurationError: It is another one.
    """
    if not _THUMBNAIL.fullmatch(path):
        raise _forged(path)


def require_table(path: str, *, folder: str) -> None:
    """Require the path of a table of the snapshot in this folder of the backup.

    Raises:
        ConfigurationError: It is another one.
    """
    if not (path.startswith(f"{folder}/") and path.endswith(_EMBEDDINGS) and _is_plain(path.split("/"))):
        raise _forged(path)


def require_different(paths: Iterable[str]) -> None:
    """Require that no two paths mean the same file on any file system, and that none is a folder of another.

    Raises:
        ConfigurationError: Two do.
    """
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        parts = key.split("/")
        above = ["/".join(parts[:length]) for length in range(1, len(parts))]
        twin = seen.get(key) or folders.get(key) or next((seen[folder] for folder in above if folder in seen), None)
        if twin is not None:
            raise ConfigurationError(
                f"the backup names a file twice: {twin!r} and {path!r}",
                hint="it is damaged or forged: restore another snapshot; nothing was restored",
            )
        seen[key] = path
        folders.update(dict.fromkeys(above, path))


def _is_plain(parts: list[str]) -> bool:
    """Return whether these are names that a file system takes and a terminal shows, none hidden, upwards, or of a drive."""
    return len(parts) <= _PARTS and all(_is_name(part) for part in parts)


def _is_name(part: str) -> bool:
    if not _PART.fullmatch(part) or part.startswith("."):
        return False
    # Also no half of a surrogate pair, and nothing that hides or turns what follows.
    return not any(unicodedata.category(one).startswith("C") for one in part) and len(part.encode()) <= _PART_BYTES


def _forged(path: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backup names a file that no backup holds: {path!r}",
        hint="it is damaged or forged: restore another snapshot; nothing was restored",
    )
