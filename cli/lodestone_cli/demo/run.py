"""Steps of the demonstration: index, ask, train on the names of half of the drawings, ask again, draw the sheet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lodestone.sources.uris import path_of
from lodestone_cli.demo.pictures import DemoPictures, write_pictures
from lodestone_cli.demo.sheet import SheetRow, write_sheet
from lodestone_cli.demo.words import QUESTIONS, DemoQuery
from lodestone_schemas.api import SearchFilters, SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.indexing.progress import Progress

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
