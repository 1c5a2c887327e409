"""Everything that is learnt from captioned photos and ships, learnt anew from folders of them: one command for a new data set.

    python -m research.refit --data DIR [DIR ...] --names DIR --out DIR [--steps NAME ...] [--against DIR] [--list]

Each DIR of `--data` holds `captions.tsv` (columns file, caption) and `images/`; the first one has five captions a photo, which
some steps need. `--names` holds `names.tsv` (columns file, name) and `images/`: photos that only figures are of. The steps run
in the order in which one needs the other: bridges, prior, confidence, gate and tags are fitted and written to
`core/lodestone/data`, where version control shows what changed; the last steps write nothing and measure what constants were
chosen for: composed queries, trust, captions, misspelt words, duplicates.

Each step is a benchmark of `research` in a process of its own. Its output goes to `--out`/NAME.log and its figures
to `--out`/NAME.json; model outputs and trained bridges are kept in `--out`/cache. Steps whose figures are there are not run
again, so a run that was stopped goes on where it ended. `--against` names the folder of an earlier run: the last table then
gives the figures of both. Exit codes: 0 done; 1 a step failed; 2 the arguments do not fit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.registry import BENCHMARKS

from lodestone.config.profiles import find_profile

LEARNT: Final = Path(__file__).resolve().parents[1] / "core" / "lodestone" / "data"
PROFILES: Final = ("embedded", "embedded-large", "embedded-multilingual")
_LAST_LINES: Final = 15  # of the output of a step that failed


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of one run.

    Attributes:
        data: Sets of captioned photos.
        names: Named photos.
        out: Where logs, figures and the cache are.
    """

    data: tuple[Path, ...]
    names: Path
    out: Path

    @property
    def cache(self) -> Path:
        """Return the folder of model outputs and trained bridges."""
        return self.out / "cache"

    @property
    def sets(self) -> list[str]:
        """Return the arguments for a benchmark that takes all sets."""
        return ["--data", *map(str, self.data), "--cache", str(self.cache)]

    @property
    def first_set(self) -> list[str]:
        """Return the arguments for a benchmark of the first set with a bridge of the training parts."""
        table, images = self.data[0] / "captions.tsv", self.data[0] / "images"
        return ["--captions", str(table), "--images", str(images), "--cache", str(self.cache), *self.bridge]

    @property
    def bridge(self) -> list[str]:
        """Return the argument that names the bridge of `embedded` that has seen the training parts alone."""
        return ["--bridge", str(self.cache / "embedded-0.safetensors")]


_GATE: Final = "0.52"  # the gate's threshold, by validation: the fitted one saves more and loses more (docs/gate-and-tags.md)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a benchmark with its arguments.

    Attributes:
        name: Name of the step, of its log and of its figures.
        benchmark: Name in `benchmarks.registry`.
        arguments: Folders -> arguments.
        writes: What it writes, below `core/lodestone/data`; empty for a step that only measures.
    """

    name: str
    benchmark: str
    arguments: Callable[[Folders], list[str]]
    writes: str = ""


def _bridge(profile: str) -> Step:
    file = Path("bridge") / find_profile(profile).bridge

    def arguments(folders: Folders) -> list[str]:
        names = ["--names", str(folders.names / "names.tsv"), str(folders.names)]
        return [*folders.sets, *names, "--profile", profile, "--ship", str(LEARNT / file)]

    return Step(f"bridge-{profile}", "quality", arguments, str(file))


def _presence(profile: str) -> Step:
    def arguments(folders: Folders) -> list[str]:
        drawings = ["--drawings", str(folders.out / "drawings")]
        return [*folders.sets, "--names", str(folders.names), "--profile", profile, *drawings, "--ship"]

    return Step(f"confidence-{profile}", "presence", arguments, f"presence/{profile}.json")


STEPS: Final[tuple[Step, ...]] = (
    *map(_bridge, PROFILES),
    Step(
        "prior",
        "prior",
        lambda of: [*of.sets, "--ship", str(LEARNT / "prior" / "prior.safetensors")],
        "prior/prior.safetensors",
    ),
    *map(_presence, PROFILES),
    Step("gate", "gate", lambda of: [*of.sets, "--ship", "--threshold", _GATE], "gate/gate.json, gate/tags.json"),
    Step("composed", "composed", lambda of: of.first_set),
    Step("exemplars", "exemplars", lambda of: of.first_set),
    Step("exemplars-one-caption", "exemplars", lambda of: [*of.first_set, "--each", "1"]),
    Step("caption-words", "caption_words", lambda of: of.first_set),
    Step("misspelt", "query_words", lambda of: of.sets),
    Step("duplicates", "duplicates", lambda of: ["--images", str(of.data[0] / "images")]),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps that are asked for and not done yet, print the figures, and return the exit code."""
    options = _parser().parse_args(arguments)
    if options.list:
        for step in STEPS:
            print(f"{step.name:36}{step.benchmark:16}{step.writes or '(figures alone)'}")
        return 0
    if options.data is None or options.names is None or options.out is None:
        print("error: --data, --names and --out are needed (--list shows the steps)", file=sys.stderr)
        return 2
    folders = Folders(tuple(path.resolve() for path in options.data), options.names.resolve(), options.out.resolve())
    if (wrong := unfit(folders)) is not None:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    chosen = [step for step in STEPS if not options.steps or step.name in options.steps]
    for number, step in enumerate(chosen, 1):
        if not run_step(step, folders, place=f"{number} of {len(chosen)}"):
            return 1
    print(comparison(figures_of(folders.out, chosen), figures_of(options.against, chosen) if options.against else {}))
    return 0


def unfit(folders: Folders) -> str | None:
    """Return what is wrong with the folders, or None; the first run writes down which sets `out` is for."""
    tables = [folder / "captions.tsv" for folder in folders.data] + [folders.names / "names.tsv"]
    for table in tables:
        if not table.is_file():
            return f"{table} is missing: each folder needs a table and images/"
    folders.cache.mkdir(parents=True, exist_ok=True)
    said, learnt_from = folders.out / "data.json", {table.parent.name: _digest(table) for table in tables}
    if not said.exists():
        said.write_text(json.dumps(learnt_from, indent=1), encoding="utf-8")
    elif json.loads(said.read_text("utf-8")) != learnt_from:
        return f"{folders.out} holds what was learnt from other tables: give another --out, or remove it"
    return None


def run_step(step: Step, folders: Folders, *, place: str) -> bool:
    """Run one step unless its figures are there; return whether they are there in the end."""
    figures, log = folders.out / f"{step.name}.json", folders.out / f"{step.name}.log"
    if figures.exists():
        print(f"{step.name} ({place}): done before", flush=True)
        return True
    print(f"{step.name} ({place}): {log}", flush=True)
    started, fresh = time.monotonic(), figures.with_suffix(".part")
    command = [sys.executable, "-m", BENCHMARKS[step.benchmark], *step.arguments(folders), "--figures", str(fresh)]
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code or not fresh.exists():
        lines = log.read_text("utf-8").splitlines()[-_LAST_LINES:]
        print("\n".join([*lines, f"error: {step.name} failed ({code}); the same command goes on with it"]), file=sys.stderr)
        return False
    fresh.rename(figures)  # only now does the step count as done
    print(f"{step.name}: {time.monotonic() - started:.0f} s", flush=True)
    return True


def figures_of(folder: Path, steps: Sequence[Step]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return (step, figure and case) -> the figure, of the steps of which the folder has figures."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for step in steps:
        path = folder / f"{step.name}.json"
        for figure in json.loads(path.read_text("utf-8"))["figures"] if path.exists() else ():
            found[step.name, ": ".join(filter(None, (figure["figure"], figure["case"])))] = figure
    return found


def comparison(now: Mapping[tuple[str, str], Mapping[str, Any]], before: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Return a line a figure: the median with least and most of its runs, and where there is one that of the earlier run."""
    lines = []
    for (step, name), figure in now.items():
        earlier = before.get((step, name))
        change = "" if earlier is None else f"  before {_spread(earlier)}  ({figure['median'] - earlier['median']:+.4g})"
        lines.append(f"{step}: {name} [{figure['unit']}]  {_spread(figure)}{change}")
    return "\n".join(lines)


def _spread(figure: Mapping[str, Any]) -> str:
    several = f" ({figure['min']:.4g} to {figure['max']:.4g})" if figure["runs"] > 1 else ""
    return f"{figure['median']:.4g}{several}"


def _digest(table: Path) -> str:
    return hashlib.sha256(table.read_bytes()).hexdigest()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m research.refit", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, nargs="+", metavar="DIR", help="sets of captioned photos")
    parser.add_argument("--names", type=Path, metavar="DIR", help="named photos, for figures alone")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of logs, figures and the cache")
    parser.add_argument("--steps", nargs="+", choices=[step.name for step in STEPS], metavar="NAME", help="only these")
    parser.add_argument("--against", type=Path, metavar="DIR", help="folder of an earlier run, to compare with")
    parser.add_argument("--list", action="store_true", help="list the steps and what they write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
