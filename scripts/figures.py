"""Figures of the documentation, drawn as SVG from tables of boxes and arrows.

    python -m scripts.figures            # write docs/figures/*.svg
    python -m scripts.figures --check    # fail if they are out of date

The figures follow the reader's light or dark setting, and hold their own title and description for screen readers. Exit codes:
0 written, or current; 1 out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "figures"
_TITLE_PX, _TEXT_PX, _LINE_PX = 8.1, 6.6, 17  # widest usual width of a letter, height of a line

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.box { fill: #f6f8fa; stroke: #57606a }
.store { fill: #ddf4ff; stroke: #0969da }
.frame { fill: none; stroke: #57606a; stroke-dasharray: 5 4 }
.arrow { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#head) }
.head { fill: #57606a }
.event { fill: #fff8c5; stroke: #9a6700 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .box { fill: #21262d; stroke: #8b949e }
  .store { fill: #0c2d6b; stroke: #58a6ff }
  .frame { stroke: #8b949e }
  .arrow { stroke: #8b949e }
  .head { fill: #8b949e }
  .event { fill: #3d2e00; stroke: #d29922 }
}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A box with a title and lines of text; sizes in pixels.

    Attributes:
        kind: `box` for a step, `store` for what is kept.
        event: Event that the step sends, drawn as a label on its upper edge.
    """

    x: int
    y: int
    title: str
    lines: tuple[str, ...] = ()
    width: int = 150
    height: int = 66
    kind: str = "box"
    event: str = ""

    def overflow(self) -> list[str]:
        """Return the texts that are wider or higher than the box."""
        wide = [line for line in self.lines if len(line) * _TEXT_PX > self.width - 8]
        high = [self.title] if 24 + len(self.lines) * _LINE_PX > self.height else []
        return [*([self.title] if len(self.title) * _TITLE_PX > self.width - 8 else []), *wide, *high]

    def svg(self) -> str:
        """Return the elements of the box."""
        middle = self.x + self.width / 2
        radius = 16 if self.kind == "store" else 5
        parts = [
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="{radius}"/>'
        ]
        top = self.y + self.height / 2 - len(self.lines) * _LINE_PX / 2 + 5
        parts.append(f'<text class="title" text-anchor="middle" x="{middle:g}" y="{top:g}">{escape(self.title)}</text>')
        for number, line in enumerate(self.lines, 1):
            parts.append(f'<text text-anchor="middle" x="{middle:g}" y="{top + number * _LINE_PX:g}">{escape(line)}</text>')
        if self.event:
            width = len(self.event) * _TEXT_PX + 14
            left = self.x + self.width - width - 6
            parts.append(f'<rect class="event" x="{left:g}" y="{self.y - 11}" width="{width:g}" height="20" rx="10"/>')
            parts.append(f'<text text-anchor="middle" x="{left + width / 2:g}" y="{self.y + 3}">{escape(self.event)}</text>')
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow through points, with a label beside one of them."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    label_at: tuple[int, int] = (0, 0)

    def svg(self) -> str:
        """Return the elements of the arrow."""
        path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(self.points))
        text = f'\n<text x="{self.label_at[0]}" y="{self.label_at[1]}">{escape(self.label)}</text>' if self.label else ""
        return f'<path class="arrow" d="{path}"/>{text}'


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its size, its texts for readers who do not see it, and what is on it.

    Attributes:
        frames: Dashed frames around several boxes, with a label: (x, y, width, height, label).
    """

    width: int
    height: int
    title: str
    description: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    frames: tuple[tuple[int, int, int, int, str], ...] = ()
    note: str = ""

    def svg(self) -> str:
        """Return the file's content."""
        frames = [
            f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>\n'
            f'<text x="{x + 10}" y="{y + 18}">{escape(label)}</text>'
            for x, y, width, height, label in self.frames
        ]
        note = [f'<text x="20" y="{self.height - 12}">{escape(self.note)}</text>'] if self.note else []
        head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img"',
                'aria-labelledby="title text">',
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="text">{escape(self.description)}</desc>',
                f"<style>{_STYLE}</style>",
                f'<defs>{head}<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
                *frames,
                *(arrow.svg() for arrow in self.arrows),
                *(box.svg() for box in self.boxes),
                *note,
                "</svg>",
                "",
            ]
        )


def _right(x: int, y: int) -> Arrow:
    """Return an arrow to the right, from the box that ends at x to the next one in its row."""
    return Arrow(((x, y), (x + 28, y)))


def _left(x: int, y: int) -> Arrow:
    return Arrow(((x, y), (x - 28, y)))


QUERY: Final = Figure(
    940,
    566,
    "How a query flows",
    "A query is resolved and encoded, and its words are searched in every space: the first results. A gate ends simple "
    "queries there. For the others, engines draw guides; the guides are embedded, unlike ones are left out, the rest is "
    "searched, and all lists are fused into better results, in rounds until the results are stable. The answer is recorded.",
    (
        Box(20, 30, "Query", ("words, pictures,", "or both")),
        Box(200, 30, "Resolve", ("names, settings,", "deadline"), event="plan"),
        Box(380, 30, "Encode", ("words to vectors",)),
        Box(560, 30, "Text pass", ("every space,", "captions, tags"), event="results"),
        Box(740, 30, "Gate", ("is that enough?",)),
        Box(740, 190, "Guides", ("own pictures, models,", "services"), event="guide"),
        Box(560, 190, "Embed", ("guides to vectors",)),
        Box(380, 190, "Outliers", ("unlike guides", "are left out")),
        Box(200, 190, "Search", ("each guide in", "each space")),
        Box(20, 190, "Fuse", ("one ranking of words", "and all guides"), event="results"),
        Box(380, 356, "Answer", ("says what was", "left out, and why"), event="done"),
        Box(380, 462, "Record", ("explain, replay,", "feedback"), kind="store"),
    ),
    (
        *(_right(x, 63) for x in (170, 350, 530, 710)),
        Arrow(((815, 96), (815, 188)), "complex", (824, 130)),
        *(_left(x, 223) for x in (740, 560, 380, 200)),
        Arrow(((60, 256), (60, 389), (378, 389)), "stable, or the time is over", (70, 380)),
        Arrow(
            ((120, 256), (120, 306), (790, 306), (790, 258)), "the next round, while the first results still change", (300, 298)
        ),
        Arrow(((890, 63), (916, 63), (916, 389), (532, 389)), "simple", (868, 380)),
        Arrow(((455, 422), (455, 460))),
    ),
    note="Labels on boxes are the events of a stream. What does not fit into the deadline is left out, guides first.",
)

INDEXING: Final = Figure(
    940,
    484,
    "How indexing flows",
    "Sources are listed, and what is new, changed, moved or gone is found. Work is cut into slices of at most 256 pictures. "
    "Workers fetch, decode, embed and write each slice into Parquet files, and the catalog keeps a receipt. From the files, "
    "vectors are projected into spaces, loaded into collections, verified, and put in force by moving an alias.",
    (
        Box(20, 60, "Sources", ("folders, buckets,", "tables, archives")),
        Box(200, 60, "Discover", ("new, changed,", "moved, gone")),
        Box(380, 60, "Slices", ("at most 256", "pictures each")),
        Box(572, 60, "Fetch", ("bytes",), width=80),
        Box(666, 60, "Decode", ("pixels",), width=80),
        Box(760, 60, "Embed", ("models",), width=80),
        Box(854, 60, "Write", ("once",), width=66),
        Box(200, 210, "Catalog", ("pictures, captions,", "receipts, failures"), kind="store"),
        Box(750, 210, "Parquet files", ("outputs of models,", "captions"), width=170, kind="store"),
        Box(750, 370, "Project", ("outputs to spaces",), width=170),
        Box(560, 370, "Load", ("into a collection", "of this version")),
        Box(380, 370, "Verify", ("counts, slices,", "samples")),
        Box(200, 370, "Promote", ("the alias moves",)),
        Box(20, 370, "Searches", ("see one version",)),
    ),
    (
        *(_right(x, 93) for x in (170, 350)),
        Arrow(((530, 93), (558, 93))),
        *(Arrow(((x, 93), (x + 12, 93))) for x in (652, 746, 840)),
        Arrow(((275, 126), (275, 208))),
        Arrow(((887, 126), (887, 208))),
        Arrow(((640, 142), (640, 243), (352, 243)), "a receipt for each slice", (420, 236)),
        Arrow(((835, 276), (835, 368))),
        Arrow(((750, 403), (712, 403))),
        *(_left(x, 403) for x in (560, 380, 200)),
        Arrow(((275, 276), (275, 320), (455, 320), (455, 368)), "compared with the catalog", (290, 312)),
    ),
    ((560, 24, 370, 118, "Worker: several slices at once, models stay loaded"),),
    note="Catalog and Parquet files are the truth. Every collection can be made from them again, without running a model.",
)

FIGURES: Final[Mapping[str, Figure]] = {"query-flow.svg": QUERY, "indexing-flow.svg": INDEXING}


def stale(folder: Path = FOLDER) -> list[str]:
    """Return the names of figures whose files are missing or differ."""
    return [
        name
        for name, figure in FIGURES.items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != figure.svg()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the files are out of date")
    options = parser.parse_args(arguments)
    names = stale()
    if options.check:
        for name in names:
            print(f"{FOLDER / name} is not current: run python -m scripts.figures", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        (FOLDER / name).write_text(FIGURES[name].svg(), encoding="utf-8")
    print(f"wrote {len(names)} figures to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
