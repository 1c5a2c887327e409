"""Command lines that are built once: Typer makes a thousand options of functions' annotations for every command that is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest


@pytest.fixture(scope="session", autouse=True)
def built_commands() -> Iterator[None]:
    """Build the commands of an app anew only where there are more of them than last time.

    A process of `lodestone` runs one command and builds that one alone. A process of tests has all of them loaded, runs
    hundreds, and took a tenth of a second of its processor for each.
    """
    import typer.main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", building_once())
        yield


def building_once() -> Callable[[Any], Any]:
    """Return what stands for `get_command` of Typer: it builds an app once, and again where something was added to the app."""
    import typer.main

    build = typer.main.get_command
    built: WeakKeyDictionary[typer.Typer, tuple[tuple[int, int], Any]] = WeakKeyDictionary()

    def get_command(app: typer.Typer) -> Any:
        size = (len(app.registered_commands), len(app.registered_groups))
        if app not in built or built[app][0] != size:
            built[app] = (size, build(app))
        return built[app][1]

    return get_command
