"""Terminal rendering of an explained answer: the largest parts of each score first, with the similarities behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from lodestone_cli.command_context import printable
from lodestone_cli.naming import local_time, short
from lodestone_cli.sets import said_filters, said_set
from lodestone_cli.terminal.console import print_table, text_width

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.api import ExplainedHit, GateDecision, GuideInfo, HitPart, QueryExplanation, QueryPart

_WIDTH: Final = 80  # columns of running text on a terminal
_PARTS: Final = 4  # of each hit
_VISIBLE: Final = 0.0005  # a part that would be printed as 0.000 says nothing
_NO_VECTORS: Final = frozenset({"", "tags"})  # lists that no vector stands behind
_ALL_GUIDES: Final = "*"
_STAGES: Final = 5  # the slowest; JSON has all
_WHOLE: Final = 1 - 1e-4
_KINDS: Final = {
    "words": "",
    "similar": "like an indexed picture",
    "picture": "like a picture",
    "composed": "like several pictures",
}


def print_explanation(console: Console, explanation: QueryExplanation, paths: Mapping[str, str]) -> None:
    """Print how a query was answered: plan, decisions, guides, hits with the parts of their scores, and timings.

    Args:
        console: Where it is printed.
        explanation: Explanation of one query; all its hits are shown.
        paths: Path on this machine by image id.
    """
    from rich.text import Text

    title = Text(printable(explanation.text) or _KINDS[explanation.kind], style="bold")
    console.print(title.append(f"  {short(explanation.query_id)}", style="not bold dim"))
    for line in _how(explanation):
        console.print(printable(line), style="dim", markup=False)
    for line in _decided(explanation, paths):
        console.print(printable(line), markup=False)
    if explanation.guides:
        _print_guides(console, explanation.guides, paths)
    _print_hits(console, explanation, paths)
    for note in (*explanation.warnings, *explanation.notes, *(f"left out: {one}" for one in explanation.dropped)):
        # The console of commands leaves long lines as they are; on a terminal they are broken between words.
        for line in wrap(printable(f"note: {note}"), width=text_width(console, _WIDTH), subsequent_indent="  "):
            console.print(line, style="yellow", markup=False)
    console.print(_timings(explanation.timings_ms), style="dim", markup=False)


def verdict_of(gate: GateDecision) -> str:
    """Return the gate's decision and its reason, in a sentence that begins with the verdict."""
    return gate.why if gate.why.startswith(gate.verdict) else f"{gate.verdict}: {gate.why}"


def described(part: QueryPart, paths: Mapping[str, str]) -> str:
    """Return a part of a composed query in a line: its name and weight, and its words, or the name of its picture's file.

    Parts of a further alternative begin with its number.
    """
    content = _picture_of(part, paths) if part.text is None else part.text
    alternative = f"of alternative {part.alternative + 1}, " if part.alternative else ""
    return f"{alternative}{part.name} {part.weight:.2f}: {content}"


def composition_of(parts: Sequence[QueryPart], paths: Mapping[str, str]) -> str | None:
    """Return what a composed query looks for, as people say it: `a beach, at night, like IMG_2.jpg, without people`.

    Args:
        parts: Parts of the query.
        paths: Path on this machine by image id.

    Returns:
        Words before pictures, and what to avoid at the end, with "or" between alternatives; None for a query that is not
        composed.
    """
    ordered = sorted(parts, key=lambda part: (part.alternative, part.avoid, part.text is None))
    alternatives = groupby(ordered, key=lambda part: part.alternative)
    return " or ".join(", ".join(_as_said(part, paths) for part in group) for _, group in alternatives) or None


def _as_said(part: QueryPart, paths: Mapping[str, str]) -> str:
    if part.text is not None:
        return f"without {part.text}" if part.avoid else part.text
    return f"{'unlike' if part.avoid else 'like'} {_picture_of(part, paths)}"


def _picture_of(part: QueryPart, paths: Mapping[str, str]) -> str:
    picture = "a picture that was sent" if part.image_id is None else named_picture(part.image_id, paths)
    return picture if part.region is None else f"a region of {picture}"


def named_picture(image_id: str, paths: Mapping[str, str]) -> str:
    """Return the name of a picture's file where it is known; else the beginning of its id."""
    return Path(paths[image_id]).name if image_id in paths else short(image_id)


def _how(explanation: QueryExplanation) -> Iterator[str]:
    plan = explanation.plan
    searched = [*plan.get("spaces", {}), *(one for one in ("captions", "tags") if plan.get(one))]
    how = "composed" if explanation.parts else plan.get("fusion", "")
    yield f"asked {local_time(explanation.created_at, seconds=True)}; {how} over {', '.join(searched)}"
    if plan.get("generators"):
        rules = [name for name in ("gate", "outliers", "adaptive") if plan.get(name)]
        budget = "" if plan.get("budget") is None else f", budget {plan['budget']:g}"
        yield (
            f"up to {plan.get('guides', 0)} guides by {', '.join(plan['generators'])}{budget}"
            f"{'; ' + ', '.join(rules) + ' on' if rules else ''}"
        )


def _decided(explanation: QueryExplanation, paths: Mapping[str, str]) -> Iterator[str]:
    if explanation.corrected_query is not None:
        yield f"corrected from: {explanation.request.get('query', '')}"
    for part in explanation.parts:
        yield f"part {described(part, paths)}"
    if filters := explanation.request.get("filters"):
        yield f"filters: {said_filters(filters)}"
    if match := explanation.request.get("match"):
        yield f"sets: {said_set(match)}"
    if explanation.gate is not None:
        yield f"gate: {verdict_of(explanation.gate)}"
    if explanation.confidence is not None:
        verdict = "; probably nothing here" if explanation.probably_nothing else ""
        yield f"confidence that the collection shows this: {explanation.confidence:.2f}{verdict}"
    if explanation.topic is not None:
        trust = ", ".join(f"{space} {weight:.3f}" for space, weight in explanation.trust.items())
        yield f"topic {explanation.topic}: trust {trust or 'neutral'}"
    for engine, prompt in explanation.prompts.items():
        if prompt != explanation.text:
            yield f"prompt of {engine}: {prompt}"


def _print_guides(console: Console, guides: list[GuideInfo], paths: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    judged = any(guide.outlier_score is not None for guide in guides)
    table = Table(box=None, pad_edge=False)
    for heading in ("guide", "weight", "status", *(("unlike",) if judged else ())):
        table.add_column(heading, no_wrap=True)
    table.add_column("from", overflow="fold")
    for guide in guides:
        status = guide.status if guide.cached is None else f"{guide.status}, {guide.cached} from cache"
        unlike = "" if guide.outlier_score is None else f"{guide.outlier_score:.2f}"
        cells = [Text(printable(guide.guide_id)), f"{guide.weight:.2f}", status, *((unlike,) if judged else ())]
        table.add_row(*cells, Text(printable(_origin(guide.provenance, paths))))
    print_table(console, table)


def _origin(provenance: Mapping[str, Any], paths: Mapping[str, str]) -> str:
    """Return where a guide comes from: a picture of the collection with its caption or tags, words, or an edited part."""
    image_id = str(provenance.get("image_id", ""))
    picture = named_picture(image_id, paths)
    if "tag_score" in provenance:
        return f"{picture}, by its tags ({provenance['tag_score']:.2f})"
    if "caption" in provenance:
        return f"{picture}: {provenance['caption']}"
    words = str(provenance.get("from_prompt") or provenance.get("prompt") or "")
    return f"{provenance['part']}, edited by: {words}" if "edited_from" in provenance else words


def _print_hits(console: Console, explanation: QueryExplanation, paths: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not explanation.hits:
        console.print("no pictures found")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("picture, and what its score is made of", overflow="fold")
    for hit in explanation.hits:
        path = printable(paths.get(hit.image_id, hit.image_id))
        table.add_row(str(hit.rank), Text(f"{hit.score:.3f}", style="bold"), Text(path, style="bold"))
        for part, what in _parts(hit, composed=bool(explanation.parts)):
            table.add_row("", f"{part:+.3f}", Text(printable(what), style="dim"))
        if hit.explained < _WHOLE:
            table.add_row("", "", Text(f"only {hit.explained:.1%} of the score is explained", style="yellow"))
    print_table(console, table)


def _parts(hit: ExplainedHit, *, composed: bool) -> Iterator[tuple[float, str]]:
    seen = [part for part in hit.parts if abs(part.part) >= _VISIBLE]
    for part in seen[:_PARTS]:
        rank = "" if part.rank is None else f", rank {part.rank}"
        similar = f", similarity {part.score:.3f}" if _has_similarity(part, composed=composed) else ""
        yield part.part, f"{part.space} by {part.guide}{rank}{similar}" if part.space else part.guide
    rest = seen[_PARTS:]
    if rest:
        yield sum(part.part for part in rest), f"by {len(rest)} more"


def _has_similarity(part: HitPart, *, composed: bool) -> bool:
    """Return whether the score of a part is the cosine of the picture with the guide.

    It is none for tags, for the sum of all guides, and for a part of a composed query of which only the share was recorded.
    """
    is_share = composed and part.part == part.weight * part.score
    return part.space not in _NO_VECTORS and part.guide != _ALL_GUIDES and math.isfinite(part.score) and not is_share


def _timings(timings_ms: Mapping[str, float]) -> str:
    stages = sorted(((spent, stage) for stage, spent in timings_ms.items() if stage != "total" and spent >= 1), reverse=True)
    slowest = ", ".join(f"{stage} {spent:.0f}" for spent, stage in stages[:_STAGES])
    return f"{timings_ms.get('total', 0.0):.0f} ms{': ' + slowest if slowest else ''}"
