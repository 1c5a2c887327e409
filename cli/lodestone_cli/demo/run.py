"""Demonstration: index, ask thirty questions, train on the names of half of the drawings, ask again, draw the sheet.

The questions and the pictures that answer each were written down before anything was tuned,
and stay as they are (the key for boats was completed once: the list of names that it was written from had missed the motor
boat and the ferry). A question about a photo is answered by that photo alone; one about a drawing by any drawing of the
unnamed half whose (hidden) name matches the pattern. Each is asked of its own collection, as `--corpus` does, and all are
asked once more over both collections together.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont, ImageOps

from lodestone.sources.uris import path_of
from lodestone_cli.demo.pictures import DemoPictures, write_pictures
from lodestone_schemas.api import SearchFilters, SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.progress import Progress


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """Words to search for, and a pattern that matches the hidden names of the right pictures.

    Attributes:
        words: The question.
        right: Pattern of the names that answer it.
        about: "photo" or "drawing".
        shows: What the right photo shows, for the people who read the list; empty for drawings, which have names.
    """

    words: str
    right: str
    about: str
    shows: str = ""

    def is_answered_by(self, kind: str, name: str) -> bool:
        """Return whether a picture of this kind, with this hidden name, is a right answer."""
        return kind == self.about and re.search(rf"\b(?:{self.right})\b", name, flags=re.IGNORECASE) is not None


QUESTIONS: tuple[DemoQuery, ...] = (
    DemoQuery("a tabby cat", "chelsea", "photo", "the face of a tabby cat"),
    DemoQuery("a cup of coffee with a spoon", "coffee", "photo", "a red cup of coffee on a saucer, with a spoon"),
    DemoQuery("an astronaut in a space suit", "astronaut", "photo", "an astronaut in an orange suit, beside her helmet"),
    DemoQuery("a rocket on the launch pad", "rocket", "photo", "a rocket between towers at dusk"),
    DemoQuery("a motorcycle in a garage", "motorcycle_left|motorcycle_right", "photo", "a red motorcycle in a garage"),
    DemoQuery(
        "a man looking through a camera on a tripod", "camera", "photo", "a man at a camera on a tripod, in black and white"
    ),
    DemoQuery("a red apple", "red apple", "drawing"),
    DemoQuery("a person rowing a boat", "(?:person|man|woman) rowing boat", "drawing"),
    DemoQuery("a birthday cake", "birthday cake", "drawing"),
    DemoQuery("an elephant", "elephant|mammoth", "drawing"),
    DemoQuery("a police car", "(?:oncoming )?police car", "drawing"),
    DemoQuery("a smiling cat", "grinning cat", "drawing"),
    DemoQuery("a castle", "castle|Japanese castle", "drawing"),
    DemoQuery("a bus", "oncoming bus|minibus|bus stop", "drawing"),
    DemoQuery("a boat on the water", "sailboat|speedboat|canoe|motor boat|ferry", "drawing"),
    DemoQuery("a slice of watermelon", "watermelon", "drawing"),
    DemoQuery("a surfer riding a wave", "(?:person|man) surfing", "drawing"),
    DemoQuery("a snake", "snake", "drawing"),
    DemoQuery("a musical instrument", "banjo|saxophone|accordion|trombone|long drum|musical keyboard", "drawing"),
    DemoQuery("a flower", "rose|tulip|hibiscus|blossom|hyacinth|white flower|wilted flower", "drawing"),
    DemoQuery("a mushroom", "mushroom", "drawing"),
    DemoQuery("an owl", "owl", "drawing"),
    DemoQuery("a dinosaur", "T-Rex|sauropod", "drawing"),
    DemoQuery("a volcano", "volcano", "drawing"),
    DemoQuery("a heart", "heart", "drawing"),
    DemoQuery("what time is it", "o.clock|thirty|watch|alarm clock", "drawing"),
    DemoQuery("a glass of beer", "beer mugs?", "drawing"),
    DemoQuery("a house", "house|house with garden|hut", "drawing"),
    DemoQuery("a fire truck", "fire engine", "drawing"),
    DemoQuery("a turtle", "turtle", "drawing"),
)


TOP = 5
PHOTOS, DRAWINGS = CORPORA = "demo-photos", "demo-drawings"


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """One question with the ranks of its right pictures before and after training.

    Attributes:
        words: The question.
        about: "photo" or "drawing".
        shows: What the right photo shows; empty for drawings.
        places: Rank of the first right picture among the first five before and after training, None if there is none.
        together: The same after training, asked over photos and drawings together.
        right: Name of the first right picture among the first five after training (hidden from the search); empty for none.
    """

    words: str
    about: str
    shows: str
    places: tuple[int | None, int | None]
    together: int | None
    right: str

    @property
    def solved(self) -> bool:
        """Return whether a right picture is among the first five after training."""
        return self.places[1] is not None


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Results of the demonstration: answers, counts of pictures, durations in seconds, and the contact sheet."""

    answers: tuple[DemoAnswer, ...]
    photos: int
    drawings: int
    named: int
    training_seconds: float
    seconds: float
    sheet: Path

    def as_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can represent."""
        return {**asdict(self), "sheet": str(self.sheet), "solved": sum(answer.solved for answer in self.answers)}


@dataclass(frozen=True, slots=True)
class _Found:
    """Pictures found for one question, best first, each as (file, whether it is right)."""

    pictures: tuple[tuple[Path, bool], ...]

    @property
    def right(self) -> Path | None:
        """File of the first right picture among the first five."""
        return None if self.place is None else self.pictures[self.place - 1][0]

    @property
    def place(self) -> int | None:
        """Rank of the first right picture among the first five."""
        return next((rank for rank, (_, right) in enumerate(self.pictures[:TOP], start=1) if right), None)


def run_demo(runtime: Runtime, *, say: Callable[[str], None], progress: Progress) -> DemoReport:
    """Run the whole demonstration in this home.

    Args:
        runtime: A home of its own; running it there again is quick, and begins from the bridge that ships.
        say: Called with a short sentence before each step.
        progress: Receives the progress events of the longer steps.

    Raises:
        ModelUnavailableError: packages that bring pictures or models are missing.
    """
    from lodestone_jobs.index import run_index

    started = time.perf_counter()
    folder = runtime.home.path / "demo"
    say("writing photos and drawings to files")
    pictures = write_pictures(folder / "pictures")
    runtime.catalog.deactivate_artifacts("bridge")
    say(f"indexing {len(list(pictures.photos.iterdir()))} photos")
    run_index(runtime, [pictures.photos], corpus=PHOTOS, progress=progress)
    about_photos = [question for question in QUESTIONS if question.about == "photo"]
    before = asyncio.run(_ask(runtime, pictures, about_photos, _own, progress))
    say("What six questions find among the photos:")
    for line in _photos_found(about_photos, before):
        say(line)
    say("Drawings are harder, because the models learnt from photos. indexing drawings")
    run_index(runtime, [pictures.unnamed], corpus=DRAWINGS, progress=progress)
    about_drawings = [question for question in QUESTIONS if question.about == "drawing"]
    say(f"asking {len(about_drawings)} questions about drawings")
    before += asyncio.run(_ask(runtime, pictures, about_drawings, _own, progress))
    say("training the bridge on the names of the other drawings, and measuring what it learnt")
    seconds, named = _train(runtime, pictures, progress)
    say("asking again")
    after = asyncio.run(_ask(runtime, pictures, QUESTIONS, _own, progress))
    say("asking photos and drawings together")
    together = asyncio.run(_ask(runtime, pictures, QUESTIONS, _both, progress))
    sheet = folder / "contact-sheet.png"
    rows = [
        SheetRow(q.words, first.pictures, second.pictures) for q, first, second in zip(QUESTIONS, before, after, strict=True)
    ]
    write_sheet(rows, sheet, top=TOP)
    asked = zip(QUESTIONS, before, after, together, strict=True)
    return DemoReport(
        answers=tuple(_answer(question, *found, pictures=pictures) for question, *found in asked),
        photos=sum(path.parent == pictures.photos for path in pictures.names),
        drawings=sum(path.parent == pictures.unnamed for path in pictures.names),
        named=named,
        training_seconds=seconds,
        seconds=time.perf_counter() - started,
        sheet=sheet,
    )


def _photos_found(questions: Sequence[DemoQuery], answers: Sequence[_Found]) -> list[str]:
    """Return a line for each question about a photo: there is something to see before the training, which takes a minute."""
    lines = []
    for question, answer in zip(questions, answers, strict=True):
        if answer.right is None:
            found = "not among the first five before the training"
        else:
            place = "" if answer.place == 1 else f", as picture {answer.place}"
            found = f"{question.shows} ({answer.right.name}){place}"
        lines.append(f'  "{question.words}": {found}')
    return lines


def _train(runtime: Runtime, pictures: DemoPictures, progress: Progress) -> tuple[float, int]:
    from lodestone.sources.captions import CaptionTable
    from lodestone.training.retrain import retrain_bridge
    from lodestone.training.sources import captioned_folder

    named = captioned_folder(
        pictures.named,
        CaptionTable.load(pictures.named_captions),
        runtime.backbones(),
        max_decoded_bytes=runtime.settings.index.max_decoded_mb << 20,
        progress=progress,
    )
    report = retrain_bridge(runtime, named, progress=progress)
    return report.training.seconds, report.training.pictures


def _own(question: DemoQuery) -> list[str]:
    return [PHOTOS if question.about == "photo" else DRAWINGS]


def _both(_: DemoQuery) -> list[str]:
    return [PHOTOS, DRAWINGS]


async def _ask(
    runtime: Runtime,
    pictures: DemoPictures,
    questions: Sequence[DemoQuery],
    corpora: Callable[[DemoQuery], list[str]],
    progress: Progress,
) -> list[_Found]:
    from lodestone.indexing.progress import Meter, RunStage

    meter = Meter(progress, RunStage.ASK, total=len(questions))
    engine = runtime.engine()
    await engine.warm_up()
    folders = {root.name: Path(root.path) for root in runtime.catalog.roots(None)}
    found = []
    for question in questions:
        filters = SearchFilters(corpora=corpora(question))
        response = await engine.answer(SearchRequest(query=question.words, limit=TOP, filters=filters))
        found.append(_judged(question, response, folders, pictures))
        meter.add(1)
    return found


def _judged(question: DemoQuery, response: SearchResponse, folders: dict[str, Path], pictures: DemoPictures) -> _Found:
    judged: list[tuple[Path, bool]] = []
    for hit in response.hits:
        path = path_of(folders[hit.root], hit.uri)
        kind = "photo" if path.parent == pictures.photos else "drawing"
        judged.append((path, question.is_answered_by(kind, pictures.names[path])))
    return _Found(tuple(judged))


def _answer(question: DemoQuery, before: _Found, after: _Found, together: _Found, *, pictures: DemoPictures) -> DemoAnswer:
    name = "" if after.right is None else pictures.names[after.right]
    places = (before.place, after.place)
    return DemoAnswer(question.words, question.about, question.shows, places, together.place, name)


_CELL, _GAP, _TEXT, _HEAD = 88, 6, 330, 40
_RIGHT, _WRONG, _INK, _PAPER = "#178a3a", "#d8d8d8", "#1c1c1c", "#ffffff"


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One question with the best pictures before and after training, each with whether it is right."""

    words: str
    before: Sequence[tuple[Path, bool]]
    after: Sequence[tuple[Path, bool]]


def write_sheet(rows: Sequence[SheetRow], path: Path, *, top: int = 5) -> None:
    """Draw the sheet as PNG. Right answers have a green frame."""
    side = top * (_CELL + _GAP)
    width = _TEXT + 2 * side + 4 * _GAP
    sheet = Image.new("RGB", (width, _HEAD + len(rows) * (_CELL + _GAP) + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = ImageFont.load_default(17), ImageFont.load_default(15)
    columns = (_TEXT, _TEXT + side + 3 * _GAP)
    for left, title in zip(columns, ("before training", "after training on the other half's names"), strict=True):
        draw.text((left, 12), title, font=font, fill=_INK)
    for number, row in enumerate(rows):
        y = _HEAD + number * (_CELL + _GAP)
        solved = any(right for _, right in row.after[:top])
        draw.text((_GAP * 2, y + _CELL // 2 - 10), row.words, font=small, fill=_RIGHT if solved else _INK)
        for left, answers in zip(columns, (row.before, row.after), strict=True):
            for place, (picture, right) in enumerate(answers[:top]):
                x = left + place * (_CELL + _GAP)
                sheet.paste(_cell(picture), (x, y))
                draw.rectangle(
                    (x, y, x + _CELL - 1, y + _CELL - 1), outline=_RIGHT if right else _WRONG, width=3 if right else 1
                )
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, format="PNG")


def _cell(picture: Path) -> Image.Image:
    with Image.open(picture) as opened:
        return ImageOps.pad(opened.convert("RGB"), (_CELL, _CELL), color=_PAPER)
