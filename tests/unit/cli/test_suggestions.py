"""No command or option that takes something away is ever suggested."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import typer.main
from tests.support.cli import run_here

from lodestone_cli import main
from lodestone_cli.usage import DESTRUCTIVE


def groups() -> dict[tuple[str, ...], typer.core.TyperGroup]:
    """Return every group of commands by its words."""
    main._load_commands()
    found: dict[tuple[str, ...], typer.core.TyperGroup] = {}
    left = [((), typer.main.get_command(main.app))]
    while left:
        words, command = left.pop()
        if isinstance(command, typer.core.TyperGroup):
            found[words] = command
            left += [((*words, name), inner) for name, inner in command.commands.items()]
    return found


GROUPS = groups()


def mistyped(name: str) -> list[str]:
    """Return words that are nearly a name: a letter left out, added or exchanged."""
    return [name[:-1], name[1:], f"{name}s", name[0] + name[2] + name[1] + name[3:]]


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: " ".join(words) or "lodestone")
def test_no_mistyped_command_is_answered_with_a_destructive_one(words: tuple[str, ...], tmp_path: Path) -> None:
    group = GROUPS[words]
    destructive = [name for name in group.commands if name in DESTRUCTIVE]
    for name in {*itertools.chain.from_iterable(map(mistyped, destructive))} - group.commands.keys():
        done = run_here(*words, name, "x", "y", home=tmp_path)
        assert done.code == 2
        suggested = done.err.partition("Did you mean")[2]
        assert not [each for each in DESTRUCTIVE if f"'{each}'" in suggested], done.err


def test_others_are_still_suggested(tmp_path: Path) -> None:
    assert "'search'" in run_here("serach", "a", home=tmp_path).err
    assert "'list'" in run_here("corpus", "lsit", home=tmp_path).err


def test_what_asks_first_is_among_the_destructive_ones() -> None:
    asking = {
        name
        for group in GROUPS.values()
        for name, command in group.commands.items()
        if any("--yes" in getattr(param, "opts", ()) for param in command.params)
    }
    assert asking
    assert asking <= DESTRUCTIVE


@pytest.mark.parametrize("option", ["--ye", "--yse", "--repar"])
def test_no_destructive_option_is_suggested(option: str, tmp_path: Path) -> None:
    command = ("verify",) if option == "--repar" else ("corpus", "remove", "x")
    error = run_here(*command, option, home=tmp_path).err
    assert "--yes" not in error
    assert "--repair" not in error
