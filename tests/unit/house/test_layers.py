"""Tests of the structure: imports point down only, nothing imports itself in a circle, and the library is free of Ray."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts import levels

NO_HOSTS = {"ray", "fastapi", "starlette", "typer"}
FORBIDDEN = {
    "lodestone_schemas": NO_HOSTS,
    "lodestone": NO_HOSTS,
    "lodestone_eval": NO_HOSTS,
    "lodestone_client": NO_HOSTS | {"torch", "numpy", "tenacity", "pyarrow"},
}


@pytest.fixture(scope="module")
def modules() -> dict[str, levels.Module]:
    found = levels.modules()
    assert len(found) > 500, "the test looks in the wrong place"
    return found


def _tops(path: Path) -> set[str]:
    """Top-level packages of every absolute import, those inside functions and TYPE_CHECKING blocks included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", levels.DISTRIBUTIONS)
def test_a_distribution_imports_only_what_lies_below_it(package: str, modules: dict[str, levels.Module]) -> None:
    forbidden = set(levels.DISTRIBUTIONS) - levels.MAY_IMPORT[package] - {package} | FORBIDDEN.get(package, set())
    found = {name: sorted(_tops(module.path) & forbidden) for name, module in modules.items() if name.split(".")[0] == package}

    assert found
    assert {name: tops for name, tops in found.items() if tops} == {}


def test_every_import_points_to_a_lower_level(modules: dict[str, levels.Module]) -> None:
    assert levels.violations(modules) == []


@pytest.mark.parametrize("depth", [None, 2, 3], ids=["files", "packages", "sub-packages"])
def test_nothing_imports_itself_in_a_circle(modules: dict[str, levels.Module], depth: int | None) -> None:
    assert levels.cycle_in(levels.graph_of(modules, depth=depth)) == []


def test_the_page_on_the_architecture_shows_the_levels() -> None:
    page = levels.PAGE.read_text("utf-8")

    assert levels.page_with_table(page) == page, "run python -m scripts.levels --write"


def test_only_the_commands_of_evaluations_import_their_package(modules: dict[str, levels.Module]) -> None:
    importers = {name for name, module in modules.items() if "lodestone_eval" in _tops(module.path)}
    outside = {name for name in importers if name.partition(".")[0] != "lodestone_eval"}

    assert outside
    assert {name for name in outside if not name.startswith("lodestone_cli.commands.evaluation.")} == set()


def test_no_other_command_loads_what_evaluates() -> None:
    script = (
        "import importlib, sys; from lodestone_cli.main import COMMANDS, GROUPS\n"
        "names = {module for name, (module, _) in (COMMANDS | GROUPS).items() if name != 'eval'}\n"
        "for name in sorted(names): importlib.import_module(name)\n"
        "print(len(names), *sorted(name for name in sys.modules if name.startswith('lodestone_eval')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    count, *loaded = done.stdout.split()
    assert int(count) > 20
    assert loaded == []


def test_nothing_that_is_installed_imports_what_is_not(modules: dict[str, levels.Module]) -> None:
    beside = {"benchmarks", "monitoring", "research", "scripts", "tests"}

    assert {name for name, module in modules.items() if _tops(module.path) & beside} == set()


def test_every_component_is_in_the_wheel_the_image_and_the_type_check() -> None:
    project = tomllib.loads((levels.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    ours = {folder for folder in levels.DISTRIBUTIONS.values() if folder != "client"}
    image = re.search(r"mkdir --parents ((?:\w+ )+)client/", (levels.ROOT / "deploy" / "Dockerfile").read_text("utf-8"))
    context = {line.removeprefix("!") for line in (levels.ROOT / ".dockerignore").read_text("utf-8").splitlines()}

    assert image is not None
    assert set(project["setuptools"]["packages"]["find"]["where"]) == ours == set(image[1].split())
    assert ours < context
    assert set(project["mypy"]["packages"]) == {*levels.DISTRIBUTIONS, "benchmarks", "research"}
    assert set(project["mypy"]["mypy_path"]) == set(levels.DISTRIBUTIONS.values())
    assert set(levels.DISTRIBUTIONS.values()) < set(project["ruff"]["src"])


def test_only_our_own_names_are_installed() -> None:
    """A user's `jobs.py` or `serve.py` beside a driver must not be shadowed, nor shadow ours, on a worker."""
    folders = {levels.ROOT / folder for folder in levels.DISTRIBUTIONS.values()}
    tops = {path.name for folder in folders for path in folder.iterdir() if (path / "__init__.py").is_file()}

    assert tops == set(levels.DISTRIBUTIONS)


def _made_up(**imports: str) -> dict[str, levels.Module]:
    """Modules of a made-up house: `a_b="c"` is a module `lodestone.a.b` that imports `lodestone.c.x`."""
    names = {name: f"lodestone.{name.replace('_', '.')}" for name in imports}
    return {
        full: levels.Module(full, Path(), frozenset(names[other] for other in imports[name].split()))
        for name, full in names.items()
    }


def test_an_upward_import_an_import_across_and_a_missing_level_are_found() -> None:
    house = _made_up(low_x="high_x", high_x="low_x beside_x", beside_x="", new_x="")
    order = {"lodestone": (("low",), ("high", "beside"))}

    assert levels.violations(house, order) == [
        "lodestone.new has no level: put it into scripts/levels.py",
        "lodestone.low.x (level 1) imports lodestone.high.x (level 2)",
        "lodestone.high.x (level 2) imports lodestone.beside.x (level 2)",
    ]


def test_circles_of_files_and_of_packages_are_found() -> None:
    files = _made_up(a_x="a_y", a_y="a_x")
    packages = _made_up(a_x="b_x", b_y="a_y", a_y="", b_x="")

    assert levels.cycle_in(levels.graph_of(files)) != [] == levels.cycle_in(levels.graph_of(files, depth=2))
    assert levels.cycle_in(levels.graph_of(packages)) == [] != levels.cycle_in(levels.graph_of(packages, depth=2))


@pytest.mark.parametrize(
    "source",
    [
        "from lodestone.a import b",
        "import lodestone.a.b",
        "def f():\n    from lodestone.a.b import c",
        "if TYPE_CHECKING:\n    import lodestone.a.b",
    ],
)
def test_an_import_counts_wherever_it_stands(source: str) -> None:
    assert set(levels.imported(source, {"lodestone.a", "lodestone.a.b"})) == {"lodestone.a.b"}
