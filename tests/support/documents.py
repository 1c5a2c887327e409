"""Pages of the documentation as tests read them: fenced blocks, command lines, headings and links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)[^\n`]*$")
_COMMENT = re.compile(r"(?:^|\s)#[^'\"]*$")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: Path of the page in the repository.
        line: Line of its first fence, from 1.
        language: Word behind the first fence; empty where there is none.
        code: Text between the fences, without their indentation.
    """

    page: str
    line: int
    language: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Statement:
    """One command line of a block, with all the lines that it goes on over.

    Attributes:
        place: Page and line, for messages.
        text: The command line; a heredoc's text is part of it.
    """

    place: str
    text: str


@cache
def pages() -> tuple[Path, ...]:
    """Every page that people are to read: those at the top, those of the documentation and those beside the code."""
    beside = [ROOT / "client" / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "web" / "README.md"]
    documentation = (path for path in (ROOT / "docs").rglob("*.md") if not _is_generated(path))
    return (*sorted(ROOT.glob("*.md")), *sorted(documentation), *filter(Path.exists, beside))


def _is_generated(path: Path) -> bool:
    return path.is_relative_to(ROOT / "docs" / "reference")


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order.

    Raises:
        ValueError: the last fence is not closed.
    """
    found: list[Block] = []
    opened: tuple[int, re.Match[str], list[str]] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            opened = (number, fence, []) if fence else None
            continue
        start, first, lines = opened
        if fence and fence["fence"].startswith(first["fence"]) and not fence["language"]:
            found.append(Block(name_of(page), start, first["language"], "".join(f"{text}\n" for text in lines)))
            opened = None
        else:
            lines.append(line.removeprefix(first["indent"]))
    if opened is not None:
        raise ValueError(f"{name_of(page)}:{opened[0]}: a block without an end")
    return found


@cache
def all_blocks() -> tuple[Block, ...]:
    """Return the fenced blocks of all pages."""
    return tuple(block for page in pages() for block in blocks_of(page))


def statements(block: Block) -> Iterator[Statement]:
    """Yield the command lines of a block of a shell; of `console`, those behind a prompt."""
    lines = block.code.splitlines()
    at = 0
    while at < len(lines):
        first = at
        text = lines[at]
        at += 1
        if block.language == "console":
            if not text.startswith("$ "):
                continue
            text = text.removeprefix("$ ")
        while _goes_on(text) and at < len(lines):
            text += "\n" + lines[at]
            at += 1
        if (heredoc := _HEREDOC.search(text)) is not None:
            while at < len(lines) and not text.endswith("\n" + heredoc[1]):
                text += "\n" + lines[at]
                at += 1
        if text.strip() and not text.lstrip().startswith("#"):
            yield Statement(f"{block.page}:{block.line + 1 + first}", text)


def _goes_on(text: str) -> bool:
    """Whether a command line ends in a backslash or a pipe, or within quotes."""
    last = without_comment(text.rpartition("\n")[2]).rstrip()
    return last.endswith(("\\", "|", "&&")) or _open_quote(text)


def _open_quote(text: str) -> bool:
    quote = ""
    for before, letter in zip(" " + text, text, strict=False):
        if quote:
            quote = "" if letter == quote else quote
        elif letter == "#" and before.isspace():
            return False
        elif letter in "'\"" and before != "\\":
            quote = letter
    return bool(quote)


def without_comment(line: str) -> str:
    """Return a line without a comment at its end."""
    return _COMMENT.sub("", line)


_INLINE_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<!\\)!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+(?:\([^()\s]*\))?)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")


def prose_of(text: str) -> list[tuple[int, str]]:
    """Return the numbered lines of a page that are not within a fenced block."""
    found, fence = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and match["fence"].startswith(fence) and not match["language"]:
            fence = ""
        elif not fence:
            found.append((number, line))
    return found


def links_of(text: str) -> list[tuple[int, str]]:
    """Return (line, target) of every link and picture of a page."""
    return [
        (number, link["target"]) for number, line in prose_of(text) for link in _LINK.finditer(_INLINE_CODE.sub("code", line))
    ]


def anchors_of(text: str) -> set[str]:
    """Return the anchors that a page's headings get from mkdocs."""
    used: set[str] = set()
    for _, line in prose_of(text):
        if heading := _HEADING.match(line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
            anchor = _slug(re.sub(r"[`*]", "", plain))
            repeated = next(
                number for number in range(len(used) + 1) if (f"{anchor}_{number}" if number else anchor) not in used
            )
            used.add(f"{anchor}_{repeated}" if repeated else anchor)
    return used


def _slug(heading: str) -> str:
    """Return the anchor of a heading, as the `toc` extension of Python-Markdown writes it."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
