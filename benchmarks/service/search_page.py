"""The search page in a browser: first paint, bytes, first pictures after Enter, and scrolling through 10,000 results.

    python -m benchmarks.service.search_page [--points 10000] [--captioned 0.1] [--rounds 5] [--queries 5] [--home HOME]

A real service (Ray Serve, its own process) over a home filled as in `benchmarks.query.query_latency`, with a thumbnail for each
picture, and headless Chromium on the same machine. Each round opens the page in a new window, with nothing cached, asks a
few questions in it, and scrolls through as many results as there are pictures. An answer of the service has at most 1,200
results, so the list that is scrolled is made up; its thumbnails are the service's.

First paint is Chromium's first contentful paint. A picture counts as painted when Chromium's element timing says so. Tasks
are those of the page's main thread in Chromium's trace, by the clock and by the processor time of that thread. On a machine
that does other things too, a task by the clock also holds what the others took. The peer of the first pictures is the API
alone: the first `results` event of a stream that a plain client reads, in the same round.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
from PIL import Image

from benchmarks.data.filled_home import sentences
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.chromium import chromium
from benchmarks.harness.tables import spread
from benchmarks.loading.service import fill_home, flags_for, running, settings_of
from lodestone.home.runtime import Runtime

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES: Final = ((320, 240), (240, 320), (320, 213), (320, 320))
_THUMBNAILS, _PAGE, _WARM = 48, 200, 8
_WAIT_S: Final = 20.0
_LONG_MS: Final = (50.0, 100.0)
_TRACED: Final = ("toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline")
_TASKS: Final = ("RunTask", "ThreadControllerImpl::RunTask")
_WATCH: Final = """
window.painted = []; window.entered = 0;
addEventListener("keydown", (event) => {
  if (event.key === "Enter") { window.painted = []; window.entered = event.timeStamp; }
}, true);
new MutationObserver(() => {
  for (const img of document.querySelectorAll(".tile img:not([elementtiming])")) img.setAttribute("elementtiming", "tile");
}).observe(document, { childList: true, subtree: true });
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.painted.push(entry.renderTime || entry.loadTime);
}).observe({ type: "element", buffered: true });
"""


@dataclass
class Rounds:
    """What the rounds measured.

    Attributes:
        first_paint: Milliseconds to the first contentful paint, one a round.
        first_byte: Milliseconds to the page's first byte, one a round.
        kilobytes: What the page transferred until it was ready, without pictures, one a round.
        pictures: Milliseconds from Enter to the first picture, one a question.
        api: Milliseconds to the first results of the API alone, one a question.
        longest: Milliseconds of the longest task while scrolling, one a round.
        busiest: Milliseconds of processor time of the task that took most, one a round.
        long: Tasks while scrolling that are longer than each of `_LONG_MS`, one list a round.
    """

    first_paint: list[float] = field(default_factory=list)
    first_byte: list[float] = field(default_factory=list)
    kilobytes: list[float] = field(default_factory=list)
    pictures: list[float] = field(default_factory=list)
    api: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)
    busiest: list[float] = field(default_factory=list)
    long: list[list[int]] = field(default_factory=list)


def write_thumbnails(runtime: Runtime, points: int) -> None:
    """Give each picture of a filled home a thumbnail of a photo's size: smooth fields with grain."""
    rng = np.random.default_rng(11)
    drawn = []
    for number in range(_THUMBNAILS):
        width, height = SIZES[number % len(SIZES)]
        small = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        field_ = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), np.float32)
        pixels = np.clip(field_ + rng.normal(0, 6, field_.shape), 0, 255).astype(np.uint8)
        output = io.BytesIO()
        Image.fromarray(pixels).save(output, "JPEG", quality=82)
        drawn.append(output.getvalue())
    for number in range(points):
        runtime.thumbnails.put(f"{number:064x}", drawn[number % _THUMBNAILS])


def identifiers(url: str, corpus: str = "bench") -> list[str]:
    """Return the ids of all pictures of a corpus."""
    found: list[str] = []
    params: dict[str, str | int] = {"corpus": corpus, "limit": _PAGE, "fields": "images.image_id,next_cursor"}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        while True:
            page = client.get("/v1/images", params=params).raise_for_status().json()
            found += [image["image_id"] for image in page["images"]]
            if not page["next_cursor"]:
                return found
            params["cursor"] = page["next_cursor"]


def made_up_answer(ids: Sequence[str]) -> str:
    """Return a stream whose answer has a result for each id, of pictures of several shapes."""
    hits = [
        {
            "rank": number + 1, "image_id": image_id, "score": 1.0, "corpus": "bench", "root": "bench", "uri": f"{number}.jpg",
            "width": SIZES[number % len(SIZES)][0], "height": SIZES[number % len(SIZES)][1], "captions": [],
            "thumbnail": f"/v1/images/{image_id}/thumbnail", "copies": 0, "missing": False,
        }
        for number, image_id in enumerate(ids)
    ]  # fmt: skip
    response = {
        "query_id": "11111111-2222-4333-8444-555555555555", "stage": "text", "hits": hits, "next_offset": None,
        "fusion": "rrf", "space_weights": {}, "parts": [], "guides": [], "confidence": 0.9, "probably_nothing": False,
        "dropped": [], "warnings": [], "timings_ms": {"total": 1.0},
    }  # fmt: skip
    return f"event: done\ndata: {json.dumps({'type': 'done', 'response': response})}\n\n"


def opened(page: Page, rounds: Rounds) -> None:
    """Open the page with nothing cached, and note its first paint and its bytes."""
    kinds: dict[str, str] = {}
    transferred = {"pictures": 0.0, "rest": 0.0}

    def ended(event: Mapping[str, Any]) -> None:
        kind = "pictures" if kinds.get(event["requestId"]) == "Image" else "rest"
        transferred[kind] += event["encodedDataLength"]

    protocol = page.context.new_cdp_session(page)
    protocol.send("Network.enable")
    protocol.on("Network.responseReceived", lambda event: kinds.__setitem__(event["requestId"], event["type"]))
    protocol.on("Network.loadingFinished", ended)
    page.goto("/", wait_until="networkidle")
    rounds.first_paint.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    rounds.first_byte.append(page.evaluate("performance.getEntriesByType('navigation')[0].responseStart"))
    rounds.kilobytes.append(transferred["rest"] / 1000)
    protocol.detach()


def asked(page: Page, words: str) -> float:
    """Ask for words in the page; return the milliseconds from Enter to the first picture."""
    until = time.monotonic() + _WAIT_S
    while page.locator(".tile.loading").count() and time.monotonic() < until:
        page.wait_for_timeout(50)  # pictures of the question before would be painted after Enter too
    page.wait_for_timeout(100)
    page.get_by_role("combobox").fill(words)
    page.keyboard.press("Enter")
    page.locator("main[aria-busy=false]").wait_for()
    until = time.monotonic() + _WAIT_S
    while not (painted := page.evaluate("painted.filter((at) => at > entered).map((at) => at - entered)")):
        if time.monotonic() > until:
            raise RuntimeError(f"no picture was painted for {words!r}")
        page.wait_for_timeout(20)
    return float(min(painted))


def first_results(client: httpx.Client, words: str) -> float:
    """Return the milliseconds to the first results of the API alone."""
    started = time.perf_counter()
    with client.stream("POST", "/v1/search/stream", json={"query": words, "limit": 80}) as answer:
        for line in answer.iter_lines():
            if line.startswith("event: results"):
                return (time.perf_counter() - started) * 1000
    raise RuntimeError(f"no results for {words!r}")


def scrolled(browser: Browser, page: Page, answer: str, rounds: Rounds) -> None:
    """Scroll through a long answer, by wheel and in jumps, and note the tasks of the page's main thread."""
    page.route("**/v1/search/stream", lambda route: route.fulfill(content_type="text/event-stream", body=answer))
    page.get_by_role("combobox").fill("everything")
    page.keyboard.press("Enter")
    page.locator("main[aria-busy=false] .tile:not(.loading)").first.wait_for()
    page.wait_for_timeout(500)
    page.mouse.move(600, 500)
    browser.start_tracing(page=page, categories=list(_TRACED))
    for _ in range(40):
        page.mouse.wheel(0, 1200)
        page.wait_for_timeout(30)
    for share in (0.25, 0.5, 0.75, 1.0, 0.0):
        page.evaluate("(share) => scrollTo(0, share * document.documentElement.scrollHeight)", share)
        page.wait_for_timeout(300)
    tasks = list(main_thread_tasks(json.loads(browser.stop_tracing())))
    rounds.longest.append(max(length for length, _ in tasks))
    rounds.busiest.append(max(processor for _, processor in tasks))
    rounds.long.append([sum(length > bound for length, _ in tasks) for bound in _LONG_MS])


def main_thread_tasks(trace: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the milliseconds of each task of the busiest page's main thread: by the clock, and of processor time."""
    events = trace["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    tasks: dict[tuple[int, int], list[tuple[float, float]]] = {thread: [] for thread in mains}
    for event in events:
        if event["ph"] == "X" and event["name"] in _TASKS and (thread := (event["pid"], event["tid"])) in mains:
            tasks[thread].append((event["dur"] / 1000, event.get("tdur", 0) / 1000))
    yield from max(tasks.values(), key=lambda of_thread: sum(processor for _, processor in of_thread))


def measure(options: argparse.Namespace, report: Report) -> None:
    """Fill a home, serve it, and use its page."""
    words = sentences(4 * options.rounds * options.queries + 4 * _WARM)[::-1]
    rounds = Rounds()
    with tempfile.TemporaryDirectory() as folder:
        flags = flags_for(options.home or Path(folder) / "home")
        if options.home is None:
            fill_home(flags, points=options.points, captioned=options.captioned)
            with Runtime.open(settings_of(flags)) as runtime:
                write_thumbnails(runtime, options.points)
        with running(flags) as service, chromium() as browser, httpx.Client(base_url=service.url, trust_env=False) as api:
            answer = made_up_answer(identifiers(service.url))
            for _ in range(_WARM):
                first_results(api, words.pop())
            for _ in range(options.rounds):
                window = browser.new_context(base_url=service.url, viewport={"width": 1280, "height": 800})
                window.add_init_script(_WATCH)
                page = window.new_page()
                opened(page, rounds)
                for _ in range(options.queries):
                    rounds.api.append(first_results(api, words.pop()))
                    rounds.pictures.append(asked(page, words.pop()))
                scrolled(browser, page, answer, rounds)
                window.close()
    report.text(f"{options.points} pictures, {options.rounds} new windows, {options.queries} questions in each.")
    rows = {
        "first contentful paint, ms": rounds.first_paint,
        "first byte of the page, ms": rounds.first_byte,
        "transferred without pictures, kB": rounds.kilobytes,
        "first picture after Enter, ms": rounds.pictures,
        "first results of the API alone, ms": rounds.api,
        "longest task while scrolling, ms": rounds.longest,
        "longest task while scrolling, processor ms": rounds.busiest,
        **{
            f"tasks longer than {bound:g} ms": list(counts)
            for bound, counts in zip(_LONG_MS, zip(*rounds.long, strict=True), strict=True)
        },
    }
    report.table([["what", "median [quartiles]"], *([name, spread(values)] for name, values in rows.items())])
    report.record("first contentful paint", rounds.first_paint)
    report.record("first byte", rounds.first_byte)
    report.record("transferred without pictures", rounds.kilobytes)
    report.record("first picture after Enter", rounds.pictures)
    report.record("first results of the API", rounds.api)
    report.record("longest task while scrolling", rounds.longest)
    report.record("processor time of the longest task while scrolling", rounds.busiest)
    report.record("tasks over 100 ms while scrolling", [float(counts[-1]) for counts in rounds.long])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=5, help="questions in each round")
    parser.add_argument("--home", type=Path, help="a home that is filled already")


BENCHMARK = Benchmark(
    name="search_page",
    about=__doc__,
    figures=(
        Figure("first contentful paint", "ms", peer="the first byte of the same page"),
        Figure("first byte", "ms"),
        Figure("transferred without pictures", "kB"),
        Figure("first picture after Enter", "ms", peer="the first results of the API alone, read by a plain client"),
        Figure("first results of the API", "ms"),
        Figure("longest task while scrolling", "ms"),
        Figure("processor time of the longest task while scrolling", "ms"),
        Figure("tasks over 100 ms while scrolling", "count"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
