"""Which names does a pattern mean? `*` and `?` within a name, `**` across folders, `[abc]`, `{a,b}` and `{000..099}`.

The last is WebDataset's spelling of numbered shards. The empty pattern means every name.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Final

from lodestone.errors import InvalidRequestError

MAGIC: Final = re.compile(r"[*?\[{]")
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
_MOST: Final = 100_000  # numbers of one range


@dataclass(frozen=True, slots=True)
class Pattern:
    """Names relative to a folder or prefix.

    Attributes:
        text: The pattern; several are separated by newlines.
        literal: `text` is names, not patterns.
    """

    text: str
    literal: bool = False
    _compiled: re.Pattern[str] | None = field(default=None, repr=False, compare=False)
    _names: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.literal:
            object.__setattr__(self, "_names", frozenset(self.text.split("\n")))
        elif self.text:
            object.__setattr__(self, "_compiled", re.compile("|".join(_regex(line) for line in self.text.split("\n"))))

    @property
    def depth(self) -> int | None:
        """Folders between the base and the deepest name that it can mean; None: any number."""
        return max(line.count("/") for line in self.text.split("\n")) if self.text and "**" not in self.text else None

    def matches(self, relative: str) -> bool:
        """Whether the name, or a folder above it, is meant."""
        if not self.text:
            return True
        if self._compiled is None:
            parts = relative.split("/")  # a shell may have named thousands, and every picture is asked about
            return any("/".join(parts[:end]) in self._names for end in range(1, len(parts) + 1))
        return self._compiled.fullmatch(relative) is not None


def _regex(pattern: str) -> str:
    """A regular expression for the names, and for what lies below them."""
    found, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            found, at = f"{found}(?:.*/)?", at + 3
            continue
        if pattern.startswith("**", at):
            found, at = f"{found}.*", at + 2
            continue
        end = pattern.find({"[": "]", "{": "}"}.get(char, "\0"), at + 1)
        if char == "*":
            found += "[^/]*"
        elif char == "?":
            found += "[^/]"
        elif char == "[" and end > 0:
            found += fnmatch.translate(pattern[at : end + 1]).removeprefix("(?s:").removesuffix(")\\Z")
            at = end
        elif char == "{" and end > 0:
            found += _alternatives(pattern[at + 1 : end])
            at = end
        else:
            found += re.escape(char)
        at += 1
    return f"(?:{found}(?:/.*)?)"


def _alternatives(inner: str) -> str:
    numbers = _RANGE.fullmatch(inner)
    if numbers is None:
        return f"(?:{'|'.join(re.escape(part) for part in inner.split(','))})"
    first, last = int(numbers[1]), int(numbers[2])
    if not 0 <= last - first < _MOST:
        raise InvalidRequestError(f"the range {{{inner}}} has no numbers, or over {_MOST:,}", hint="write {000..099}, or use *")
    width = len(numbers[1]) if numbers[1].startswith("0") else 0
    return f"(?:{'|'.join(f'{number:0{width}d}' for number in range(first, last + 1))})"
