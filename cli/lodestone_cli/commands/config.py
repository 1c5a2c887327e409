"""Commands `lodestone config …`: the settings in force and the source of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lodestone_cli.command_context import CommandContext, printable
from lodestone_cli.completion import complete_settings
from lodestone_cli.options import HomeOption, Output, OutputOption, ProfileOption
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Settings: defaults, then `lodestone.toml`, then LODESTONE_… variables, then flags."""


@app.command()
def show(
    beginning: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A setting or a section: only those whose names begin so.",
            show_default=False,
            autocompletion=complete_settings,
        ),
    ] = "",
    home: HomeOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Output.HUMAN,
) -> None:
    """Print every effective setting with its source. Secrets are masked, and those in addresses too."""
    from lodestone.config.settings import config_path, flatten
    from lodestone.errors import NotFoundError
    from lodestone_schemas.redaction import shown_setting

    with CommandContext(home=home, profile=profile, output=output) as context:
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
