"""How is a file named inside its root, so that every name on disk has one URI and every URI one name?

A URI is the path relative to the root with "/" between the parts, exactly as the file system spells it: any script, NFC or NFD,
newlines and quotes included. Names need not be text on POSIX, and JSON, SQL and Arrow hold text alone: a path that is not valid
UTF-8 becomes `bytes:` and its percent-encoded bytes. A path that itself begins with `bytes:` is written that way too, so the
prefix never means two things.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from urllib.parse import quote_from_bytes, unquote_to_bytes

BYTES_PREFIX = "bytes:"


def uri_of(relative: str | PurePath) -> str:
    """The URI of a path relative to its root, as `os.scandir` spells it (surrogates stand for bytes that are not UTF-8)."""
    text = relative.as_posix() if isinstance(relative, PurePath) else relative.replace(os.sep, "/")
    if text.startswith(BYTES_PREFIX) or not _is_utf8(text):
        return BYTES_PREFIX + quote_from_bytes(os.fsencode(text), safe="/")
    return text


def relative_path_of(uri: str) -> str:
    """The inverse of `uri_of`: the relative path to hand to the operating system."""
    text = os.fsdecode(unquote_to_bytes(uri[len(BYTES_PREFIX) :])) if uri.startswith(BYTES_PREFIX) else uri
    return text.replace("/", os.sep)


def path_of(root: Path, uri: str) -> Path:
    """Where the file named `uri` lies, given its root."""
    return root / relative_path_of(uri)


def folders_of(uri: str) -> tuple[str, ...]:
    """Every ancestor folder of a file inside its root, "" (the root itself) first: ("", "a", "a/b") for "a/b/c.jpg".

    A folder is spelt as the URI of the folder itself would be, so a folder of valid names reads the same for all files in it.
    """
    parts = relative_path_of(uri).replace(os.sep, "/").split("/")[:-1]
    return ("", *(uri_of("/".join(parts[: i + 1])) for i in range(len(parts))))


def name_of(uri: str) -> str:
    """The last part of a URI, for people to read: undecodable bytes are shown as U+FFFD."""
    name = relative_path_of(uri).replace(os.sep, "/").rsplit("/", 1)[-1]
    return os.fsencode(name).decode("utf-8", errors="replace")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # surrogates: bytes that were not UTF-8
        return False
    return True
