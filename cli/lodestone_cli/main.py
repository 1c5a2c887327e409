"""Entry point of `lodestone …`: the table of commands, and the conversion of errors to a line and an exit code.

Exit codes are stable: 0 done; 1 unexpected; 2 wrong input; 130 interrupted; the others are those of `lodestone.errors`.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import warnings
from typing import Annotated

import typer

from lodestone import __version__
from lodestone.errors import LodestoneError
from lodestone_cli.options import SERVICE_URL

# Name -> (module, function). Modules are imported when their command runs or its help is shown.
_COMMANDS: dict[str, tuple[str, str]] = {
    "index": ("lodestone_cli.commands.index", "index"),
    "watch": ("lodestone_cli.commands.watch", "watch"),
    "search": ("lodestone_cli.commands.search", "search"),
    "similar": ("lodestone_cli.commands.search", "similar"),
    "status": ("lodestone_cli.commands.status", "status"),
    "doctor": ("lodestone_cli.commands.doctor", "doctor"),
    "feedback": ("lodestone_cli.commands.queries", "feedback"),
    "explain": ("lodestone_cli.commands.queries", "explain"),
    "replay": ("lodestone_cli.commands.queries", "replay"),
    "verify": ("lodestone_cli.commands.verify", "verify"),
    "plan": ("lodestone_cli.commands.plan", "plan"),
    "demo": ("lodestone_cli.commands.demo", "demo"),
}
_GROUPS: dict[str, tuple[str, str]] = {
    "serve": ("lodestone_cli.commands.serve", "app"),
    "runs": ("lodestone_cli.commands.runs", "app"),
    "corpus": ("lodestone_cli.commands.corpus", "app"),
    "directory": ("lodestone_cli.commands.directory", "app"),
    "train": ("lodestone_cli.commands.train", "app"),
    "models": ("lodestone_cli.commands.models", "app"),
    "eval": ("lodestone_cli.commands.eval", "app"),
    "tags": ("lodestone_cli.commands.tags", "app"),
    "trust": ("lodestone_cli.commands.trust", "app"),
    "generator": ("lodestone_cli.commands.generator", "app"),
    "backup": ("lodestone_cli.commands.backup", "app"),
    "duplicates": ("lodestone_cli.commands.duplicates", "app"),
    "embeddings": ("lodestone_cli.commands.embeddings", "app"),
    "config": ("lodestone_cli.commands.config", "app"),
    "keys": ("lodestone_cli.commands.keys", "app"),
}

_INTERRUPTED = 130

app = typer.Typer(
    name="lodestone",
    help="Find pictures by what you mean.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lodestone {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="Ask the service at this address (LODESTONE_URL; key: LODESTONE_API_KEY).", show_default=False
        ),
    ] = None,
) -> None:
    """Find pictures by what you mean: `lodestone index ~/Pictures`, then `lodestone search "two dogs on a beach"`."""
    SERVICE_URL.set(url)


def _load_commands() -> None:
    for name, (module, function) in _COMMANDS.items():
        app.command(name)(getattr(importlib.import_module(module), function))
    for name, (module, attribute) in _GROUPS.items():
        app.add_typer(getattr(importlib.import_module(module), attribute), name=name)


def main() -> None:
    """Run the `lodestone` script with the process's arguments, and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a name still shows the rest
    # Pillow warns of every blemish in a picture's metadata; what costs a picture becomes a failure row anyway.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    _load_commands()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; an error becomes one line on standard error."""
    named = SERVICE_URL.set(None)
    try:
        result = app(args=arguments, standalone_mode=False)
    except LodestoneError as error:
        _report(error, arguments)
        return error.exit_code
    except typer.TyperException as error:  # an unknown option, a missing argument
        sys.stderr.write(f"error [usage]: {error.format_message()}\n  hint: lodestone --help\n")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # The reader (head, less) has gone: that is its right. Keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        SERVICE_URL.reset(named)
    if result == _INTERRUPTED:  # Typer turns Ctrl-C into an exit code of its own accord
        return _interrupted()
    return result if isinstance(result, int) else 0


def _interrupted() -> int:
    sys.stderr.write("interrupted\n")
    return _INTERRUPTED


def _report(error: LodestoneError, arguments: list[str]) -> None:
    if any(a in {"json", "--output=json", "-ojson"} for a in arguments):
        problem = {"code": error.code, "detail": error.message, "hint": error.hint, **error.details}
        sys.stderr.write(json.dumps({"error": problem}, ensure_ascii=False, default=str) + "\n")
        return
    sys.stderr.write(f"error [{error.code}]: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"  hint: {error.hint}\n")
