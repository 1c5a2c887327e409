"""Which factory does a name stand for? One look-up for every table of adapters, with entry points for other people's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from lodestone.errors import UnknownNameError

Adapter = TypeVar("Adapter")
Context = TypeVar("Context")


def make(kind: str, name: str, context: Context, *, table: Mapping[str, Callable[[Context], Adapter]], group: str) -> Adapter:
    """The adapter called `name`: from our table, else from an installed package's entry point in `group`.

    Our own names win, so that no package can replace a built-in adapter unseen. An entry point names a callable that takes the
    same context as the factories of the table.

    Raises:
        UnknownNameError: neither knows the name; the hint lists what both know.
    """
    factory = table.get(name)
    if factory is not None:
        return factory(context)
    foreign = entry_points(group=group)
    for point in foreign:
        if point.name == name:
            adapter: Adapter = point.load()(context)
            return adapter
    raise UnknownNameError.among(kind, name, [*table, *(point.name for point in foreign)])
