"""Names of files, and other texts from elsewhere, as people see them: without anything that does something to a terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final
from unicodedata import category

_BIDI_CONTROLS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # could reorder what follows
_SHORT: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\'"}
_RAW_IN_JSON: Final = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # what `json` does not escape of the hidden ones
_SURROGATES: Final = "Cs"  # bytes of a name that are no UTF-8, as Python reads names


def is_hidden(character: str) -> bool:
    """Return whether a character does something to a terminal instead of being seen there."""
    return category(character) == "Cc" or character in _BIDI_CONTROLS


def printable(text: str) -> str:
    """Replace control characters (a file name may hold escape sequences) and what cannot be encoded as UTF-8."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return "".join("\N{REPLACEMENT CHARACTER}" if is_hidden(c) else c for c in safe)


def shown_name(path: str) -> str:
    r"""Return a file's name or path as it is shown: as it is, or like `$'two\nlines.jpg'`, which a shell reads as this file.

    Names are quoted that hold control characters (line breaks, escape sequences) or bytes that are no UTF-8.
    """
    if not any(is_hidden(c) or category(c) == _SURROGATES for c in path):
        return path
    return f"$'{''.join(_escaped(c) for c in path)}'"


def brief_path(path: str) -> str:
    """Return a path as it may be typed here: relative to the working folder, or below `~` where a shell needs no quotes."""
    for folder, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        try:
            rest = str(Path(path).relative_to(folder))
        except ValueError:
            continue
        if not prefix or shlex.quote(rest) == rest:
            return prefix + rest
    return path


def inert_json(document: str) -> str:
    """Return a JSON document that means the same, and holds nothing that does something to a terminal."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if is_hidden(character) or category(character) == _SURROGATES:
        return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    return character


def path_fields(path: str | None) -> dict[str, str]:
    """Return the JSON fields of a path: `path`, or `path_url` (percent-encoded) where it is no valid text; none for None."""
    if path is None:
        return {}
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return {"path_url": Path(path).as_uri()}
    return {"path": path}


def name_of(uri: str) -> str:
    """Return the path that a picture's uri stands for, with its bytes as they are on disk."""
    from lodestone.sources.uris import relative_path_of

    return relative_path_of(uri)
