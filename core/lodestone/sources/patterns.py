"""Patterns of file names, as shells and WebDataset write them.

`*` and `?` match within a name, `**` across folders; there are `[abc]`, `{a,b}` and `{000..099}`, WebDataset's notation for
numbered shards. The empty pattern matches every name. Names are compared as text and no path is opened, so `..` and an
absolute path match such names only. A pattern becomes one regular expression whose length grows with the pattern, not with the
product of its braces.

That is why neither braceexpand nor wcmatch is used; both expand braces into a list of patterns first. braceexpand 0.1.7 took
46 s for `{0..99999999}` before its first name, wcmatch 12.0 over 8 s for `{0..99999}.tar` or for sixteen times `{a,b}`, and
rejected `{000..999}/{000..999}.tar` (a million shards) at a limit of 200,000. Here these take 1.4 s at most. Both also read a
backslash as an escape, and braceexpand rejects a name with one brace (`x{y`). Many wildcards between repeated letters
(`*a*a*a*a*b`) still take polynomial time here; wcmatch is fast for these and as slow for `**/a/**/a/**/a/**/b`.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Final

from lodestone.errors import InvalidRequestError

MAGIC: Final = re.compile(r"[*?\[{]")
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
_MOST: Final = 100_000  # numbers in one range
_FOLDERS: Final = "(?:.*/)?"
_ANYTHING: Final = ".*"
_IN_NAME: Final = "[^/]*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, or a list of literal names, relative to a folder or prefix.

    Attributes:
        text: The pattern; several are separated by newlines.
        literal: Whether `text` holds names instead of patterns.
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
        """Return the number of folders between the base and the deepest name that can match; None for any number."""
        return max(line.count("/") for line in self.text.split("\n")) if self.text and "**" not in self.text else None

    def matches(self, relative: str) -> bool:
        """Return whether the pattern matches the name or a folder above it."""
        if not self.text:
            return True
        if self._compiled is None:
            parts = relative.split("/")  # a shell may have expanded to thousands of names, and every picture is compared
            return any("/".join(parts[:end]) in self._names for end in range(1, len(parts) + 1))
        return self._compiled.fullmatch(relative) is not None


def _regex(pattern: str) -> str:
    """Return a regular expression for the names and for everything below them."""
    regex, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            regex, at = _wildcard(regex, _FOLDERS), at + 3
            continue
        if pattern.startswith("**", at):
            regex, at = _wildcard(regex, _ANYTHING), at + 2
            continue
        end = pattern.find({"[": "]", "{": "}"}.get(char, "\0"), at + 1)
        if char == "*":
            regex = _wildcard(regex, _IN_NAME)
        elif char == "?":
            regex += "[^/]"
        elif char == "[" and end > 0:
            regex += fnmatch.translate(pattern[at : end + 1]).removeprefix("(?s:").removesuffix(")\\Z")
            at = end
        elif char == "{" and end > 0:
            regex += _alternatives(pattern[at + 1 : end])
            at = end
        else:
            regex += re.escape(char)
        at += 1
    return f"(?:{regex}(?:/.*)?)"


def _wildcard(regex: str, wildcard: str) -> str:
    """Append a wildcard unless the one before includes it: repeated wildcards take exponential time to match."""
    including = (wildcard,) if wildcard == _FOLDERS else (wildcard, _ANYTHING)
    return regex if regex.endswith(including) else regex + wildcard


def _alternatives(inner: str) -> str:
    numbers = _RANGE.fullmatch(inner)
    if numbers is None:
        return f"(?:{'|'.join(re.escape(part) for part in inner.split(','))})"
    first, last = int(numbers[1]), int(numbers[2])
    if not 0 <= last - first < _MOST:
        raise InvalidRequestError(f"the range {{{inner}}} has no numbers, or over {_MOST:,}", hint="write {000..099}, or use *")
    width = len(numbers[1]) if numbers[1].startswith("0") else 0
    return f"(?:{'|'.join(f'{number:0{width}d}' for number in range(first, last + 1))})"
