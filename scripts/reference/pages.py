"""Markdown pages of the API reference: signatures, texts and sections of classes, functions and modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scripts.reference.definitions import Definition, Function, Sources
from scripts.reference.docstrings import Docstring, parse

_KINDS = {"property": "property", "cached_property": "property", "classmethod": "class method", "staticmethod": "static method"}
_LONGEST = 100  # characters of a signature on one line


def page(title: str, names: Sequence[str], sources: Sources) -> str:
    """Return a page that documents dotted names.

    Raises:
        UnresolvedNameError: a name leads to no definition.
    """
    blocks = [f"# {title}", "<!-- Made of docstrings by `python -m scripts.api_reference`: change those. -->"]
    for name in names:
        blocks += _blocks(name, sources.find(name), sources)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(name: str, definition: Definition, sources: Sources) -> Iterator[str]:
    node = definition.node
    if isinstance(node, ast.Module):
        yield f"## `{name}`"
        yield parse(definition.docstring).text
        for export in sources.exports(definition.module):
            yield from _blocks(f"{name}.{export}", sources.find(f"{name}.{export}"), sources)
    elif isinstance(node, ast.ClassDef):
        yield from _class(name, definition, node, sources)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield f"## `{name.rpartition('.')[2]}`"
        yield from _function(name, node, parse(definition.docstring))
    else:
        yield f"## `{name.rpartition('.')[2]}`"
        yield _code(ast.unparse(node))


def _class(name: str, definition: Definition, node: ast.ClassDef, sources: Sources) -> Iterator[str]:
    docstring = parse(definition.docstring)
    yield f"## `{node.name}`"
    constructor = next((member for member in node.body if getattr(member, "name", "") == "__init__"), None)
    if isinstance(constructor, ast.FunctionDef):
        yield _code(signature(f"class {name}", constructor, bound=True, returns=False))
    else:
        yield _code(f"class {name}")
    yield docstring.text
    if isinstance(constructor, ast.FunctionDef):
        yield _parameters(constructor, docstring, bound=True)
    yield _sections(docstring)
    members = list(sources.members(definition))
    yield _fields([(owner, member.node) for owner, member in members if isinstance(member.node, ast.AnnAssign)], docstring)
    for owner, member in members:
        if isinstance(member.node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_overload(member.node):
            inherited = "" if owner.node is node else f"Inherited from `{getattr(owner.node, 'name', '')}`."
            yield f"### `{node.name}.{member.node.name}`"
            yield from _function(member.node.name, member.node, parse(member.docstring), bound=True)
            yield inherited


def _function(name: str, node: Function, docstring: Docstring, *, bound: bool = False) -> Iterator[str]:
    decorators = [ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list]
    kinds = [_KINDS[decorator] for decorator in decorators if decorator in _KINDS]
    if "property" in kinds:
        yield _code(f"{name}: {ast.unparse(node.returns)}" if node.returns else name)
    else:
        yield _code(signature(name, node, bound=bound and "static method" not in kinds))
    notes = [*kinds, *(["abstract"] if "abstractmethod" in decorators else [])]
    yield f"*{', '.join(notes)}*" if notes else ""
    yield docstring.text
    yield _parameters(node, docstring, bound=bound)
    yield _sections(docstring)


def signature(name: str, node: Function, *, bound: bool = False, returns: bool = True) -> str:
    """Return the signature of a function as code.

    Args:
        name: What stands before the parenthesis.
        node: The function.
        bound: Leave out the first parameter (`self`, `cls`).
        returns: Write the type of the result.
    """
    parameters = [text for text, _ in _arguments(node, bound=bound)]
    end = f" -> {ast.unparse(node.returns)}" if returns and node.returns else ""
    start = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name}("
    line = f"{start}{', '.join(parameters)}){end}"
    if len(line) <= _LONGEST:
        return line
    return "\n".join([start, *(f"    {parameter}," for parameter in parameters), f"){end}"])


def _arguments(node: Function, *, bound: bool) -> list[tuple[str, ast.arg | None]]:
    """Return the parameters as code, with `/` and `*` where they belong, each with its syntax."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    written: list[tuple[str, ast.arg | None]] = []
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        if not (bound and place == 0):
            written.append((_argument(argument, default), argument))
        if place + 1 == len(arguments.posonlyargs) and not (bound and place == 0):
            written.append(("/", None))
    if arguments.vararg:
        written.append((f"*{_argument(arguments.vararg, None)}", arguments.vararg))
    elif arguments.kwonlyargs:
        written.append(("*", None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        written.append((_argument(argument, default), argument))
    if arguments.kwarg:
        written.append((f"**{_argument(arguments.kwarg, None)}", arguments.kwarg))
    return written


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = f"{argument.arg}: {ast.unparse(argument.annotation)}" if argument.annotation else argument.arg
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if argument.annotation else f"{text}={ast.unparse(default)}"


def _parameters(node: Function, docstring: Docstring, *, bound: bool) -> str:
    """Return the described parameters as a list; a description without a parameter keeps its name."""
    texts = docstring.items("Args")
    if not texts:
        return ""
    known = [argument.arg for _, argument in _arguments(node, bound=bound) if argument]
    order = [*(name for name in known if name in texts), *(name for name in texts if name not in known)]
    return "**Parameters**\n\n" + "\n".join(f"- `{name}`: {texts[name]}" for name in order)


def _sections(docstring: Docstring) -> str:
    sections = docstring.sections
    parts = [f"**{name}**\n\n{' '.join(sections[name].split())}" for name in ("Returns", "Yields") if name in sections]
    if raises := docstring.items("Raises"):
        parts.append("**Raises**\n\n" + "\n".join(f"- `{name}`: {text}" for name, text in raises.items()))
    parts += [f"**{name}**\n\n{sections[name]}" for name in ("Example", "Examples", "Note") if name in sections]
    return "\n\n".join(parts)


def _fields(fields: Sequence[tuple[Definition, ast.AST]], docstring: Docstring) -> str:
    """Return the fields of a class as a table; empty if it has neither fields nor described attributes."""
    described = docstring.items("Attributes")
    rows = []
    for owner, node in fields:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            default, text = _default(node.value)
            text = (
                described.pop(node.target.id, "") or text or parse(owner.docstring).items("Attributes").get(node.target.id, "")
            )
            rows.append((f"`{node.target.id}`", f"`{ast.unparse(node.annotation)}`", default, text))
    rows += [(f"`{name}`", "", "", text) for name, text in described.items()]
    if not rows:
        return ""
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _default(value: ast.expr | None) -> tuple[str, str]:
    """Return the default of a field and the description that pydantic's `Field` gives it."""
    if value is None:
        return "", ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in {"Field", "field"}):
        return f"`{ast.unparse(value)}`", ""
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    description = keywords.get("description")
    text = str(description.value) if isinstance(description, ast.Constant) else ""
    bounds = [
        f"{sign} {ast.unparse(keywords[name])}"
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        if name in keywords
    ]
    text = f"{text} ({', '.join(bounds)})" if bounds and text else text
    if value.args:
        return f"`{ast.unparse(value.args[0])}`", text
    for name in ("default", "default_factory"):
        if name in keywords:
            call = "()" if name == "default_factory" and not isinstance(keywords[name], ast.Lambda) else ""
            shown = keywords[name].body if isinstance(keywords[name], ast.Lambda) else keywords[name]  # type: ignore[attr-defined]
            return f"`{ast.unparse(shown)}{call}`", text
    return "", text


def _is_overload(node: Function) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[2] in {"overload", "setter"} for decorator in node.decorator_list)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"
