"""Mutation run: small faults put into the code one at a time, to see whether the tests notice.

    python -m scripts.mutations                 # the whole table, about ten minutes
    python -m scripts.mutations --only fusion   # mutations whose name or file contains a word
    python -m scripts.mutations --check         # only: is every text to replace unique in its file?

The table is `tests/mutations.toml`: a file, the exact text to replace, what replaces it, and the tests that should fail. All
work happens in a copy of the tree in a temporary folder; the checkout is never changed. First the named tests run on the
unchanged copy, because a test that fails anyway notices nothing. Exit codes: 0 all caught; 1 some survived; 2 the table or the
unchanged tests are broken.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "tests" / "mutations.toml"
SOURCES: Final = ("core", "evaluation", "jobs", "serve", "cli", "client")
TIMEOUT_S: Final = 120.0
_BASELINE_TIMEOUT_S: Final = 1200.0
_FAILED: Final = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)
_FIELDS: Final = ("name", "file", "old", "new", "tests")


class BrokenTableError(ValueError):
    """The table of mutations does not fit the tree; the message lists every fault."""


class Result(StrEnum):
    """How the tests ended with a mutation in the code."""

    CAUGHT = "caught"
    TIMEOUT = "caught (timeout)"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One small fault and the tests that should notice it.

    Attributes:
        name: What is done, in a few words.
        file: Path of the file in the repository.
        old: Text that occurs exactly once in the file.
        new: Text that replaces it.
        tests: Test files, or single tests (`FILE::NAME`), that should fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def read_mutations(table: Path = TABLE) -> list[Mutation]:
    """Read the `[[mutation]]` tables of a file.

    Raises:
        BrokenTableError: a mutation lacks a field, or has an unknown one.
    """
    mutations = []
    for fields in tomllib.loads(table.read_text(encoding="utf-8")).get("mutation", []):
        if set(fields) != set(_FIELDS):
            raise BrokenTableError(f"{table}: {fields.get('name', fields)!r} has {sorted(fields)}, expected {sorted(_FIELDS)}")
        mutations.append(Mutation(**{**fields, "tests": tuple(fields["tests"])}))
    return mutations


def faults(mutations: Sequence[Mutation], root: Path = ROOT) -> list[str]:
    """Return what does not fit the tree: missing files and tests, texts that are not unique, names that occur twice."""
    lines = []
    names = [mutation.name for mutation in mutations]
    for mutation in mutations:
        path = root / mutation.file
        if names.count(mutation.name) > 1:
            lines.append(f"{mutation.name}: the name occurs {names.count(mutation.name)} times")
        if not path.is_file():
            lines.append(f"{mutation.name}: there is no file {mutation.file}")
        elif (count := path.read_text(encoding="utf-8").count(mutation.old)) != 1:
            lines.append(f"{mutation.name}: the text to replace occurs {count} times in {mutation.file}")
        if mutation.old == mutation.new:
            lines.append(f"{mutation.name}: nothing is replaced")
        lines += [f"{mutation.name}: there is no test {test}" for test in mutation.tests if not _is_test(root, test)]
        if not mutation.tests:
            lines.append(f"{mutation.name}: no tests are named")
    return lines


def _is_test(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    return path.is_file() and (not name or f"def {name}(" in path.read_text(encoding="utf-8"))


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """Copy the files that git knows or would add, as they are now, into a folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source = root / name
        if source.is_file():  # not one that was deleted and is still in the index
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


@contextmanager
def applied(mutation: Mutation, tree: Path) -> Iterator[None]:
    """Put a mutation into a copy of the tree inside the block, and restore the file after it."""
    path = tree / mutation.file
    original = path.read_text(encoding="utf-8")
    _write(path, original.replace(mutation.old, mutation.new))
    try:
        yield
    finally:
        _write(path, original)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Compiled files are compared by size and whole seconds: a mutation of the same length could go unnoticed.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def run_tests(tests: Sequence[str], tree: Path, *, timeout: float) -> tuple[Result, str]:
    """Run tests in a copy of the tree; return how they ended and the end of what pytest printed."""
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-x", "--no-header", "-p", "no:cacheprovider", "--tb=line"]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=_environment(os.environ, tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Result.TIMEOUT, f"no end after {timeout:g} s"
    result = {0: Result.SURVIVED, 1: Result.CAUGHT}.get(process.returncode, Result.BROKEN)
    return result, output[-2000:]


def _environment(environment: Mapping[str, str], tree: Path) -> dict[str, str]:
    paths = [str(tree), *(str(tree / name) for name in SOURCES)]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths), "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Row:
    """A mutation and how its tests ended.

    Attributes:
        mutation: What was put into the code.
        result: How the tests ended.
        noticed_by: The first test that failed; empty if none did.
        seconds: How long the tests took.
    """

    mutation: Mutation
    result: Result
    noticed_by: str
    seconds: float


def run_all(mutations: Sequence[Mutation], tree: Path, *, timeout: float) -> list[Row]:
    """Apply one mutation after the other and run its tests."""
    rows = []
    for number, mutation in enumerate(mutations, 1):
        started = time.monotonic()
        with applied(mutation, tree):
            result, output = run_tests(mutation.tests, tree, timeout=timeout)
        seconds = time.monotonic() - started
        failed = _FAILED.search(output)
        rows.append(Row(mutation, result, failed.group(1) if failed and result is Result.CAUGHT else "", seconds))
        print(f"{number}/{len(mutations)} {result}: {mutation.name} ({seconds:.0f} s)", file=sys.stderr, flush=True)
        if result is Result.BROKEN:
            print(output, file=sys.stderr, flush=True)
    return rows


def written(rows: Sequence[Row]) -> str:
    """Return the results as a Markdown table, with a line that counts them."""
    lines = ["| mutation | file | result | noticed by | seconds |", "|---|---|---|---|---|"]
    for row in rows:
        file, noticed = row.mutation.file, Path(row.noticed_by.partition("[")[0]).name.replace("|", "\\|")
        lines.append(f"| {row.mutation.name} | {file} | {row.result} | {noticed} | {row.seconds:.0f} |")
    counts = Counter(row.result for row in rows)
    caught = counts[Result.CAUGHT] + counts[Result.TIMEOUT]
    summary = f"{caught} of {len(rows)} caught, {counts[Result.SURVIVED]} survived, {counts[Result.BROKEN]} broken"
    return "\n".join([*lines, "", summary])


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the table, run the mutations, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--only", default="", help="mutations whose name or file contains this")
    parser.add_argument("--check", action="store_true", help="only check that the table fits the tree")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests on the unchanged copy first")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for the tests of one mutation")
    parser.add_argument("--write", type=Path, help="also write the results here")
    options = parser.parse_args(arguments)
    try:
        mutations = read_mutations(options.table)
        if lines := faults(mutations):
            raise BrokenTableError("\n".join(lines))
    except BrokenTableError as error:
        print(error, file=sys.stderr)
        return 2
    if options.check:
        print(f"{len(mutations)} mutations fit the tree")
        return 0
    chosen = [mutation for mutation in mutations if options.only in mutation.name or options.only in mutation.file]
    with tempfile.TemporaryDirectory(prefix="lodestone-mutations-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        if not options.no_baseline:
            tests = sorted({test for mutation in chosen for test in mutation.tests})
            result, output = run_tests(tests, tree, timeout=_BASELINE_TIMEOUT_S)
            if result is not Result.SURVIVED:
                print(f"the tests do not pass on the unchanged tree:\n{output}", file=sys.stderr)
                return 2
        rows = run_all(chosen, tree, timeout=options.timeout)
    text = written(rows)
    print(text)
    if options.write:
        options.write.write_text(f"{text}\n", encoding="utf-8")
    results = {row.result for row in rows}
    return 2 if Result.BROKEN in results else int(Result.SURVIVED in results)


if __name__ == "__main__":
    sys.exit(main())
