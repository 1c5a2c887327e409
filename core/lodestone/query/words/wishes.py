"""Wishes in a query that words alone cannot fulfil: to leave something out, or to take pictures of some dates.

Models compare words with what pictures show: "a cat, not a dog" finds dogs, and "photos from 2019" finds prints of numbers. The
rules here find such wishes in English words and say which option fulfils them. The words are searched as they are. A rule needs
the wording of a wish, because "not", "no" and years stand in names as well: "Not Your Mother's", "No. 5", "1984 poster".
"""

from __future__ import annotations

import calendar
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from lodestone.text_encoders.plain import tidied
from lodestone_schemas.searching import QueryNote

_FIRST_YEAR: Final = 1826  # of the oldest photograph
_MOST_WORDS: Final = 4  # of what is to be left out; more are a sentence
_MONTHS: Final = {name.casefold(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS_SHORT: Final = {name.casefold(): number for number, name in enumerate(calendar.month_abbr) if name}
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first month, north of the equator


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_PHOTOS: Final = r"(?:photos?|photographs?|pictures?|images?|pics?|shots?|snapshots?)"
_SIGNED: Final = (
    r"(?:parking|smoking|entry|exit|trespassing|swimming|fishing|diving|littering|stopping|turns?|u-turn|left|right"
    r"|way|through|admittance|dogs allowed|dumping|cycling|overtaking|vacancy|vacancies|time|one|body|where|more|less|longer"
    r"|man's|country|doubt|name|logo|war|nukes|pain|fear|filter|surrender|problem|idea|matter|evil|escape|limit|limits)"
)
"""What "no" forbids on signs, or belongs to in names and sayings."""
_SPEAKER: Final = r"(?<!\bdr )(?<!\bdr\. )(?<!\bmr )(?<!\bsay )(?<!\bsays )(?<!\bsaying )(?<!\bor )(?<!\byes )(?<!\bthe )"
_THING: Final = r"(?P<thing>(?!(?:in|on|at|from|by|with|to)\b)[^\W\d_][^,;:.!?()]*)"
_LEFT_OUT: Final = (
    _rule(rf"\bwithout (?!a trace\b|you\b|borders\b|me\b|limits?\b|end\b|a doubt\b|words\b|warning\b|further\b){_THING}"),
    _rule(rf"(?:[,;] ?|\b(?:but|and) )not (?!only\b|just\b|your?\b|my\b|yet\b|so\b|too\b|very\b|guilty\b|found\b){_THING}"),
    _rule(rf"^not (?:an?|any) {_THING}"),
    _rule(rf"(?:^|[,;] ?|\b(?:with|but|and|have|has|there (?:is|are)) ){_SPEAKER}no (?!{_SIGNED}\b){_THING}"),
    _rule(rf"(?<=[a-z]) {_SPEAKER}no (?P<thing>people|persons?|humans?|text|animals|dogs|cats|cars|buildings|faces)\b"),
    _rule(
        rf"\b(?:except(?: for)?|excluding|other than|everything but(?! the girl\b)|anything but|leave out|leaving out) {_THING}"
    ),
    _rule(rf"\b(?:instead of|rather than) {_THING}"),
    _rule(rf"\b(?:do not|don't) (?:show|include|want)(?: me)?(?: to see)? (?!again\b){_THING}"),
    _rule(rf"\b(?:that|which|who) (?:is|are|do|does|has|have)(?: not|n't)(?: (?:show|have|include|contain))? {_THING}"),
    _rule(r"(?:^|\s)-(?P<thing>[^\W\d_]{3,})(?=\s|$)"),
)
_NOBODY: Final = _rule(r"\b(?<!\bmr )(?<!\bmr\. )(?<!\bi am )(?:nobody|no[ -]one)\b(?!['\w-])")
_TAIL: Final = _rule(
    r"\s+(?:in|on|at|from|by|with|during|under|near|behind|inside|outside|for|while|that|which|who|but|and|is|are|was|were"
    r"|above|below|standing|sitting|walking|running|of 1[89]|of 20|please)\b.*"
)
_ARTICLE: Final = _rule(r"^(?:(?:any|all|of|the|those|these|a|an|some|other|is|are|being) )+")
_OR: Final = _rule(r"(?: or | nor )")

_YEAR: Final = r"(?P<{}>1[89]\d\d|20\d\d)"
_COUNTED: Final = (
    r"(?!\d|[-:/.,]\d|:|%|°|'|\s?(?:feet|foot|ft|met(?:er|re)s?|m|km|miles?|mm|cm|px|pixels?|dpi|pieces|people|dollars|euros|bc|p|k"
    r"|street|st|avenue|ave|road|rd|main|park|kg|g|watts?|w|horsepower|hp|volts?|rpm|lbs?|years?|degrees|movies?|films?|novels?"
    r"|world cup|olympics|lego)\b)"
)
"""What makes a number after "from" or "in" no year."""
_MONTH: Final = (
    r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
)
_DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_IN: Final = r"(?:from|in|of|since|after|before|until|till|during|on|by|around|taken)"
_ONE: Final = _YEAR.format("year")
_BETWEEN: Final = _rule(
    rf"\b(?:from|between|of|in)? ?{_YEAR.format('first')} ?(?:-|to|and|until|till|through) ?{_YEAR.format('last')}\b{_COUNTED}"
)
_EXACT: Final = _rule(rf"\b(?:(?P<how>{_IN}) )?(?:the )?{_ONE}-(?P<month>0\d|1[0-2])(?:-(?P<day>[0-3]\d))?\b(?![-\d])")
_IN_MONTH: Final = _rule(
    rf"\b(?:(?P<how>{_IN}) )?(?:the )?(?:{_DAY} (?:of )?)?{_MONTH}(?: {_DAY.replace('day', 'other')})?,? (?:of )?"
    rf"{_ONE}\b{_COUNTED}"
)
_IN_YEAR: Final = _rule(
    rf"\b(?P<how>from|in|since|after|before|until|till|during|taken in) (?:the year |early |late |mid )?{_ONE}\b{_COUNTED}"
)
_OF_YEAR: Final = _rule(
    rf"\b(?:{_PHOTOS}|summer|winter|spring|autumn|fall|christmas|easter|holidays?)(?: of| in)? {_ONE}\b{_COUNTED}"
)
_DECADE: Final = _rule(r"\b(?:from|in|of|during) the (?:early |late )?(?P<year>(?:1[89]|20)\d0)'?s\b(?! style| look| movie)")
_AGO: Final = _rule(
    r"\b(?P<number>\d{1,2}|a|an|one|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>day|week|month|year)s? ago\b"
)
_LAST: Final = _rule(
    r"(?<!\bdid )\b(?P<which>last|this|previous|past) (?P<unit>week|month|year|spring|summer|autumn|fall|winter|christmas)\b"
    r"(?! tonight| supper| calendar| s?hat)"
)
_NEAR: Final = _rule(rf"\b(?:from|taken|{_PHOTOS}(?: of)?) (?P<when>today|yesterday)\b(?! newspaper| show)")
_WRITTEN: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS: Final = {"a": 1, "an": 1, **{word: number for number, word in enumerate(_WRITTEN, 1)}}


@dataclass(frozen=True, slots=True)
class _Dates:
    """Days that a phrase asks for: the first one, and the one after the last; None where it is open."""

    phrase: str
    first: date | None
    end: date | None


def wishes_of(text: str, *, today: date, dates: bool = True, parts: bool = True) -> tuple[QueryNote, ...]:
    """Return what English words ask for that an option does better, in the order of the text.

    Args:
        text: Normalised words.
        today: The day that "last summer" is seen from.
        dates: Whether wishes for dates are looked for; not where the query has dates already.
        parts: Whether wishes to leave something out are looked for; not where they are parts of the query already.
    """
    plain = tidied(text)
    notes = []
    left_out = list(_left_out(plain)) if parts else []
    if left_out:
        notes.append(_note_of_parts(plain, left_out))
    found = _dates_of(plain, today) if dates else None
    if found is not None:
        notes.append(_note_of_dates(plain, found))
    return tuple(notes)


def _left_out(plain: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each phrase that leaves something out, with what it is."""
    found: list[tuple[int, str, list[str]]] = []
    for rule in _LEFT_OUT:
        for match in rule.finditer(plain):
            things = [words for part in _OR.split(_TAIL.sub("", match["thing"])) if (words := _ARTICLE.sub("", part.strip()))]
            things = [words for words in things if len(words.split()) <= _MOST_WORDS]
            if things:
                cue = match[0][: match.start("thing") - match.start()]
                phrase = f"{cue}{_TAIL.sub('', match['thing'])}".strip(" ,;")
                found.append((match.start("thing"), phrase, things))
    found += [(match.start(), match[0], ["people"]) for match in _NOBODY.finditer(plain)]
    taken: set[str] = set()
    for _, phrase, things in sorted(found, key=lambda one: one[0]):
        fresh = [thing for thing in things if thing.casefold() not in taken]
        taken |= {thing.casefold() for thing in fresh}
        if fresh:
            yield phrase, fresh


def _rest(plain: str, phrases: list[str]) -> str:
    """Return the words without some phrases and what joined them."""
    for phrase in phrases:
        plain = plain.replace(phrase, " ", 1)
    plain = re.sub(r"\s+([,;])", r"\1", " ".join(plain.split()))
    return _rule(r"^(?:(?:and|but)\b|[\s,;-])+|(?:\b(?:and|but|or)|[\s,;-])+$").sub("", plain)


def _note_of_parts(plain: str, left_out: list[tuple[str, list[str]]]) -> QueryNote:
    phrase = left_out[0][0]
    avoided = [thing for _, things in left_out for thing in things]
    option = " ".join(f"--without {shlex.quote(words)}" for words in avoided)
    return QueryNote(
        code="leave_out_by_option",
        phrase=phrase,
        message=f"“{phrase}” is compared as words, which leave nothing out. Name what the pictures should not show apart",
        option=option,
        query=_rest(plain, [one for one, _ in left_out]),
        without=avoided,
    )


def _note_of_dates(plain: str, dates: _Dates) -> QueryNote:
    options = [("--from", dates.first), ("--to", dates.end)]
    return QueryNote(
        code="dates_by_filter",
        phrase=dates.phrase,
        message=f"“{dates.phrase}” leaves no picture out. Filter by the day on which pictures were taken",
        option=" ".join(f"{option} {day.isoformat()}" for option, day in options if day is not None),
        query=_rest(plain, [dates.phrase]),
        taken_from=dates.first,
        taken_to=dates.end,
    )


def _dates_of(plain: str, today: date) -> _Dates | None:
    """Return the dates that words ask for; None if they ask for none, or for days that no photo was taken on."""
    for read in (_between, _exact, _in_month, _of_decade, _in_year, _ago, _last, _near):
        dates = read(plain, today)
        if dates is not None and (dates.first is None or dates.first <= today) and _is_photographic(dates):
            return dates
    return None


def _is_photographic(dates: _Dates) -> bool:
    return all(day is None or day.year >= _FIRST_YEAR for day in (dates.first, dates.end))


def _between(plain: str, today: date) -> _Dates | None:
    match = _BETWEEN.search(plain)
    if match is None or not int(match["first"]) <= int(match["last"]) <= today.year + 1:
        return None
    if not re.match(r"(?:from|between|of|in) ", match[0].lstrip(), re.IGNORECASE) and not _said_of_photos(plain, match):
        return None
    return _Dates(match[0].strip(), date(int(match["first"]), 1, 1), date(int(match["last"]) + 1, 1, 1))


def _exact(plain: str, _: date) -> _Dates | None:
    match = _EXACT.search(plain)
    if match is None:
        return None
    return _bounded(match, int(match["year"]), int(match["month"]), match["day"])


def _in_month(plain: str, _: date) -> _Dates | None:
    match = _IN_MONTH.search(plain)
    if match is None:
        return None
    month = match["month"].casefold()
    number = _MONTHS.get(month) or _MONTHS_SHORT[month[:3]]
    return _bounded(match, int(match["year"]), number, match["day"] or match["other"])


def _of_decade(plain: str, _: date) -> _Dates | None:
    match = _DECADE.search(plain)
    return None if match is None else _Dates(match[0], date(int(match["year"]), 1, 1), date(int(match["year"]) + 10, 1, 1))


def _in_year(plain: str, _: date) -> _Dates | None:
    match = _IN_YEAR.search(plain)
    if match is not None:
        return _bounded(match, int(match["year"]), None, None)
    match = _OF_YEAR.search(plain)
    return None if match is None else _Dates(match[0], date(int(match["year"]), 1, 1), date(int(match["year"]) + 1, 1, 1))


def _ago(plain: str, today: date) -> _Dates | None:
    match = _AGO.search(plain)
    if match is None:
        return None
    written = match["number"].casefold()
    number = _NUMBERS.get(written) or int(written)
    match match["unit"].casefold():
        case "year":
            return _Dates(match[0], date(today.year - number, 1, 1), date(today.year - number + 1, 1, 1))
        case "month":
            first = _months_on(today.replace(day=1), -number)
            return _Dates(match[0], first, _months_on(first, 1))
        case "week":
            first = today - timedelta(days=today.weekday() + 7 * number)
            return _Dates(match[0], first, first + timedelta(days=7))
    day = today - timedelta(days=number)
    return _Dates(match[0], day, day + timedelta(days=1))


def _last(plain: str, today: date) -> _Dates | None:
    match = _LAST.search(plain)
    if match is None:
        return None
    unit, back = match["unit"].casefold(), match["which"].casefold() != "this"
    if unit == "week":
        first = today - timedelta(days=today.weekday() + 7 * back)
        return _Dates(match[0], first, first + timedelta(days=7))
    if unit == "month":
        first = _months_on(today.replace(day=1), -int(back))
        return _Dates(match[0], first, _months_on(first, 1))
    if unit == "year":
        return _Dates(match[0], date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1))
    if unit == "christmas":
        year = today.year - (back and today < date(today.year, 12, 27))
        return _Dates(match[0], date(year, 12, 24), date(year, 12, 27))
    first = date(today.year, _SEASONS[unit], 1)
    if first > today or (back and today < _months_on(first, 3)):  # "last summer", said in July, is the one before
        first = date(today.year - 1, _SEASONS[unit], 1)
    if back and today < _months_on(first, 3):
        first = date(first.year - 1, first.month, 1)
    return _Dates(match[0], first, _months_on(first, 3))


def _near(plain: str, today: date) -> _Dates | None:
    match = _NEAR.search(plain)
    if match is None:
        return None
    day = today - timedelta(days=match["when"].casefold() == "yesterday")
    return _Dates(match[0], day, day + timedelta(days=1))


def _bounded(match: re.Match[str], year: int, month: int | None, day: str | None) -> _Dates | None:
    """Return the dates of a phrase that names a year, a month or a day, by how it names it: from, before, since or after."""
    try:
        first = date(year, month or 1, int(day or 1))
    except ValueError:
        return None
    end = first + timedelta(days=1) if day is not None else _months_on(first, 12 if month is None else 1)
    how = (match["how"] or "").casefold()
    if how in {"before", "until", "till", "by"}:
        return _Dates(match[0], None, first if how == "before" else end)
    if how in {"since", "after"}:
        return _Dates(match[0], first if how == "since" else end, None)
    return _Dates(match[0], first, end)


def _months_on(first: date, months: int) -> date:
    place = first.year * 12 + first.month - 1 + months
    return date(place // 12, place % 12 + 1, 1)


def _said_of_photos(plain: str, match: re.Match[str]) -> bool:
    return re.search(rf"\b{_PHOTOS}$", plain[: match.start()].rstrip(), re.IGNORECASE) is not None
