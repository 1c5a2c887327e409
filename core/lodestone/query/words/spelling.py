"""Correction of misspelt words: the likeliest known word within one edit (Kernighan, Church and Gale, 1990; Norvig, 2007).

An edit inserts, drops or replaces one letter, or swaps two neighbours; a missing space counts as one too. A candidate's score
is the logarithm of its frequency plus what speaks for it: pictures often show it, the collection's captions or the classifiers'
class names have it, or the slip is a usual one. Only words that nothing knows are looked at: never a known word, a name, a
short word, digits or capitals. The candidates of a word are looked up in sets (about 600 look-ups, a fraction of a
millisecond), so there is no index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from lodestone.text_encoders.english import WORD, bare
from lodestone.text_encoders.plain import without_accents

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHORTEST: Final = 3  # letters of a word that is looked at
_SHORTEST_PLURAL: Final = 4  # letters; "hors" is no plural
_OWN: Final = 50_000_000  # count that a word of the collection has at least: that of a common word


@dataclass(frozen=True, slots=True)
class SpellingRule:
    """Numbers of the correction, chosen on the validation photos (docs/quality.md).

    Attributes:
        shortest: Letters that a word needs to be corrected; in shorter ones, only two swapped letters are swapped back.
        rarest: Count below which a word is no correction.
        own: Bonus of a word that the collection's captions or tags have, in units of the natural logarithm of a count.
        named: Bonus of a word in the classifiers' class names.
        visible: Bonus of a word that says what pictures show.
        first: Penalty where the first letter differs.
        neighbour: Bonus of a neighbouring key, a doubled letter, or two letters swapped.
        split: Penalty of a missing space.
    """

    shortest: int = 4
    rarest: int = 50_000
    own: float = 4.0
    named: float = 2.0
    visible: float = 4.0
    first: float = 1.0
    neighbour: float = 1.0
    split: float = 9.0


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words that corrections are judged by.

    Attributes:
        counts: English word -> count.
        named: Words of the classifiers' class names.
        visible: Words that say what pictures show.
        encoder: Whole words of the text encoder's vocabulary; known, but no corrections.
    """

    counts: Mapping[str, int]
    named: AbstractSet[str] = frozenset()
    visible: AbstractSet[str] = frozenset()
    encoder: AbstractSet[str] = frozenset()

    def knows(self, word: str) -> bool:
        """Return True if a case-folded word is known; lists of English words have its Latin letters without accents."""
        bare_word = without_accents(word)
        return any(one in words for one in (word, bare_word) for words in (self.counts, self.named, self.encoder))


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected text.

    Attributes:
        text: The text with its corrections.
        words: Misspelt word -> what stands in its place, as written.
    """

    text: str
    words: Mapping[str, str]


def is_known(word: str, lexicon: Lexicon) -> bool:
    """Return True if the lexicon has a word, or if it is a number or the plural of an English word."""
    folded = without_accents(bare(word))
    plural_of = folded[:-1] if folded.endswith("s") and len(folded) > _SHORTEST_PLURAL else ""
    return lexicon.knows(folded) or word.isdigit() or plural_of in lexicon.counts


def correct(
    text: str,
    lexicon: Lexicon,
    *,
    own: Callable[[], AbstractSet[str]] = frozenset,
    rule: SpellingRule | None = None,
) -> Correction | None:
    """Return the text with misspelt words corrected; None where there is nothing to correct.

    Args:
        text: A text in English.
        lexicon: Words that are known anyway.
        own: Returns the collection's own words, case-folded; called only where a word is unknown to the lexicon.
        rule: None for the fitted numbers.
    """
    rule = rule or SpellingRule()
    matches = list(WORD.finditer(text))
    suspects = [(place, match) for place, match in enumerate(matches) if _may_be_misspelt(match.group(), place, len(matches))]
    suspects = [(place, match) for place, match in suspects if not is_known(match.group(), lexicon)]
    if not suspects:
        return None
    own_words = own()
    corrected, changes, end = [], {}, 0
    for _, match in suspects:
        word = match.group()
        best = None if bare(word) in own_words else _best(bare(word), lexicon, own_words, rule)
        if best is None:
            continue
        ending = word[len(bare(word)) :]  # 's
        shown = (best.capitalize() if word[0].isupper() else best) + ending
        changes[word] = shown
        corrected += [text[end : match.start()], shown]
        end = match.end()
    return Correction("".join([*corrected, text[end:]]), changes) if changes else None


def _may_be_misspelt(word: str, place: int, count: int) -> bool:
    """Return False for what is never corrected: short words, digits, other letters, abbreviations and names."""
    folded = bare(word)
    if len(folded) < _SHORTEST or not (folded.isascii() and folded.isalpha()):
        return False
    rest = word[1 : len(folded)]
    if not rest.islower():
        return False  # NASA, iPhone, McDonald
    return word[0].islower() or (place == 0 and count > 1)  # a capital inside a text begins a name


def _best(word: str, lexicon: Lexicon, own: AbstractSet[str], rule: SpellingRule) -> str | None:
    scored: dict[str, float] = {}
    edits = _edits(word, rule) if len(word) >= rule.shortest else _swaps(word, rule)
    for candidate, bonus in edits:
        count = max(lexicon.counts.get(candidate, 0), _OWN if candidate in own else 0, 1 if candidate in lexicon.named else 0)
        if not count or (count < rule.rarest and candidate not in own and candidate not in lexicon.named):
            continue
        score = math.log(max(count, rule.rarest)) + bonus
        score += rule.own * (candidate in own) + rule.named * (candidate in lexicon.named)
        score += rule.visible * (candidate in lexicon.visible)
        scored[candidate] = max(scored.get(candidate, -math.inf), score)
    for cut in range(2, len(word) - 1) if len(word) > rule.shortest else ():
        left, right = word[:cut], word[cut:]
        counts = lexicon.counts.get(left, 0), lexicon.counts.get(right, 0)
        if min(counts) >= _OWN:
            visible = rule.visible * (left in lexicon.visible and right in lexicon.visible)
            scored[f"{left} {right}"] = math.log(min(counts)) + visible - rule.split
    return min(scored, key=lambda candidate: (-scored[candidate], candidate)) if scored else None


def _edits(word: str, rule: SpellingRule) -> Iterator[tuple[str, float]]:
    """Yield every string within one edit of a word, with what speaks for the edit; some come twice."""
    for place in range(len(word) + 1):
        left, right = word[:place], word[place:]
        start = -rule.first if place == 0 else 0.0
        before = left[-1:]
        for letter in _LETTERS:
            doubled = letter in {before, right[:1]}
            yield left + letter + right, start + rule.neighbour * doubled
            if right and letter != right[0]:
                yield left + letter + right[1:], start + rule.neighbour * (letter in _NEXT_TO[right[0]])
        if right:
            doubled = right[0] in {before, right[1:2]}
            yield left + right[1:], start + rule.neighbour * doubled
    yield from _swaps(word, rule)


def _swaps(word: str, rule: SpellingRule) -> Iterator[tuple[str, float]]:
    for place in range(len(word) - 1):
        swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        yield swapped, rule.neighbour - rule.first * (place == 0)


def _keys_next_to(letter: str) -> frozenset[str]:
    row = next(number for number, keys in enumerate(_ROWS) if letter in keys)
    column = _ROWS[row].index(letter)
    places = [
        (row, column - 1),
        (row, column + 1),
        *((other, column + step) for other in (row - 1, row + 1) for step in (-1, 0, 1)),
    ]
    return frozenset(_ROWS[r][c] for r, c in places if 0 <= r < len(_ROWS) and 0 <= c < len(_ROWS[r]))


_NEXT_TO: Final[Mapping[str, frozenset[str]]] = {letter: _keys_next_to(letter) for letter in _LETTERS}
