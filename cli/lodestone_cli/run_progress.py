"""Text of a run's progress as the catalog has it: for `lodestone status` and `lodestone runs show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lodestone_cli.progress import LIMITS, time_left

_GB = 10**9


def short_progress(progress: Mapping[str, Any] | None) -> str:
    """Return a run's progress in a few words, e.g. `1,200/5,000, 240/s, 0:15 left, limited by reading`; "" if none is known."""
    if not progress:
        return ""
    total = f"/{progress['total']:,}" if progress["total"] else ""
    parts = [f"{progress['done']:,}{total}"] if progress["done"] or total else []
    if progress["rate"]:
        parts.append(f"{progress['rate']:,.0f}/s")
    if progress["seconds_left"] is not None and progress["done"] < progress["total"]:
        parts.append(time_left(progress["seconds_left"]))
    if progress["limited_by"]:
        parts.append(f"limited by {LIMITS.get(progress['limited_by'], progress['limited_by'])}")
    return ", ".join(parts)


def progress_lines(progress: Mapping[str, Any], *, running: bool) -> Iterator[str]:
    """Yield lines with a run's progress, the work of its stages, and its GPUs.

    Args:
        progress: As `RunProgress` dumps it.
        running: Whether the run goes on.
    """
    if running and (short := short_progress(progress)):
        yield f"{'progress':<13} {short}"
    for stage in progress["stages"]:
        waiting = f", {stage['waiting']:,} waiting" if running and stage["waiting"] else ""
        rate = f"{stage['pictures']:,} pictures, {stage['rate']:,.1f}/s, {stage['busy']:.0%} busy{waiting}"
        yield f"{stage['stage']:<13} {rate}"
    for gpu in progress["gpus"] if running else ():
        memory = f"{gpu['memory_used'] / _GB:.1f} of {gpu['memory_size'] / _GB:.1f} GB"
        yield f"{'GPU ' + str(gpu['gpu']):<13} {gpu['busy']:.0%} busy, {memory}"
