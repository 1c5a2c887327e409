"""The levels of Lodestone's packages: the one table of their order, and the check that every import points down.

`python -m scripts.levels` prints what breaks the order; `--write` puts the table into docs/architecture.md.

A package may import what stands on a lower level. Packages of one level do not import each other. Imports count wherever they
stand: at the top of a module, inside a function, or under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
BEGIN: Final = "<!-- levels:begin -->"
END: Final = "<!-- levels:end -->"

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "lodestone_schemas": "client",
    "lodestone_client": "client",
    "lodestone": "core",
    "lodestone_eval": "evaluation",
    "lodestone_jobs": "jobs",
    "lodestone_serve": "serve",
    "lodestone_cli": "cli",
    "lodestone_web": "web",
}
"""Import package -> the top-level folder that holds it."""

MAY_IMPORT: Final[Mapping[str, frozenset[str]]] = {
    "lodestone_schemas": frozenset(),
    "lodestone_client": frozenset({"lodestone_schemas"}),
    "lodestone": frozenset({"lodestone_schemas", "lodestone_client"}),
    "lodestone_eval": frozenset({"lodestone_schemas", "lodestone"}),
    "lodestone_jobs": frozenset({"lodestone_schemas", "lodestone_client", "lodestone"}),
    "lodestone_serve": frozenset({"lodestone_schemas", "lodestone_client", "lodestone"}),
    "lodestone_cli": frozenset(
        {"lodestone_schemas", "lodestone_client", "lodestone", "lodestone_eval", "lodestone_jobs", "lodestone_serve"}
    ),
    "lodestone_web": frozenset(),
}
"""Import package -> those of ours that it may import."""

Levels = tuple[tuple[str, ...], ...]

CORE: Final[Levels] = (
    ("data", "durable_files", "errors", "observe", "positions", "processes"),
    ("access", "clock", "config", "files", "models", "paging", "query_notes", "store"),
    ("backbones", "catalog", "imaging", "remote", "retrieval"),
    ("composed", "embeddings", "gazetteer", "query_log", "sources", "text_encoders", "timeline"),
    ("facts", "spaces", "trust"),
    ("generators", "tags"),
    ("indexing", "query"),
    ("tagging",),
    ("backup", "duplicates", "home"),
    ("capacity", "directories", "export"),
    ("swap", "training"),
    ("services",),
)
"""The packages and modules of `lodestone`, lowest level first."""

SERVE: Final[Levels] = (
    ("hosts", "inference", "policy", "telemetry"),
    ("responses",),
    ("auth", "traffic"),
    ("streaming",),
    ("routes",),
    ("http",),
    ("graph",),
    ("hosting",),
)
"""The packages and modules of `lodestone_serve`, lowest level first."""

ORDERED: Final[Mapping[str, Levels]] = {"lodestone": CORE, "lodestone_serve": SERVE}


@dataclass(frozen=True, slots=True)
class Module:
    """One module of ours: its dotted `name`, its `path`, and the modules of ours that it `imports`."""

    name: str
    path: Path
    imports: frozenset[str]


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Return every module of ours by its dotted name.

    Raises:
        FileNotFoundError: A package of the table does not exist.
    """
    paths: dict[str, Path] = {}
    for package, folder in DISTRIBUTIONS.items():
        base = root / folder / package
        if not base.is_dir():
            raise FileNotFoundError(f"{base} does not exist: correct scripts/levels.py")
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base.parent).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {
        name: Module(name, path, frozenset(imported(path.read_text("utf-8"), paths)) - {name}) for name, path in paths.items()
    }


def imported(source: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the names of `known` modules that the `source` of a module imports, wherever the import stands."""
    names = set(known)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in names:
                    yield submodule
                elif node.module in names:
                    yield node.module


def package_of(module: str, depth: int = 2) -> str:
    """Return the first `depth` parts of a dotted name: the package that the table of levels speaks of."""
    return ".".join(module.split(".")[:depth])


def graph_of(found: Mapping[str, Module], *, depth: int | None = None) -> dict[str, set[str]]:
    """Return who imports whom: modules, or with `depth` their packages."""
    graph: dict[str, set[str]] = {}
    for name, module in found.items():
        importer = name if depth is None else package_of(name, depth)
        targets = graph.setdefault(importer, set())
        for target in module.imports:
            other = target if depth is None else package_of(target, depth)
            # A package's __init__ and its modules are one thing to each other, seen from their package.
            if other != importer and not (
                depth is not None and (importer.startswith(f"{other}.") or other.startswith(f"{importer}."))
            ):
                targets.add(other)
    return graph


def cycle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one cycle of the graph, its first node repeated at the end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def violations(found: Mapping[str, Module], ordered: Mapping[str, Levels] = ORDERED) -> list[str]:
    """Return one line for every import that does not point down, and for every package that the table lacks."""
    lines: list[str] = []
    for top, levels in ordered.items():
        level = {f"{top}.{name}": number for number, names in enumerate(levels) for name in names}
        present = {package_of(name) for name in found if package_of(name) != top and name.startswith(f"{top}.")}
        lines += [f"{name} has no level: put it into scripts/levels.py" for name in sorted(present - level.keys())]
        lines += [f"{name} has a level and does not exist" for name in sorted(level.keys() - present)]
        for module in found.values():
            importer = package_of(module.name)
            for target in sorted(module.imports):
                other = package_of(target)
                if importer in level and other in level and other != importer and level[other] >= level[importer]:
                    lines.append(f"{module.name} (level {level[importer] + 1}) imports {target} (level {level[other] + 1})")
    return lines


def table(ordered: Mapping[str, Levels] = ORDERED) -> str:
    """Return the levels as Markdown tables, the highest level first."""
    parts = []
    for top, levels in ordered.items():
        rows = [
            f"| {number + 1} | {', '.join(f'`{name}`' for name in levels[number])} |" for number in reversed(range(len(levels)))
        ]
        parts.append("\n".join([f"| level | packages of `{top}` |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def page_with_table(text: str) -> str:
    """Return the documentation page `text` with the current table between its two marks.

    Raises:
        ValueError: The page lacks the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Check the order, or write the table; return the exit code."""
    if arguments == ["--write"]:
        PAGE.write_text(page_with_table(PAGE.read_text("utf-8")), "utf-8")
        return 0
    found = modules()
    lines = violations(found)
    for depth in (None, 2, 3):
        if cycle := cycle_in(graph_of(found, depth=depth)):
            lines.append(f"cycle: {' -> '.join(cycle)}")
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
