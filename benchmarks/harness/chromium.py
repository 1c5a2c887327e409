"""Chromium under Playwright for what tests, measures or shows the search page: Debian's or Google's own program, headless."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS: Final = ("chromium-headless-shell", "chromium", "google-chrome")
"""Programs, the first choice first.

The headless shell has no window around its pages: the same tests take less than half of Chromium's processor time with it.
"""
MISSING: Final = "there is no Chromium: apt-get install chromium-headless-shell"


def browser_program() -> str | None:
    """Return the path of the first of `PROGRAMS` that is installed; None where there is none."""
    return next((found for found in map(shutil.which, PROGRAMS) if found is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser inside the block.

    Raises:
        SystemExit: there is none.
    """
    from playwright.sync_api import sync_playwright

    program = browser_program()
    if program is None:
        sys.exit(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
