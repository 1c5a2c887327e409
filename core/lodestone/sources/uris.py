"""URIs of files inside their root: every name on disk has exactly one URI, and every URI exactly one name.

A URI is the path relative to the root with "/" between the parts, exactly as the file system spells it: any script, NFC or NFD,
newlines and quotes included. On POSIX, names need not be text, while JSON, SQL and Arrow hold only text: a path that is not
valid UTF-8 becomes `bytes:` and its percent-encoded bytes. A path that itself begins with `bytes:` is written that way too, so
the prefix never means two things.
"""

from __future__ import annotations

import os
import unicodedata
from itertools import islice, product
from pathlib import Path, PurePath
from urllib.parse import quote_from_bytes, unquote_to_bytes

BYTES_PREFIX = "bytes:"
_MOST_SPELLINGS = 256


def uri_of(relative: str | PurePath) -> str:
    """Return the URI of a path relative to its root, as `os.scandir` spells it.

    Surrogates in the path stand for bytes that are not UTF-8.
    """
    text = relative.as_posix() if isinstance(relative, PurePath) else relative.replace(os.sep, "/")
    if text.startswith(BYTES_PREFIX) or not _is_utf8(text):
        return BYTES_PREFIX + quote_from_bytes(os.fsencode(text), safe="/")
    return text


def relative_path_of(uri: str) -> str:
    """Return the relative path for the operating system; the inverse of `uri_of`."""
    text = os.fsdecode(unquote_to_bytes(uri[len(BYTES_PREFIX) :])) if uri.startswith(BYTES_PREFIX) else uri
    return text.replace("/", os.sep)


def path_of(root: Path, uri: str) -> Path:
    """Return the path of the file named `uri`, given its root."""
    return root / relative_path_of(uri)


def composed(name: str) -> str:
    """Return a name with every accent as part of its letter, so that names which look the same compare equal."""
    return unicodedata.normalize("NFC", name)


def spellings(name: str) -> tuple[str, ...]:
    """Return the ways in which file systems may spell a name or a path, the given one first; at most 256.

    Accents may be parts of their letters or follow them, and in one path both may occur: a folder made on Linux may hold
    one that a Mac made. Where there are too many ways, each part of the path is spelt in one way.
    """
    whole = composed(name)
    ways = [tuple(dict.fromkeys((letter, unicodedata.normalize("NFD", letter)))) for letter in _letters(whole)]
    if 2 ** sum(len(way) > 1 for way in ways) > _MOST_SPELLINGS:
        parts = whole.split("/")
        ways = [tuple(dict.fromkeys((part, unicodedata.normalize("NFD", part)))) for part in parts]
        mixed = ("/".join(chosen) for chosen in product(*ways))
    else:
        mixed = ("".join(chosen) for chosen in product(*ways))
    uniform = (name, whole, unicodedata.normalize("NFD", name))
    return tuple(dict.fromkeys((*uniform, *islice(mixed, _MOST_SPELLINGS))))[:_MOST_SPELLINGS]


def _letters(text: str) -> list[str]:
    """Return a text's letters, each with the accents that follow it."""
    letters: list[str] = []
    for character in text:
        if letters and unicodedata.combining(character):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def folders_of(uri: str) -> tuple[str, ...]:
    """Return every ancestor folder of a file inside its root, "" (the root itself) first.

    For "a/b/c.jpg" these are ("", "a", "a/b"). A folder is spelt as the URI of the folder itself would be, so a folder of valid
    names reads the same for all files in it.
    """
    parts = relative_path_of(uri).replace(os.sep, "/").split("/")[:-1]
    return ("", *(uri_of("/".join(parts[: i + 1])) for i in range(len(parts))))


def name_of(uri: str) -> str:
    """Return the last part of a URI, for people to read: undecodable bytes are shown as U+FFFD."""
    name = relative_path_of(uri).replace(os.sep, "/").rsplit("/", 1)[-1]
    return os.fsencode(name).decode("utf-8", errors="replace")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # surrogates: bytes that were not UTF-8
        return False
    return True
