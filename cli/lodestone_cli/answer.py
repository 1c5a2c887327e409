"""Terminal rendering of an answer: files with scores, how they were found, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone_cli.command_context import printable
from lodestone_cli.explanation import verdict_of
from lodestone_cli.naming import counted, short

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_schemas.api import Hit, SearchResponse

_PARTS: Final = 6  # lists of each hit that --explain shows; `lodestone explain` knows all


def print_answer(console: Console, response: SearchResponse, paths: Mapping[str, str]) -> None:
    """Print one page of hits with their scores, warnings and timings.

    Args:
        console: Where it is printed.
        response: One page of an answer. Contributions of lists, where a hit has any, take the place of captions.
        paths: Path on this machine by image id.
    """
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    for warning in response.warnings:
        console.print(f"[yellow]note:[/] {escape(printable(warning))}")
    if not response.hits:
        console.print("no pictures found")
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("picture", overflow="fold")
    explained = any(hit.contributions for hit in response.hits)  # parts need the whole width
    if not explained:
        table.add_column("caption", overflow="ellipsis", no_wrap=True, max_width=48, style="dim")
    for hit in response.hits:
        path = paths.get(hit.image_id, f"{hit.root}/{hit.uri}")
        shown = Text(printable(path), style=f"link {Path(path).as_uri()}" if Path(path).is_absolute() else "")
        for remark, style in _remarks(hit):
            shown.append(f" ({remark})", style=style)
        caption = [] if explained else [Text(printable(hit.captions[0]) if hit.captions else "")]
        table.add_row(str(hit.rank), f"{hit.score:.3f}", shown, *caption)
        parts = sorted(hit.contributions or [], key=lambda part: -part.weight)
        for part in parts[:_PARTS]:
            detail = f"{part.space} by {part.guide}: rank {part.rank}, score {part.score:.3f}, weight {part.weight:.2f}"
            table.add_row("", "", Text(f"  {printable(detail)}", style="dim"))
        if len(parts) > _PARTS:
            table.add_row("", "", Text(f"  and {len(parts) - _PARTS} more lists", style="dim"))
    console.print(table)
    total = response.timings_ms.get("total")
    weights = ", ".join(f"{space} {weight:.2f}" for space, weight in response.space_weights.items())
    timing = f" in {total:.0f} ms" if total is not None else ""
    line = f"{counted(len(response.hits), 'picture')}{timing}; {response.fusion}; spaces: {weights}"
    console.print(line, style="dim", markup=False)
    for line in _about_guides(response):
        console.print(printable(line), style="dim", markup=False)
    if response.dropped:
        console.print(printable(f"left out: {', '.join(response.dropped)}"), style="yellow", markup=False)
    name = short(response.query_id)
    judge = "" if response.stage == "picture" else f"; right? lodestone feedback {name} -r 1"
    console.print(f"why: lodestone explain {name}{judge}", style="dim", markup=False)


def _remarks(hit: Hit) -> list[tuple[str, str]]:
    """Return what stands behind a hit's path, each with its style."""
    gone = [("the file is gone", "yellow")] if hit.missing else []
    return [*gone, *([(f"and {hit.copies:,} like it", "dim")] if hit.copies else [])]


def _about_guides(response: SearchResponse) -> list[str]:
    lines = []
    if response.gate is not None:
        lines.append(f"gate: {verdict_of(response.gate)}")
    if response.guides:
        counts = {
            status: sum(guide.status == status for guide in response.guides) for status in ("used", "rejected", "dropped")
        }
        told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        cached = sum(guide.cached is not None for guide in response.guides)
        from_cache = f", {cached} from the cache" if cached else ""
        cost = f", cost {response.cost:g}" if response.cost else ""
        lines.append(f"guides by {', '.join(sorted({guide.engine for guide in response.guides}))}: {told}{from_cache}{cost}")
    if response.topic is not None:
        trust = ", ".join(f"{space} {weight:.3f}" for space, weight in response.trust.items())
        lines.append(f"trust of topic {response.topic}: {trust or 'neutral'}")
    return lines
