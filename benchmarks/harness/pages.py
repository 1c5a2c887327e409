"""Figures in the documentation: they stand between two comments of a page, beside the plots in its folder."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, section: str, text: str) -> None:
    """Replace what stands between `<!-- SECTION -->` and `<!-- /SECTION -->` in `page`.

    Raises:
        ValueError: the page lacks one of the comments.
    """
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    before, opened, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"{page} has no section between {begin} and {end}: put both lines where the figures belong")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
