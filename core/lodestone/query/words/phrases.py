"""Phrases by which English says how a picture should change: "make it night", "like this but without people", "X instead of Y".

Beside a picture, such words name what to look for and what to avoid; the verbs around them say nothing about a picture. So
"change it to X", "nothing but X" and "remove not-X" are all the words X, "no Y" is Y to avoid, and "X instead of Y" is both.
The rules look at words alone, in order: phrases end at a comma, at "but", and where "and" is followed by such a phrase. What is
avoided is divided at "or"; a comma ends it, but in "without X, Y or Z". Words in which no rule finds anything stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lodestone.text_encoders.plain import tidied

_PICTURE: Final = r"(?:picture|photo|photograph|image|one|scene|shot)"
_IT: Final = rf"(?:it|this|that|them|these|those|(?:this|that|the) (?:whole )?{_PICTURE})"
_END: Final = r"(?=[\s-]|$)[\s-]*"
_SIGNS: Final = r"(?:entry|exit|smoking|parking|trespassing|swimming|fishing|dogs allowed)"


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_REFERENCE: Final = _rule(
    rf"(?:(?:(?:show me|exactly|just|much|more|something|pictures?|photos?|images?|ones?|the same|looks?) )*"
    rf"(?:like|similar to|as in) {_IT}|(?:the |exactly the )?same(?: (?:{_PICTURE}|thing|place))?|{_IT}|similar)"
    r"(?= (?:at|in|on|with|without|during|under|by|except|only|just)\b|$) ?"
)
"""Words for the picture itself, before what is said of it. They are left out: the picture is a part of its own."""

_LIKE: Final = _rule(r"(?:(?:something|one|ones|a picture|pictures) )?like (?:this|that|these|those)(?: |$)")
_FILLER: Final = _rule(r"(?:and|but|except that|please|now|then|also|only|just|instead|with|having|there (?:is|are))(?: |$)")
_WITH: Final = _rule(r"^(?:with|having) ")  # alone it changes nothing: "with a face"
_AFFIRMED: Final = _rule(r"(?:nothing (?:but|except(?: for)?|other than)|not (?:only|just|merely))(?: |$)")
_MADE: Final = _rule(
    rf"(?:(?:make|turn|change|convert|transform) {_IT}(?: (?:into|to|be|look like|look|show|have)\b)*|make"
    r"|add|include|insert|show me|give (?:it|him|her|them)|(?:i want|i would like|i'd like)(?: to see)?"
    r"|(?:it|this) (?:is|was|should be|should have)|it's)(?: |$)"
)
_NEGATION: Final = _rule(
    rf"(?:without|with no|no longer|no more(?! than\b)|not|no(?![\s-]{_SIGNS}\b)|remove|delete|omit|exclude|excluding|avoid"
    r"|minus|(?:less|fewer)(?! than\b)|(?:leave|leaving) out"
    r"|take (?:out|away|off)|get rid of|(?:drop|lose)(?= (?:the|all|any) )"
    rf"|instead of|rather than|except(?: for)?|(?:(?:any|every)thing|all) (?:but|except(?: for)?|other than)){_END}"
)
_NON: Final = _rule(r"non-")
_NOBODY: Final = _rule(r"(?:nobody|no[ -]one)\b.*")
_REPLACED: Final = _rule(
    r"(?:(?:and |but |please )*)(?:(?:change|turn|convert|transform) (?P<a>.+?) (?:in)?to"
    r"|replace (?P<b>.+?) (?:with|by)|swap (?P<c>.+?) (?:for|with)) (?P<new>.+)"
)
_ASPECT: Final = _rule(
    rf"{_IT}|.*\b(?:background|foreground|colou?rs?|weather|time(?: of day)?|season|style|setting|place|location"
    r"|light|lighting|sky)"
)
"""What "change it to X" changes without naming anything that the new picture should not show."""

_DENIED: Final = _rule(
    r"\b(?:(?:it|there) )?(?:do|does|should|must|is|are|can|may)(?: not|n't)(?: (?:be|show|have|include|contain))?\b"
)
_CUE: Final = (
    r"(?:without|with no|with nothing but|not|no(?: longer| more)?|remove|delete|omit|exclude|excluding|minus|leave out|nobody"
    r"|make|turn|change|replace|swap|add|instead of|rather than)"
)
_CLAUSES: Final = _rule(
    rf"\s*[,;.](?:\s+|$)|(?<!nothing)(?<!anything)(?<!everything)(?<!\ball) but (?!for\b)|^but | and (?={_CUE}\b)"
)
_TURNS: Final = _rule(
    r" (?=(?:without|with no|with nothing but|not|no longer|minus|instead of|rather than|excluding)\b)"
    r"|(?<!thing)(?<!\ball) (?=except\b)"
)
_TAIL: Final = _rule(rf"(?: (?:(?:from|in|on) {_IT}|instead|please|at all|any ?more|too|as well))+$")
_ARTICLE: Final = _rule(r"^(?:(?:any|all|of|the|those|these|a|an) )+")
_EMPTY: Final = _rule(r"(?:(?:any|all|of|the|those|these|a|an|that|which|(?:any|every)?things?)(?: |$))*")
_OR: Final = _rule(r" n?or ")
_ITEM: Final = rf"(?:(?! (?:but|and|n?or|{_CUE})\b)[^,;.])+"
_ITEMS: Final = rf"(?: (?!(?:at|in|on|with|during|under|by|as|like|n?or|{_CUE})\b){_ITEM}"
_LISTED: Final = _rule(
    rf"\b(?:(?:without|remove|delete|omit|excluding|exclude|minus|leave out|get rid of)\b{_ITEM}(?:,{_ITEMS}))+"
    rf"|(?<!with )\bno\b(?![\s-]{_SIGNS}\b){_ITEM}(?:,(?! (?:an?|the) ){_ITEMS}))+),?(?= n?or )"
)
"""What is avoided, as a list that ends in "or": "without X, Y or Z". In "not X, a Y or a Z" the comma begins what is wanted."""


@dataclass(frozen=True, slots=True)
class Change:
    """What words say about a picture.

    Attributes:
        wanted: What it should show, as one text; empty for nothing.
        avoided: What it should not show.
    """

    wanted: str
    avoided: tuple[str, ...] = ()


def change_of(text: str) -> Change | None:
    """Return how words change the picture that they are given with; None where no rule finds anything in them.

    Args:
        text: Normalised words.
    """
    wanted: list[str] = []
    avoided: list[str] = []
    plain = _DENIED.sub("not", tidied(text))
    plain = _LISTED.sub(lambda match: match[0].rstrip(",").replace(",", " or"), plain)
    clauses = [clause for clause in _CLAUSES.split(plain) if clause]
    for clause in clauses:
        replaced = _REPLACED.fullmatch(clause)
        if replaced is not None:
            old = replaced["a"] or replaced["b"] or replaced["c"]
            if not _ASPECT.fullmatch(old):
                avoided += _without_article(old)
            clause = replaced["new"]  # noqa: PLW2901 - what is left to read
        negative = False
        for words in _TURNS.split(clause):
            content, negative = _read(words, negative)
            if content:
                if negative:
                    avoided += _without_article(content)
                else:
                    wanted.append(content)
                negative = False
    if not wanted and not avoided:
        return Change("") if clauses and all(_REFERENCE.fullmatch(clause) for clause in clauses) else None
    said = [clause.strip(" .!") for clause in clauses]
    if not avoided and wanted in (said, [_WITH.sub("", one) for one in said]) and not text.casefold().startswith("but "):
        return None
    return Change(", ".join(dict.fromkeys(wanted)), tuple(dict.fromkeys(avoided)))


def affirmed(avoided: str) -> str | None:
    """Return what words ask for if they are to be avoided and are a negation themselves: "not X" is X; None for others."""
    content, negative = _read(avoided, True)
    return None if negative or not content else content


def _read(words: str, negative: bool) -> tuple[str, bool]:
    """Return the content of a phrase, and whether it is to be avoided.

    Args:
        words: A phrase without clauses.
        negative: Whether what was read before it avoids it.
    """
    rest = words.strip(" .!")
    while True:
        if _NOBODY.fullmatch(rest):
            return "people", not negative
        if match := _AFFIRMED.match(rest) or _REFERENCE.match(rest) or _LIKE.match(rest) or _MADE.match(rest):
            pass
        elif match := _NEGATION.match(rest) or (_NON.match(rest) if negative else None):
            negative = not negative
        else:
            match = _FILLER.match(rest)
        if not match:
            content = _TAIL.sub("", rest)
            return "" if _EMPTY.fullmatch(content) else content, negative
        rest = rest[match.end() :]


def _without_article(content: str) -> list[str]:
    return [words for part in _OR.split(content) if (words := _ARTICLE.sub("", part, count=1))]
