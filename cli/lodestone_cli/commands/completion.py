"""Command `lodestone completion`: prints the script that teaches a shell to complete."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lodestone_cli.completion import COMPLETION


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[_Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the completion of a shell: `source <(lodestone completion bash)`. `--install-completion` installs it."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # public by its documentation, not by its module

    typer.echo(get_completion_script(prog_name="lodestone", complete_var=COMPLETION, shell=shell.value))
