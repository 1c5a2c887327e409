"""Normal form of the words that people type: of queries, tags and judgements.

All of them are compared and stored in this form, so that the same words always mean the same text.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone_schemas.base import MAX_QUERY_CHARS

_INVISIBLE: Final = frozenset({"Cc", "Cs"})  # Unicode categories: controls, lone surrogates


def well_formed(text: str) -> str:
    """Replace lone surrogates by question marks, because tokenizers refuse them.

    They stand for undecodable bytes of a file name or a command line.
    """
    return text.encode("utf8", "replace").decode("utf8")


def visible(text: str) -> str:
    """Return the words without control characters and lone surrogates, which some catalogs refuse, between single spaces."""
    spaced = "".join(" " if char.isspace() else char for char in text)
    return " ".join("".join(char for char in spaced if unicodedata.category(char) not in _INVISIBLE).split())


def normalise_query(query: str) -> str:
    """Return the words alone: Unicode NFC, without control characters and lone surrogates, separated by single spaces.

    Raises:
        InvalidRequestError: nothing is left, or more than `MAX_QUERY_CHARS` characters are.
    """
    text = visible(unicodedata.normalize("NFC", query))
    # Joiners and other format characters matter inside emoji and many scripts, but alone they say nothing.
    if all(char == " " or unicodedata.category(char) == "Cf" for char in text):
        raise InvalidRequestError("the query is empty", hint="say in a few words what the picture shows")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidRequestError(
            f"the query has {len(text)} characters, at most {MAX_QUERY_CHARS} are allowed",
            hint="say in a few words what the picture shows",
            characters=len(text),
            most=MAX_QUERY_CHARS,
        )
    return text
