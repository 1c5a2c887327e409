"""Do the arrows between packages point down only, and is Ray kept out of the library?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = {
    "lodestone_schemas": "schemas",
    "lodestone": "core",
    "lodestone_jobs": "jobs",
    "lodestone_serve": "serve",
    "lodestone_cli": "cli",
}
MAY_IMPORT = {
    "lodestone_schemas": set(),
    "lodestone": {"lodestone_schemas"},
    "lodestone_jobs": {"lodestone_schemas", "lodestone"},
    "lodestone_serve": {"lodestone_schemas", "lodestone"},
    "lodestone_cli": {"lodestone_schemas", "lodestone", "lodestone_jobs", "lodestone_serve"},
}
NO_RAY = {"lodestone_schemas", "lodestone"}


def _imports(source: str) -> Iterator[tuple[str, int]]:
    """Top-level package and line of every absolute import, those inside functions and TYPE_CHECKING blocks included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0], node.lineno


def _violations(package: str, source: str) -> list[str]:
    forbidden = set(FOLDERS) - MAY_IMPORT[package] - {package}
    if package in NO_RAY:
        forbidden |= {"ray", "fastapi", "starlette", "typer"}
    return [f"line {line}: {package} imports {name}" for name, line in _imports(source) if name in forbidden]


@pytest.mark.parametrize("package", FOLDERS)
def test_package_imports_only_what_lies_below_it(package: str) -> None:
    modules = sorted((ROOT / FOLDERS[package] / package).rglob("*.py"))
    assert modules, f"{package} has no modules: the test looks in the wrong place"
    found = [f"{path.relative_to(ROOT)} {v}" for path in modules for v in _violations(package, path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("lodestone", "def f():\n    import ray\n"),
        ("lodestone", "from lodestone_jobs.index import x\n"),
        ("lodestone_schemas", "import lodestone.errors\n"),
        ("lodestone_jobs", "from lodestone_serve import app\n"),
        ("lodestone_serve", "import lodestone_cli\n"),
    ],
)
def test_an_upward_import_is_found(package: str, source: str) -> None:
    assert _violations(package, source)


def test_only_our_own_names_are_installed() -> None:
    """A user's `jobs.py` or `serve.py` beside a driver must not be shadowed, nor shadow ours, on a worker."""
    tops = {p.name for folder in FOLDERS.values() for p in (ROOT / folder).iterdir() if (p / "__init__.py").is_file()}
    assert tops == set(FOLDERS)
