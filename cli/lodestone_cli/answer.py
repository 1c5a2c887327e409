"""Terminal rendering of an answer: what was searched, files with scores and captions, and what to type next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone_cli.command_context import printable
from lodestone_cli.explanation import composition_of, described, verdict_of
from lodestone_cli.file_names import brief_path, shown_name
from lodestone_cli.naming import counted, short
from lodestone_cli.stopwatch import waited_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_cli.terminal.grid import PictureGrid
    from lodestone_schemas.api import Hit, QueryNote, SearchResponse

_AROUND: Final = 5  # lines around pictures: blank ones above and below, two on the answer, and the one that is typed on next
_COLUMNS: Final = 3  # pictures in a row, for the command that shows all
_PARTS: Final = 6  # lists of each hit that --explain shows; `lodestone explain` knows all


def print_answer(
    console: Console,
    response: SearchResponse,
    paths: Mapping[str, str],
    *,
    corpora: bool = False,
    asked: str = "",
    grid: PictureGrid | None = None,
    explained: bool = False,
) -> None:
    """Print one page of hits with their scores, warnings and the time that the user waited for them.

    Each picture has a line of its own with its whole path, which a terminal can open, and a line below it with its score and
    its caption. Contributions of lists, where a hit has any, take the place of captions. Where pictures are drawn, each has a
    single line, unless it has contributions to show, and below are as many pictures as the rest of the screen has room for.

    Args:
        console: Where it is printed.
        response: One page of an answer.
        paths: Path on this machine by image id.
        corpora: Whether the corpus of each picture is shown, because more than one was searched.
        asked: Words as they were asked; empty for a search by picture.
        grid: Draws the pictures below their paths; None for a terminal that shows none, and for pipes.
        explained: Whether the technical lines are printed too: rules, weights, parts, guides and the time of the search alone.
    """
    if grid is None:
        _print_list(console, response, paths, corpora=corpora, asked=asked, short=False)
        taken = 0
    else:
        with console.capture() as captured:
            _print_list(console, response, paths, corpora=corpora, asked=asked, short=True)
        console.file.write(captured.get())
        taken = _height(captured.get(), console.width)
    if not response.hits:
        return
    below = [printable(line) for line in (_technical(response, paths) if explained else ())]
    drawn = None
    if grid is not None:
        console.print()
        room = grid.screen.lines - taken - len(below) - bool(response.dropped) - _AROUND
        drawn = grid.print(console, response.hits, paths, room=room)
        console.print()
    for line in below:
        console.print(line, style="dim", markup=False)
    if response.dropped:
        console.print(printable(f"left out: {', '.join(response.dropped)}"), style="yellow", markup=False)
    seconds = waited_seconds()
    summary = counted(len(response.hits), "picture")
    summary += "" if seconds is None else f" in {seconds:.1f} s"
    summary += f", cost {response.cost:g}" if response.cost else ""
    summary += "" if drawn is None or drawn == len(response.hits) else f"; {drawn} shown, all: --columns {_COLUMNS}"
    console.print(summary, style="dim", markup=False)
    name = short(response.query_id)
    judge = "" if response.stage == "picture" else f"; right? lodestone feedback {name} -r {response.hits[0].rank}"
    console.print(f"why: lodestone explain {name}{judge}", style="dim", markup=False)


def _print_list(
    console: Console, response: SearchResponse, paths: Mapping[str, str], *, corpora: bool, asked: str, short: bool
) -> None:
    _print_notes(console, response, paths, asked)
    if not response.hits:
        console.print("no pictures found")
        return
    if response.probably_nothing:
        console.print(nothing_line(response.confidence), style="yellow", markup=False)
    width = len(str(response.hits[-1].rank))
    for hit in response.hits:
        corpus = hit.corpus if corpora else None
        _print_hit(console, hit, paths.get(hit.image_id), corpus=corpus, width=width, short=short and not hit.contributions)


def _height(printed: str, width: int) -> int:
    """Return how many lines of a terminal of this width a text takes that was printed on it."""
    from rich.text import Text

    return sum(max(1, math.ceil(Text.from_ansi(line).cell_len / width)) for line in printed.splitlines())


def _details(hit: Hit, corpus: str | None) -> list[str]:
    """Return what stands below the name of a hit: its score, its corpus, what it was found by, and its caption."""
    details = [f"{hit.score:.3f}", *([] if corpus is None else [f"[{printable(corpus)}]"])]
    if hit.found_by:
        details.append(f"by its {' and '.join(hit.found_by)}")
    if hit.captions and not hit.contributions:
        details.append(printable(hit.captions[0]))
    return details


def _print_hit(console: Console, hit: Hit, path: str | None, *, corpus: str | None, width: int, short: bool) -> None:
    """Print a hit on two lines, or on a single one without its caption where `short`."""
    from rich.style import Style
    from rich.text import Text

    name = Text(f"{hit.rank:>{width}}  ", style="dim")
    if short:
        name.append(f"{hit.score:.3f}  ")
    url = Path(path).as_uri() if path is not None and Path(path).is_absolute() else None
    shown = path or f"{hit.root}/{hit.uri}"
    name.append(shown_name(brief_path(shown) if short and path else shown), style=Style(bold=True, dim=False, link=url))
    if hit.missing:
        name.append("  (the file is gone)", style=Style(color="yellow", bold=False))
    if hit.copies:
        name.append(f"  (and {hit.copies:,} like it)")
    if short and corpus is not None and name.cell_len + len(beside := f"  [{printable(corpus)}]") <= console.width:
        name.append(beside)
    console.print(name)
    if short:
        return
    indent = " " * (width + 2)
    below = Text(indent + "  ".join(_details(hit, corpus)), style="dim")
    if console.is_terminal:  # elsewhere whoever reads it has no columns
        below.truncate(console.width, overflow="ellipsis")
    console.print(below)
    parts = sorted(hit.contributions or [], key=lambda part: -part.weight if part.part is None else -abs(part.part))
    for part in parts[:_PARTS]:
        detail = f"{part.space} by {part.guide}: rank {part.rank}, score {part.score:.3f}, weight {part.weight:.2f}"
        detail += "" if part.part is None else f", {part.part:+.3f} of the score"
        console.print(Text(f"{indent}  {printable(detail)}", style="dim"))
    if len(parts) > _PARTS:
        console.print(Text(f"{indent}  and {len(parts) - _PARTS} more lists", style="dim"))


def nothing_line(confidence: float | None) -> str:
    """Return the line that says that an answer holds probably nothing of what was asked."""
    how_sure = "" if confidence is None else f" (confidence {confidence:.2f})"
    return f"Probably nothing here: no picture seems to show this{how_sure}. These are the nearest ones."


def _print_notes(console: Console, response: SearchResponse, paths: Mapping[str, str], asked: str) -> None:
    from rich.markup import escape

    searched = composition_of(response.parts, paths) or response.corrected_query
    if searched is not None:
        console.print(f"showing results for [bold]{escape(printable(searched))}[/]")
    if response.corrected_query is not None:
        console.print(printable(f"search instead for {asked}: --no-spelling"), style="dim", markup=False)
    for warning in response.warnings:
        console.print(f"[yellow]note:[/] {escape(printable(warning))}")
    for note in response.notes:
        console.print(f"[yellow]note:[/] {escape(printable(note_line(note)))}")


def note_line(note: QueryNote) -> str:
    """Return the line that says which option fulfils a wish that the words of a query hold."""
    return f"{note.message}: {note.option}"


def _technical(response: SearchResponse, paths: Mapping[str, str]) -> list[str]:
    """Return the lines on how the answer was made: time of the search alone, rule, weights, parts, gate, guides and trust."""
    total = response.timings_ms.get("total")
    weights = ", ".join(f"{space} {weight:.2f}" for space, weight in response.space_weights.items())
    timing = "" if total is None else f"the search alone took {total:.0f} ms; "
    how = "composed" if response.parts else response.fusion  # a rule of the settings joins parts, which no request names
    lines = [f"{timing}{how}; spaces: {weights}", *(f"part {described(part, paths)}" for part in response.parts)]
    if response.gate is not None:
        lines.append(f"gate: {verdict_of(response.gate)}")
    if response.guides:
        counts = {
            status: sum(guide.status == status for guide in response.guides) for status in ("used", "rejected", "dropped")
        }
        statuses = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        cached = sum(guide.cached is not None for guide in response.guides)
        from_cache = f", {cached} from the cache" if cached else ""
        engines = ", ".join(sorted({guide.engine for guide in response.guides}))
        lines.append(f"guides by {engines}: {statuses}{from_cache}")
    if response.topic is not None:
        trust = ", ".join(f"{space} {weight:.3f}" for space, weight in response.trust.items())
        lines.append(f"trust of topic {response.topic}: {trust or 'neutral'}")
    return lines
