"""How do figures get into the documentation? Between two comments of a page, beside the plots in its folder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import describe_machine


def put(page: Path, section: str, text: str) -> None:
    """Replace what stands between `<!-- SECTION -->` and `<!-- /SECTION -->` in `page`.

    Raises:
        ValueError: the page lacks one of the comments.
    """
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no section between {begin} and {end}: put both lines where the figures belong")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def report(*parts: str) -> str:
    """Parts with an empty line between them, and the machine and the day at the end."""
    return "\n\n".join(
        [*(part.strip() for part in parts if part.strip()), f"{describe_machine()}; {datetime.now(UTC):%Y-%m-%d}."]
    )


def publish(page: Path | None, section: str, text: str) -> None:
    """Print a report, and put it into `page` if there is one."""
    print(text)
    if page is not None:
        put(page, section, text)
