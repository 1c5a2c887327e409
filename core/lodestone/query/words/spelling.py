"""Correction of misspelt words: the likeliest known word within one edit (Kernighan, Church and Gale, 1990; Norvig, 2007).

An edit inserts, drops or replaces one letter, or swaps two neighbours; a missing space counts as one too. A candidate's
score grows with its frequency and with what speaks for it: pictures often show it, or the collection's captions or the
classifiers' class names have it. An edit that is rare costs: there are 25 letters to hit by mistake, but one to leave out. A
short word is within an edit of many others by chance, so it needs a better candidate than a long one. Without one the word
stays, because it may be a name, or a word that no list has.

Only words that nothing knows are looked at: never a known word, a compound of two common words, a name, a word of one or
two letters, digits or capitals. The candidates of a word are looked up in sets (about 600 look-ups, a fraction of a
millisecond), so there is no index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from lodestone.text_encoders.english import WORD, bare
from lodestone.text_encoders.plain import without_accents

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHORTEST: Final = 3  # letters of a word that is looked at, and of a correction
_SHORTEST_PLURAL: Final = 4  # letters; "hors" is no plural
_SHORTEST_SPLIT: Final = 5  # letters of a word that may lack a space
_SHORTEST_PART: Final = 4  # letters of each word of a compound
_COMMON_PART: Final = 2_000_000  # count of each word of a compound
_OWN: Final = 50_000_000  # count that a word of the collection has at least: that of a common word
_VISIBLE: Final = 1_000_000  # count that a word has at least which says what pictures show


@dataclass(frozen=True, slots=True)
class SpellingRule:
    """Numbers of the correction, chosen on slips in captions of the validation photos and on true words (docs/quality.md).

    Scores are in units of `frequency` natural logarithms of a count, beside that of the rarest correction.

    Attributes:
        rarest: Count below which a word is no correction.
        frequency: Weight of the logarithm of a word's count.
        own: Bonus of a word that the collection's captions or tags have.
        named: Bonus of a word in the classifiers' class names.
        visible: Bonus of a word that says what pictures show.
        first: Penalty where the first letter differs.
        doubled: Bonus where one of two equal letters is missing ("runing").
        replaced: Penalty of a wrong letter.
        neighbour: Penalty of a wrong letter whose key is beside the right one.
        extra: Penalty of a letter too many.
        touched: Penalty of a letter too many whose key is beside that of the letter before or after it.
        repeated: Penalty of a letter too many that is that of before or after it.
        split: Penalty of a missing space.
        least: Score that a correction needs for a word of 0, 1, 2 and so on letters; the last holds for all longer ones.
    """

    rarest: int = 50_000
    frequency: float = 0.7
    own: float = 4.0
    named: float = 1.0
    visible: float = 4.0
    first: float = 0.5
    doubled: float = 0.5
    replaced: float = 3.3
    neighbour: float = 2.0
    extra: float = 3.3
    touched: float = 2.5
    repeated: float = 1.5
    split: float = 7.0
    least: tuple[float, ...] = (math.inf, math.inf, math.inf, 5.0, 4.0, 2.0, 0.5, -0.5, -1.5, -2.5, -4.0)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words that corrections are judged by.

    Attributes:
        counts: English word -> count.
        further: Word that `counts` lacks -> a rough count, or 0 where it is known but no correction.
        named: Words of the classifiers' class names.
        visible: Words that say what pictures show.
        encoder: Whole words of the text encoder's vocabulary; known, but no corrections.
    """

    counts: Mapping[str, int]
    further: Mapping[str, int] = field(default_factory=dict)
    named: AbstractSet[str] = frozenset()
    visible: AbstractSet[str] = frozenset()
    encoder: AbstractSet[str] = frozenset()

    def knows(self, word: str) -> bool:
        """Return True if a case-folded word is known; lists of English words have its Latin letters without accents."""
        return self._has(word) or (not word.isascii() and self._has(without_accents(word)))

    def lists(self, word: str) -> bool:
        """Return True if a list of words has a word in small letters, whatever the text encoder knows."""
        return word in self.counts or word in self.further or word in self.named or word in self.visible

    def is_plural(self, word: str) -> bool:
        """Return True if a word in small letters is an English word with an s."""
        if len(word) <= _SHORTEST_PLURAL or not word.endswith("s") or word.endswith("ss"):
            return False
        return word[:-1] in self.counts or word[:-1] in self.further

    def is_compound(self, word: str) -> bool:
        """Return True if a word in small letters is two common words of four letters or more in one ("waterslide").

        One of them must say what pictures show: "fromtier" is a slip. So is "colorfull", which is a known word but for a
        doubled letter.
        """
        cuts = range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1)
        parts = ((word[:cut], word[cut:]) for cut in cuts)
        return any(
            self._is_common(left) and self._is_common(right) and (left in self.visible or right in self.visible)
            for left, right in parts
        ) and not any(self._has(other) for other in _doublings(word))

    def _is_common(self, word: str) -> bool:
        return word in self.visible or self.counts.get(word, 0) >= _COMMON_PART

    def _has(self, word: str) -> bool:
        return word in self.counts or word in self.further or word in self.encoder or word in self.named or word in self.visible


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
    """Return True if the lexicon has a word, or if it is a number, the plural of an English word, or a compound of two."""
    folded = without_accents(bare(word))
    return lexicon.knows(folded) or word.isdigit() or lexicon.is_plural(folded) or lexicon.is_compound(folded)


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
    for candidate, bonus in _edits(word, rule):
        if not (lexicon.lists(candidate) or candidate in own) or len(candidate) < _SHORTEST:
            continue  # nearly all of them
        count = _count(candidate, lexicon, own)
        if count < rule.rarest and candidate not in lexicon.named:
            continue
        score = _weighed(count, rule) + bonus + rule.own * (candidate in own)
        score += rule.named * (candidate in lexicon.named) + rule.visible * (candidate in lexicon.visible)
        scored[candidate] = max(scored.get(candidate, -math.inf), score)
    for cut in range(2, len(word) - 1) if len(word) >= _SHORTEST_SPLIT else ():
        left, right = word[:cut], word[cut:]
        count = min(lexicon.counts.get(left, 0), lexicon.counts.get(right, 0))
        if count >= _OWN:
            visible = rule.visible * (left in lexicon.visible and right in lexicon.visible)
            scored[f"{left} {right}"] = _weighed(count, rule) + visible - rule.split
    best = min(scored, key=lambda candidate: (-scored[candidate], candidate), default=None)
    least = rule.least[min(len(word), len(rule.least) - 1)]
    return best if best is not None and scored[best] >= least else None


def _count(word: str, lexicon: Lexicon, own: AbstractSet[str]) -> int:
    count = lexicon.counts.get(word) or lexicon.further.get(word, 0)
    if word in own:
        return max(count, _OWN)
    return max(count, _VISIBLE) if word in lexicon.visible else count


def _weighed(count: int, rule: SpellingRule) -> float:
    return rule.frequency * math.log(max(count, rule.rarest) / rule.rarest)


def _edits(word: str, rule: SpellingRule) -> Iterator[tuple[str, float]]:
    """Yield every string within one edit of a word, with what speaks for the edit; some come twice."""
    for place in range(len(word) + 1):
        left, right = word[:place], word[place:]
        start = -rule.first if place == 0 else 0.0
        doubled = left[-1:] + right[:1]
        for letter in _LETTERS:
            yield left + letter + right, start + rule.doubled if letter in doubled else start
        if right:
            replaced, rest = right[0], right[1:]
            near, beside = _NEXT_TO[replaced], {left[-1:], rest[:1]}
            for letter in _LETTERS:
                if letter != replaced:
                    yield left + letter + rest, start - (rule.neighbour if letter in near else rule.replaced)
            touched = rule.touched if beside & near else rule.extra
            yield left + rest, start - (rule.repeated if replaced in beside else touched)
    for place in range(len(word) - 1):
        swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        yield swapped, -rule.first * (place == 0)


def _doublings(word: str) -> Iterator[str]:
    """Yield a word with a letter doubled, and with one of two equal letters left out, for each of its letters."""
    for place, letter in enumerate(word):
        yield word[:place] + letter + word[place:]
        if word[place + 1 : place + 2] == letter:
            yield word[:place] + word[place + 1 :]


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
