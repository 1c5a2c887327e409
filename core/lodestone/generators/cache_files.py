"""File format of a cached guide: an uncompressed NumPy archive, whose checksums show damage."""

from __future__ import annotations

import errno
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TEMPORARY: Final = ".writing-"
SUFFIX: Final = ".guide"
EDITED: Final = "edited"  # fact: whether the guide is a picture of somebody's that an engine changed
_VECTOR, _QUERY = "vector:", "query:"
_FACTS, _PICTURE = "facts", "picture"


class UnreadableEntryError(Exception):
    """Raised for a file that is damaged or is no cache entry."""


@dataclass(frozen=True, slots=True)
class CachedGuide:
    """Content of one file.

    Attributes:
        facts: JSON object.
        picture: JPEG; empty for none.
        vectors: Collection -> (dim,) float32.
        query: Text encoder -> (d,) float32 of the query's words.
    """

    facts: Mapping[str, Any]
    picture: bytes = b""
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    query: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


def encode_entry(entry: CachedGuide) -> bytes:
    """Return the file's content. Raises `TypeError` for facts that are no JSON."""
    arrays: dict[str, NDArray[Any]] = {
        _FACTS: np.frombuffer(json.dumps(dict(entry.facts)).encode(), np.uint8),
        _PICTURE: np.frombuffer(entry.picture, np.uint8),
        **{_VECTOR + name: np.asarray(vector, np.float32) for name, vector in entry.vectors.items()},
        **{_QUERY + name: np.asarray(vector, np.float32) for name, vector in entry.query.items()},
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: it exists completely or not at all. Raises `OSError`."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_entry(path: Path) -> CachedGuide | None:
    """Return a file's content; None when it does not exist.

    Raises:
        UnreadableEntryError: it exists and is damaged.
        OSError: it cannot be read now.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(arrays[_FACTS].tobytes())
        if not isinstance(facts, dict):
            raise UnreadableEntryError(f"{path.name}: no facts")
        return CachedGuide(
            facts=facts,
            picture=arrays[_PICTURE].tobytes(),
            vectors={name.removeprefix(_VECTOR): rows for name, rows in arrays.items() if name.startswith(_VECTOR)},
            query={name.removeprefix(_QUERY): rows for name, rows in arrays.items() if name.startswith(_QUERY)},
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UnreadableEntryError(f"{path.name}: it points outside itself") from error
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise UnreadableEntryError(f"{path.name}: {error}") from error


def remove_edited(folder: Path) -> int:
    """Delete the cached guides that were made of pictures, and return how many there were.

    Nothing tells which picture a guide was made of. Files that do not say whether they were made of one go too.

    Args:
        folder: Folder of the cache; it may be missing.
    """
    removed = 0
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            with np.load(path, allow_pickle=False) as archive:
                drawn = json.loads(archive[_FACTS].tobytes())[EDITED] is False
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError):
            drawn = False
        if not drawn:
            path.unlink(missing_ok=True)
            removed += 1
    return removed
