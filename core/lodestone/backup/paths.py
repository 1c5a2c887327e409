"""Paths that a backup may name: those of the kinds of files that it holds, inside the home.

A backup may be forged. It must not plant settings, the address of a service, or files outside the home.
"""

from __future__ import annotations

import re
from typing import Final

from lodestone.errors import ConfigurationError

_PART: Final = re.compile(r"[^\x00-\x1f\x7f/\\:]+")
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


def _is_plain(parts: list[str]) -> bool:
    """Return whether these are names, none of which is hidden, leads upwards, or means a drive."""
    return all(_PART.fullmatch(part) and not part.startswith(".") for part in parts)


def _forged(path: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backup names a file that no backup holds: {path!r}",
        hint="it is damaged or forged: restore another snapshot; nothing was restored",
    )
