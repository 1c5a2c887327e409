"""Definitions in source files: dotted names are resolved by reading the files, re-exports and base classes included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 20  # re-exports of re-exports
_HOOKS = frozenset({"model_config", "settings_customise_sources"})
_HOOK_DECORATORS = frozenset({"field_validator", "model_validator", "field_serializer", "model_serializer"})


class UnresolvedNameError(LookupError):
    """A dotted name leads to no definition; the message says where the search ended."""


@dataclass(frozen=True, slots=True)
class Module:
    """A source file with its syntax tree.

    Attributes:
        name: Dotted name, such as `lodestone_client`.
        path: The file.
        tree: Its syntax tree.
    """

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """Return the package that relative imports of this module start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Definition:
    """A class, a function, a constant or a module.

    Attributes:
        module: The module that defines it.
        node: Its syntax; the module's tree for a module.
    """

    module: Module
    node: ast.AST

    @property
    def docstring(self) -> str:
        """Return the docstring without indentation; empty if there is none."""
        if isinstance(self.node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return ast.get_docstring(self.node) or ""
        return ""


class Sources:
    """Source folders in which dotted names are looked up.

    Args:
        folders: Folders that hold packages.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._module = cache(self._read)

    def module(self, name: str) -> Module | None:
        """Return the module of this name, or None."""
        return self._module(name)

    def find(self, name: str) -> Definition:
        """Return what a dotted name stands for.

        Raises:
            UnresolvedNameError: no module, or no definition in it, has this name.
        """
        return self._find(name, name, _DEEPEST)

    def _find(self, name: str, asked: str, depth: int) -> Definition:
        if module := self.module(name):
            return Definition(module, module.tree)
        parent, _, last = name.rpartition(".")
        if not parent or depth == 0:
            raise UnresolvedNameError(f"{asked!r} does not resolve: there is no module {name!r} in {self._named_folders()}")
        owner = self._find(parent, asked, depth - 1)
        if isinstance(owner.node, ast.ClassDef):
            for member in owner.node.body:
                if last in _names_of(member):
                    return Definition(owner.module, member)
        elif isinstance(owner.node, ast.Module):
            for statement in _statements(owner.node):
                if last in _names_of(statement):
                    return Definition(owner.module, statement)
            if target := _imported(owner.module, last):
                return self._find(target, asked, depth - 1)
        raise UnresolvedNameError(
            f"{asked!r} does not resolve: {owner.module.path} defines and imports no {last!r}; "
            "adapt the table at the top of scripts/api_reference.py"
        )

    def exports(self, module: Module) -> list[str]:
        """Return the public names of a module: its `__all__`, else what it defines without a leading underscore."""
        for statement in module.tree.body:
            if "__all__" in _names_of(statement) and isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                return list(ast.literal_eval(statement.value))
        return [
            name
            for statement in module.tree.body
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            for name in _names_of(statement)
            if not name.startswith("_")
        ]

    def bases(self, definition: Definition) -> list[Definition]:
        """Return the base classes that lie in the source folders, in order; others are left out."""
        parents = []
        if isinstance(definition.node, ast.ClassDef):
            for base in definition.node.bases:
                node = base.value if isinstance(base, ast.Subscript) else base
                try:
                    parent = self.find(f"{definition.module.name}.{ast.unparse(node)}")
                except UnresolvedNameError:
                    continue
                if isinstance(parent.node, ast.ClassDef):
                    parents.append(parent)
        return parents

    def members(self, definition: Definition) -> Iterator[tuple[Definition, Definition]]:
        """Yield (owner, member) of the public methods, properties and fields of a class, own ones first."""
        seen: set[str] = set()
        for owner in self._lineage(definition):
            if not isinstance(owner.node, ast.ClassDef):
                continue
            for member in owner.node.body:
                if _is_hook(member):
                    continue
                for name in _names_of(member):
                    if not name.startswith("_") and name not in seen:
                        seen.add(name)
                        yield owner, Definition(owner.module, member)

    def _lineage(self, definition: Definition) -> list[Definition]:
        lineage = [definition]
        for parent in self.bases(definition):
            lineage += [
                ancestor for ancestor in self._lineage(parent) if all(ancestor.node is not other.node for other in lineage)
            ]
        return lineage

    def _read(self, name: str) -> Module | None:
        for folder in self._folders:
            base = folder.joinpath(*name.split("."))
            for path in (base / "__init__.py", base.with_suffix(".py")):
                if path.is_file():
                    return Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
        return None

    def _named_folders(self) -> str:
        return ", ".join(str(folder) for folder in self._folders)


def _is_hook(member: ast.stmt) -> bool:
    """Return whether a member of a class is called by pydantic alone: its configuration, validators and serialisers."""
    if isinstance(member, ast.FunctionDef):
        names = {ast.unparse(decorator).partition("(")[0].rpartition(".")[2] for decorator in member.decorator_list}
        return bool(names & _HOOK_DECORATORS) or member.name in _HOOKS
    return bool(_HOOKS.intersection(_names_of(member)))


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those below `if` and `try` included."""
    for statement in tree.body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from statement.body
            yield from statement.orelse


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _imported(module: Module, name: str) -> str | None:
    """Return the dotted name that an import of the module binds to a name."""
    for statement in _statements(module.tree):
        if not isinstance(statement, ast.ImportFrom):
            continue
        source = statement.module or ""
        if statement.level:
            package = module.package.split(".")
            kept = package[: len(package) - statement.level + 1]
            source = ".".join([*kept, *([statement.module] if statement.module else [])])
        for alias in statement.names:
            if (alias.asname or alias.name) == name:
                return f"{source}.{alias.name}"
    return None
