"""Commands `lodestone config …`: the settings in force and the source of each, and edits of the settings file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, HomeOptions, printable
from lodestone_cli.completion import complete_settings
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import HomeOption, Output, OutputOption
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.config.edit import Edit

app = Commands(help="Settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Settings: defaults, then `lodestone.toml`, then LODESTONE_… variables, then flags."""


@app.command()
def show(
    at: HomeOptions,
    beginning: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A setting or a section: only those whose names begin so.", autocompletion=complete_settings
        ),
    ] = "",
) -> None:
    """Print every effective setting with its source. Secrets are masked, and those in addresses too."""
    from lodestone.config.settings import config_path, flatten
    from lodestone.errors import NotFoundError
    from lodestone_schemas.redaction import shown_setting

    with CommandContext(at) as context:
        values = flatten(shown_setting("", context.loaded.settings.model_dump(mode="json")))
        rows = {
            name: {"value": value, "source": context.loaded.sources.get(name, "default")}
            for name, value in values.items()
            if name.startswith(beginning)
        }
        if not rows:
            raise NotFoundError(f"no setting's name begins with {beginning!r}", hint="lodestone config show")

        def human(console: Console) -> None:
            from rich.markup import escape
            from rich.table import Table

            table = Table(box=None, pad_edge=False)
            for title in ("setting", "value", "from"):
                table.add_column(title, overflow="fold", no_wrap=title == "setting")
            for name, row in rows.items():
                style = None if row["source"] == "default" else "bold"
                value = "" if row["value"] is None else printable(str(row["value"]))
                table.add_row(name, escape(value), escape(printable(row["source"])), style=style)
            print_table(console, table)
            console.print(printable(f"settings file: {config_path(context.loaded.settings.home)}"), style="dim", markup=False)

        context.emit(rows, human)


_NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the setting: index.workers.", autocompletion=complete_settings)
]


@app.command("set")
def set_(
    name: _NameArgument,
    value: Annotated[str, typer.Argument(help="Its value as in the file: a number, true, a list, a text.")],
    home: HomeOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Write a setting into the settings file. Its comments stay, and nothing is written that is not allowed."""
    from lodestone.config.edit import set_setting

    _edited(home, output, lambda path: set_setting(path, name, value))


@app.command()
def unset(name: _NameArgument, home: HomeOption = None, output: OutputOption = Output.HUMAN) -> None:
    """Take a setting, or a whole section, out of the settings file, so that its default holds again."""
    from lodestone.config.edit import unset_setting

    _edited(home, output, lambda path: unset_setting(path, name))


def _edited(home: Path | None, output: Output, edit: Callable[[Path], Edit]) -> None:
    """Edit the settings file, and say what it has now, and where something else overrides it."""
    from lodestone.config.settings import config_path, load_settings
    from lodestone.errors import ConfigurationError

    with suppress(ConfigurationError):  # the file is to be mended, maybe
        CommandContext(HomeOptions(home=home, output=output), purpose="lodestone config", writes=True)
    usual = os.environ.get("LODESTONE_HOME")
    done = edit(config_path(home or (Path(usual) if usual else None)))
    loaded = load_settings({"home": home})
    source = loaded.sources.get(done.name, "default")
    overridden = source if done.after is not None and source not in {"default", str(done.path)} else None
    context = CommandContext(HomeOptions(home=home, output=output))

    def human(console: Console) -> None:
        now = "is not set any more" if done.after is None else f"= {json.dumps(done.after, default=str, ensure_ascii=False)}"
        console.print(printable(f"{done.path}: {done.name} {now}"), markup=False)
        if overridden:
            console.print(printable(f"note: {overridden} overrides it"), markup=False)
        if context.service_url is not None:
            console.print("note: the running service has it from its next start on", markup=False)

    value = {"file": str(done.path), "name": done.name, "before": done.before, "after": done.after, "overridden_by": overridden}
    context.emit(value, human)
    context.__exit__()
