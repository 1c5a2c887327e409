"""Groups of options: a parameter that is annotated with a dataclass of options stands for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

import typer


class Commands(typer.Typer):
    """Typer app whose commands may take groups of options."""

    def command(  # type: ignore[override]  # its options are handed on
        self,
        *arguments: Any,  # noqa: ANN401 - Typer's
        **options: Any,  # noqa: ANN401
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a command as Typer does; the options of its groups come last in its help, in their order."""
        register = super().command(*arguments, **options)

        def registered(command: Callable[..., Any]) -> Callable[..., Any]:
            register(with_groups(command))
            return command

        return registered


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the options of its groups in place of the parameters that stand for them, for Typer."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}
    if not groups:
        return command

    @wraps(command)
    def ungrouped(**given: Any) -> None:  # noqa: ANN401 - options of any type
        chosen = {name: group(**{one.name: given.pop(one.name) for one in fields(group)}) for name, group in groups.items()}
        command(**given, **chosen)

    options = [one for group in groups.values() for one in inspect.signature(group, eval_str=True).parameters.values()]
    every = [*(one for one in parameters if one.name not in groups), *options]
    signature = inspect.Signature([one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every])
    ungrouped.__signature__ = signature  # type: ignore[attr-defined]
    ungrouped.__annotations__ = {one.name: one.annotation for one in every}
    return ungrouped
