"""Look-up of an adapter's factory by name, for every table of adapters and for other packages' entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from lodestone.errors import UnknownNameError

Adapter = TypeVar("Adapter")
Context = TypeVar("Context")


def make(
    kind: str,
    name: str,
    context: Context,
    *,
    table: Mapping[str, Callable[[Context], Adapter]],
    group: str,
    families: Mapping[str, Callable[[str, Context], Adapter]] | None = None,
) -> Adapter:
    """Make the adapter called `name`: from our tables, else from an installed package's entry point in `group`.

    Our own names come first, so that no package can replace a built-in adapter unnoticed. An entry point names a callable that
    takes the same context as the factories of the table.

    Args:
        kind: What the adapter is, for messages.
        name: A key of `table`, a prefix in `families` followed by at least one character, or an entry point's name.
        context: Passed to the factory.
        table: Name -> factory.
        group: Entry point group of other packages.
        families: Prefix with its colon -> factory of all names that begin with it; the factory gets the whole name.

    Raises:
        UnknownNameError: the name is unknown; the hint lists the known ones.
    """
    factory = table.get(name)
    if factory is not None:
        return factory(context)
    families = families or {}
    for prefix, of_family in families.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return of_family(name, context)
    foreign = entry_points(group=group)
    for point in foreign:
        if point.name == name:
            adapter: Adapter = point.load()(context)
            return adapter
    raise UnknownNameError.among(
        kind, name, [*table, *(f"{prefix}…" for prefix in families), *(point.name for point in foreign)]
    )
