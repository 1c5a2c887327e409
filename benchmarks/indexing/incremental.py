"""Cost of bringing an index up to date after 1 % of the files were added, 1 % changed, 1 % moved and 1 % deleted.

Generated pictures are copied, indexed once, then changed; the next run is measured. There are two peers: indexing everything
again, which is necessary when it is not known what changed, and a bare walk that asks the system for every file's size and
time, which is the least that any program must do. The benchmark also checks results: the run embeds the new and changed
pictures and no other, moved pictures keep their ids and tags, no stored file is written again, and search finds exactly the
present pictures.

    python -m benchmarks.indexing.incremental --pictures 10000 --models FOLDER
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.data.pictures import generate
from benchmarks.harness import Benchmark, Figure, Report
from lodestone.catalog.records import ImageState
from lodestone.config.settings import IndexSettings, ModelSettings, Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.tags.search import TagSearch
from lodestone_schemas.api import SearchOptions

_SHARE = 0.01


def measure(options: argparse.Namespace, report: Report) -> None:
    """Index once, then change files and index again in every round."""
    each = max(1, round(options.pictures * _SHARE))
    made = generate(options.cache / "pictures", options.pictures + options.rounds * 2 * each)
    with tempfile.TemporaryDirectory(prefix="lodestone-incremental-") as scratch:
        folder, spare = Path(scratch) / "pictures", made[options.pictures :]
        for path in made[: options.pictures]:
            target = folder / path.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        settings = Settings(
            home=Path(scratch) / "home",
            models=ModelSettings(cache=options.models),
            index=IndexSettings(executor=options.executor),
        )
        first_run = _index(settings, folder)
        runs, walks = [], []
        for number in range(options.rounds):
            moved = _change(settings, folder, spare[2 * each * number :], each, number)
            walks.append(_walk(folder))
            changed_run = _index(settings, folder)
            _check(settings, changed_run, moved, each)
            runs.append(changed_run)
        unchanged_run = _index(settings, folder)
    report.text(f"{options.pictures} pictures, {each} of each kind changed a round, {options.rounds} rounds.")
    report.record("seconds of a run", [run.seconds for run in runs], case="after 1 % of each kind of change")
    report.record("seconds of a run", first_run.seconds, case="peer: indexing everything (the first run)")
    report.record("seconds of a run", walks, case="peer: a bare walk with sizes and times")
    report.record("seconds of a run", unchanged_run.seconds, case="with nothing changed")
    report.record("share of indexing everything", [run.seconds / first_run.seconds for run in runs])
    report.record("pictures embedded a picture added or changed", [run.counts["embedded"] / (2 * each) for run in runs])
    report.record("pictures embedded with nothing changed", unchanged_run.counts.get("embedded", 0))
    report.text("Ids, tags, stored files and answers are as they should be.")


def _index(settings: Settings, folder: Path) -> IndexReport:
    with Runtime.open(settings, purpose="a benchmark") as runtime:
        return index_paths(runtime, IndexRequest((str(folder),)))


def _change(settings: Settings, folder: Path, spare: list[Path], each: int, number: int) -> dict[str, str]:
    """Change files; return the new uri -> image id of those that moved."""
    files = sorted(path for path in folder.rglob("*.jpg"))
    step = len(files) // (3 * each)
    chosen = files[:: max(step, 1)][: 3 * each]
    changed, moved, deleted = chosen[:each], chosen[each : 2 * each], chosen[2 * each :]
    with Runtime.open(settings, purpose="a benchmark") as runtime:
        (root,) = runtime.catalog.roots(None)
        ids = {image.uri: image.image_id for image in runtime.catalog.images_of_root(root.root_id)}
        runtime.tags.add([ids[path.relative_to(folder).as_posix()] for path in moved[:20]], f"kept through round {number}")
        runtime.deliver_tags()
    for path, new in zip(changed, spare[:each], strict=True):
        shutil.copyfile(new, path)
    expected = {}
    for path in moved:
        target = folder / "moved" / str(number) / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        expected[target.relative_to(folder).as_posix()] = ids[path.relative_to(folder).as_posix()]
    for path in deleted:
        path.unlink()
    added = folder / "added" / str(number)
    added.mkdir(parents=True)
    for new in spare[each : 2 * each]:
        shutil.copyfile(new, added / new.name)
    return expected


def _check(settings: Settings, report: IndexReport, moved: dict[str, str], each: int) -> None:
    expected = {"new": each, "changed": each, "moved": each, "embedded": 2 * each}
    counts = {name: report.counts.get(name, 0) for name in expected}
    if counts != expected:
        raise SystemExit(f"the run did {counts}, not {expected}")
    with Runtime.open(settings, purpose="a benchmark") as runtime:
        (root,) = runtime.catalog.roots(None)
        images = [image for image in runtime.catalog.images_of_root(root.root_id) if image.state is ImageState.ACTIVE]
        ids = {image.uri: image.image_id for image in images}
        if any(ids.get(uri) != image_id for uri, image_id in moved.items()):
            raise SystemExit("a moved picture has another id")
        if runtime.store.count(runtime.store.aliases()[runtime.profile.spaces[0]]) != len(ids):
            raise SystemExit("the collection does not hold what the catalog says")
        added = [image_id for uri, image_id in ids.items() if uri.startswith("added/")]
        asyncio.run(_ask(runtime, added[-1], next(iter(moved.values()))))


async def _ask(runtime: Runtime, added: str, moved: str) -> None:
    engine = runtime.engine()
    await engine.warm_up()
    like = await engine.similar(added, SearchOptions(limit=5))
    tagged = TagSearch(runtime.store).search("kept through round", runtime.store.aliases()["tags"], limit=1_000).found
    if not like.hits or moved not in tagged.ids:
        raise SystemExit("search does not find an added picture, or a tagged one that moved")


def _walk(folder: Path) -> float:
    started = time.perf_counter()
    files = 0
    stack = [str(folder)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    stack.append(entry.path)
                else:
                    files += entry.stat().st_size > 0
    if not files:
        raise SystemExit("there are no pictures")
    return time.perf_counter() - started


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="times that one percent is changed")
    parser.add_argument("--models", type=Path, required=True, help="the shared model cache")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--executor", default="auto")


BENCHMARK = Benchmark(
    name="incremental",
    about=__doc__,
    figures=(
        Figure("seconds of a run", "s"),
        Figure("share of indexing everything", "ratio", peer="the first run, which indexes everything"),
        Figure("pictures embedded a picture added or changed", "ratio"),
        Figure("pictures embedded with nothing changed", "count"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
