"""Screenshots of all pages: `python -m scripts.screenshots` shows every state in light and dark, large and small.

The pages are those of a real service over the home of the demonstration (`lodestone demo`, made if it is not there), so that
all pictures in them may be shown: NOTICE.md names their licences. Everything goes to a folder that is not kept. `--docs` also
writes the few that the documentation shows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from benchmarks.harness.chromium import chromium
from PIL import Image

from lodestone.config.home import Home
from lodestone.home.running_service.address import read_address

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

START_S: Final = 240.0
SETTLED_MS: Final = 700
"""Until tiles have moved and pictures have faded in."""
COLOURS: Final = 192
DOCS: Final = Path("docs/assets")
WORDS: Final = "a cat"
AVOIDED: Final = "a smile"
NAMED: Final = "demo-named"
"""Corpus of the drawings with names: the demonstration trains on them. Indexed, their names make guides."""

DEVICES: Final[Mapping[str, Mapping[str, Any]]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
SCHEMES: Final = ("light", "dark")


def begin(page: Page) -> None:
    """Show the page without a question."""
    page.goto("./")
    page.get_by_role("heading", name="Find pictures by what you mean").wait_for()
    page.wait_for_load_state("networkidle")


def typing(page: Page) -> None:
    """Show the history below the box."""
    results(page)
    begin(page)
    page.get_by_role("combobox", name="What the picture shows").fill("a")


def results(page: Page) -> None:
    """Ask for pictures in words."""
    begin(page)
    page.get_by_role("combobox", name="What the picture shows").fill(WORDS)
    page.keyboard.press("Enter")
    answered(page)


def composed(page: Page) -> None:
    """Ask for words and a picture, without something else: three steps."""
    results(page)
    page.locator(".tile .open").first.click()
    page.get_by_role("button", name="Add to query").click()
    answered(page)
    page.get_by_label("What the picture should not show").fill(AVOIDED)
    page.keyboard.press("Enter")
    page.locator(".chip.avoid .share").wait_for()
    answered(page)


def picture(page: Page) -> None:
    """Open one picture, with the reasons why it is here."""
    results(page)
    page.locator(".tile .open").nth(1).click()
    page.locator(".whole:not([hidden])").wait_for()
    page.get_by_text("Why is it here?").click()
    page.locator(".why tbody tr").first.wait_for()


def waiting(page: Page) -> None:
    """Ask a service that is slow."""
    page.route("**/v1/search/stream", lambda _: None)
    begin(page)
    page.get_by_role("combobox", name="What the picture shows").fill(WORDS)
    page.keyboard.press("Enter")
    page.locator(".skeleton").wait_for()


def filters(page: Page) -> None:
    """Open the panel of filters."""
    results(page)
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Taken before").wait_for()


def selection(page: Page) -> None:
    """Select the first four pictures."""
    results(page)
    page.locator(".tile .open").first.press("x")  # circles are shown where there is a mouse, or where some are selected
    page.locator(".tile .open").nth(3).press("Shift+X")
    page.get_by_role("region", name="Selection").wait_for()


def region(page: Page) -> None:
    """Draw a region of a picture."""
    results(page)
    page.locator(".tile .open").first.click()
    page.locator(".whole:not([hidden])").wait_for()
    page.get_by_role("button", name="Search a region").click()
    page.locator(".region .box").wait_for()


def nothing(page: Page) -> None:
    """Ask within dates in which no picture was taken."""
    page.goto(f"./?{urlencode({'q': WORDS, 'before': '1800-01-01'})}")
    page.get_by_role("heading", name="No pictures").wait_for()


def refused(page: Page) -> None:
    """Ask a service that has too much to do."""
    told = {"code": "overloaded", "detail": "The service has too much to do.", "hint": "Ask again in a few seconds."}
    page.route(
        "**/v1/search/stream", lambda route: route.fulfill(status=503, json=told, content_type="application/problem+json")
    )
    begin(page)
    page.get_by_role("combobox", name="What the picture shows").fill(WORDS)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Too many searches at once").wait_for()


def unreachable(page: Page) -> None:
    """Ask a service that has gone."""
    results(page)
    page.route("**/v1/**", lambda route: route.abort())
    page.route("**/healthz", lambda route: route.abort())
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("heading", name="The service is out of reach").wait_for()


def locked(page: Page) -> None:
    """Come without a key to a service that asks for one."""
    page.route("**/v1/corpora*", lambda route: route.fulfill(status=401, json={"code": "unauthorized"}))
    page.goto("./")
    page.get_by_label("API key or token").wait_for()


def managed(name: str) -> Callable[[Page], None]:
    """Return how to get to a management page."""

    def reach(page: Page) -> None:
        page.goto(f"./manage#/{name}")
        page.locator(f"main[data-page={name}] h1").wait_for()
        page.wait_for_load_state("networkidle")

    return reach


def run(page: Page) -> None:
    """Show the newest run."""
    managed("runs")(page)
    page.locator("main .card h2 a").first.click()
    page.get_by_role("heading", name="Run", level=1).wait_for()
    page.locator(".failures, main > .quiet").last.wait_for()
    page.wait_for_load_state("networkidle")


def locked_out(page: Page) -> None:
    """Come without a key to the management pages of a service that asks for one."""
    page.route("**/v1/**", lambda route: route.fulfill(status=401, json={"code": "unauthorized"}))
    page.goto("./manage")
    page.get_by_label("API key or token").wait_for()


STATES: Final[Mapping[str, Callable[[Page], None]]] = {
    "begin": begin,
    "typing": typing,
    "results": results,
    "composed": composed,
    "picture": picture,
    "filters": filters,
    "selection": selection,
    "region": region,
    "waiting": waiting,
    "nothing": nothing,
    "refused": refused,
    "unreachable": unreachable,
    "locked": locked,
    **{f"manage-{name}": managed(name) for name in ("corpora", "runs", "tags", "trust", "models", "keys", "settings")},
    "manage-run": run,
    "manage-locked": locked_out,
}
"""State of the page -> how to get there."""

SHOWN: Final = ("results-desktop-light", "picture-desktop-dark", "composed-phone-light")
"""What the documentation shows."""


def answered(page: Page) -> None:
    """Wait until the answer is whole and its pictures are there."""
    page.locator("main[aria-busy=false]").wait_for()
    page.locator(".grid .tile:not(.loading)").first.wait_for()


@contextmanager
def service(home: Path) -> Iterator[str]:
    """Serve a home inside the block, and give the address; the demonstration fills a home that is not there.

    The drawings with names are indexed too, with their names as captions.

    Raises:
        SystemExit: the service did not come up.
    """
    lodestone = [sys.executable, "-m", "lodestone_cli"]
    if not (home / "home.json").exists():
        subprocess.run([*lodestone, "demo", "--home", str(home)], check=True)
    pictures = home / "demo" / "pictures"
    table = ["--captions", str(pictures / "named.tsv"), "--corpus", NAMED]
    subprocess.run([*lodestone, "index", str(pictures / "drawings-named"), *table, "--home", str(home)], check=True)
    with subprocess.Popen([*lodestone, "serve", "--port", "0", "--home", str(home)], env=os.environ) as process:
        try:
            until = time.monotonic() + START_S
            while (address := read_address(Home(home))) is None or address.pid is None:
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"the service of {home} did not come up")
                time.sleep(0.2)
            yield address.url
        finally:
            process.terminate()


def take(browser: Browser, url: str, folder: Path, *, only: str = "") -> list[Path]:
    """Take all screenshots whose name holds `only`; return their files, named `STATE-DEVICE-SCHEME.png`."""
    files = []
    for device, options in DEVICES.items():
        for scheme in SCHEMES:
            for state, reach in STATES.items():
                name = f"{state}-{device}-{scheme}"
                if only not in name:
                    continue
                window = browser.new_context(base_url=f"{url.rstrip('/')}/", color_scheme=scheme, **options)
                try:
                    page = window.new_page()
                    reach(page)
                    page.wait_for_timeout(SETTLED_MS)
                    page.mouse.move(0, 0)
                    files.append(folder / f"{name}.png")
                    files[-1].write_bytes(page.screenshot())
                    page.unroute_all(behavior="ignoreErrors")
                finally:
                    window.close()
    return files


def small(content: bytes) -> bytes:
    """Return a picture with a palette, for repositories and pages: a quarter of the bytes."""
    output = BytesIO()
    Image.open(BytesIO(content)).convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(
        output, "PNG", optimize=True
    )
    return output.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Take screenshots as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--home",
        type=Path,
        default=Path(".demo/pages"),
        help="a home of its own: the demonstration refuses one with other pictures",
    )
    parser.add_argument("--url", help="a service that runs already, in place of one over the home")
    parser.add_argument("--folder", type=Path, default=Path(".demo/screenshots"))
    parser.add_argument("--only", default="", help="part of a name, such as desktop or results-phone")
    parser.add_argument("--docs", action="store_true", help=f"also write those of the documentation to {DOCS}")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        if options.url:
            files = take(browser, options.url, options.folder, only=options.only)
        else:
            with service(options.home) as url:
                files = take(browser, url, options.folder, only=options.only)
    for file in files:
        print(file)
        if options.docs and file.stem in SHOWN:
            DOCS.mkdir(parents=True, exist_ok=True)
            (DOCS / f"page-{file.name}").write_bytes(small(file.read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
