"""What does it cost to bring an index up to date when 1 % of the files were added, changed, moved and deleted?

Copies of generated pictures are indexed once. Then 1 % are added, 1 % changed, 1 % moved and 1 % deleted, and
the next run is measured; beside it, from the same run, stand the two peers: indexing everything again (what one does without
knowing what changed) and a bare walk that asks the system for every file's size and time (what nobody can do without). Checked,
not only timed: the run embeds the new and changed pictures and no other, the moved ones keep ids and tags, no stored file is
written again, and search finds exactly what is there.

    python -m benchmarks.incremental --pictures 10000 --models FOLDER
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

from benchmarks.machine import describe_machine, spread, table
from benchmarks.pictures import generate
from lodestone.catalog.records import ImageState
from lodestone.config.settings import IndexSettings, ModelSettings, Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.tags.search import TagSearch
from lodestone_schemas.api import SearchOptions

_SHARE = 0.01


def main() -> int:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="times that one percent is changed")
    parser.add_argument("--models", type=Path, required=True, help="the shared model cache")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "lodestone-benchmark")
    parser.add_argument("--executor", default="auto")
    arguments = parser.parse_args()
    each = max(1, round(arguments.pictures * _SHARE))
    made = generate(arguments.cache / "pictures", arguments.pictures + arguments.rounds * 2 * each)
    with tempfile.TemporaryDirectory(prefix="lodestone-incremental-") as scratch:
        folder, spare = Path(scratch) / "pictures", made[arguments.pictures :]
        for path in made[: arguments.pictures]:
            target = folder / path.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        settings = Settings(
            home=Path(scratch) / "home",
            models=ModelSettings(cache=arguments.models),
            index=IndexSettings(executor=arguments.executor),
        )
        whole = _index(settings, folder)
        runs, walks = [], []
        for number in range(arguments.rounds):
            expected = _change(settings, folder, spare[2 * each * number :], each, number)
            walks.append(_walk(folder))
            report = _index(settings, folder)
            _check(settings, report, expected, each)
            runs.append(report.seconds)
        unchanged = _index(settings, folder)
    print(
        f"{describe_machine()}; {arguments.pictures} pictures, {each} of each kind changed a round, {arguments.rounds} rounds\n"
    )
    rows = [
        ("", "seconds", "pictures embedded"),
        ("the run after 1 % of each kind", spread(runs), str(2 * each)),
        ("peer: indexing everything (the first run)", f"{whole.seconds:.1f}", str(whole.counts["embedded"])),
        ("peer: a bare walk with sizes and times", spread(walks), "0"),
        ("a run with nothing changed", f"{unchanged.seconds:.2f}", str(unchanged.counts.get("embedded", 0))),
    ]
    print(table(rows))
    print("\nids, tags, stored files and answers are as they should be")
    return 0


def _index(settings: Settings, folder: Path) -> IndexReport:
    with Runtime.open(settings, purpose="a benchmark") as runtime:
        return index_paths(runtime, IndexRequest((str(folder),)))


def _change(settings: Settings, folder: Path, spare: list[Path], each: int, number: int) -> dict[str, str]:
    """Change files; returns uri -> image id of those that moved, their new uri."""
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
    wanted = {"new": each, "changed": each, "moved": each, "embedded": 2 * each}
    found = {name: report.counts.get(name, 0) for name in wanted}
    if found != wanted:
        raise SystemExit(f"the run did {found}, not {wanted}")
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
    tagged = TagSearch(runtime.store).search("kept through round", runtime.store.aliases()["tags"], limit=1_000)
    if not like.hits or moved not in tagged.ids:
        raise SystemExit("search does not find an added picture, or a tagged one that moved")


def _walk(folder: Path) -> float:
    started = time.perf_counter()
    seen = 0
    stack = [str(folder)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    stack.append(entry.path)
                else:
                    seen += entry.stat().st_size > 0
    if not seen:
        raise SystemExit("there are no pictures")
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
