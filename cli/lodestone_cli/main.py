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
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from lodestone import __version__
from lodestone.errors import LodestoneError
from lodestone_cli import IMPORTED_AT
from lodestone_cli.command_context import printable
from lodestone_cli.completion import COMPLETION
from lodestone_cli.file_names import inert_json
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import SERVICE_URL, as_options
from lodestone_cli.stopwatch import stopwatch
from lodestone_cli.usage import SafeCommands, command_of, usage_sentence

# Name -> (module, function). Modules are imported when their command runs or its help is shown.
COMMANDS: dict[str, tuple[str, str]] = {
    "index": ("lodestone_cli.commands.index", "index"),
    "watch": ("lodestone_cli.commands.watch", "watch"),
    "search": ("lodestone_cli.commands.search", "search"),
    "similar": ("lodestone_cli.commands.search", "similar"),
    "browse": ("lodestone_cli.commands.browse", "browse"),
    "events": ("lodestone_cli.commands.events", "events"),
    "facets": ("lodestone_cli.commands.facets", "facets"),
    "refine": ("lodestone_cli.commands.refine", "refine"),
    "status": ("lodestone_cli.commands.status", "status"),
    "doctor": ("lodestone_cli.commands.doctor", "doctor"),
    "feedback": ("lodestone_cli.commands.queries", "feedback"),
    "explain": ("lodestone_cli.commands.queries", "explain"),
    "replay": ("lodestone_cli.commands.queries", "replay"),
    "forget": ("lodestone_cli.commands.forget", "forget"),
    "verify": ("lodestone_cli.commands.verify", "verify"),
    "export": ("lodestone_cli.commands.export", "export"),
    "plan": ("lodestone_cli.commands.plan", "plan"),
    "demo": ("lodestone_cli.commands.demo", "demo"),
    "completion": ("lodestone_cli.completion", "completion"),
}
GROUPS: dict[str, tuple[str, str]] = {
    "serve": ("lodestone_cli.commands.serve", "app"),
    "runs": ("lodestone_cli.commands.runs", "app"),
    "corpus": ("lodestone_cli.commands.corpus", "app"),
    "directory": ("lodestone_cli.commands.directory", "app"),
    "train": ("lodestone_cli.commands.train", "app"),
    "models": ("lodestone_cli.commands.models", "app"),
    "eval": ("lodestone_cli.commands.evaluation.rankings", "app"),
    "tags": ("lodestone_cli.commands.tags", "app"),
    "trust": ("lodestone_cli.commands.trust", "app"),
    "generator": ("lodestone_cli.commands.generator", "app"),
    "backup": ("lodestone_cli.commands.backup", "app"),
    "catalog": ("lodestone_cli.commands.catalog", "app"),
    "duplicates": ("lodestone_cli.commands.duplicates", "app"),
    "embeddings": ("lodestone_cli.commands.embeddings", "app"),
    "config": ("lodestone_cli.commands.config", "app"),
    "keys": ("lodestone_cli.commands.keys", "app"),
}

# Heading of the help -> its commands; the help lists them in the order of the tables above.
HEADINGS: dict[str, tuple[str, ...]] = {
    "Find pictures": (
        "index",
        "search",
        "similar",
        "browse",
        "facets",
        "events",
        "refine",
        "feedback",
        "explain",
        "replay",
        "demo",
    ),
    "Look after collections": (
        "status",
        "doctor",
        "watch",
        "corpus",
        "directory",
        "forget",
        "runs",
        "tags",
        "duplicates",
        "backup",
        "export",
        "verify",
    ),
    "Serve and set up": ("serve", "keys", "models", "generator", "config", "completion", "plan", "catalog", "embeddings"),
    "Learn and measure": ("train", "trust", "eval"),
}
_HEADING_OF = {name: heading for heading, names in HEADINGS.items() for name in names}

_INTERRUPTED = 130

app = Commands(
    name="lodestone",
    help="Find pictures by what you mean.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    cls=SafeCommands,
    suggest_commands=False,  # the class does
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
        str | None, typer.Option("--url", help="Ask the service at this address (LODESTONE_URL; key: LODESTONE_API_KEY).")
    ] = None,
) -> None:
    """Find pictures by what you mean: `lodestone index ~/Pictures`, then `lodestone search "two dogs on a beach"`."""
    SERVICE_URL.set(url)


def _load_commands(words: Sequence[str] = ()) -> None:
    """Import the command that is among `words`; all commands where none is, for the help and for hints at a mistyped one."""
    named = next((word for word in words if word in COMMANDS or word in GROUPS), None)
    for name, (module, function) in COMMANDS.items():
        if named in {None, name}:
            app.command(name, rich_help_panel=_HEADING_OF.get(name))(getattr(importlib.import_module(module), function))
    for name, (module, attribute) in GROUPS.items():
        if named in {None, name}:
            found = getattr(importlib.import_module(module), attribute)
            app.add_typer(found, name=name, cls=SafeCommands, rich_help_panel=_HEADING_OF.get(name))


def _load_for_completion(line: str) -> None:
    """Import what a shell needs to complete a command line: the command that it names, or the names of all commands alone."""
    words = line.split()[1:]
    if any(word in COMMANDS or word in GROUPS for word in words):
        _load_commands(words)
        return
    for name in (*COMMANDS, *GROUPS):
        app.command(name)(lambda: None)


def main() -> None:
    """Run the `lodestone` script with the process's arguments, and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a name still shows the rest
    # Pillow warns of every blemish in a picture's metadata; what costs a picture becomes a failure row anyway.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
    if COMPLETION in os.environ:
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")  # by bash; by the other shells
        _load_for_completion(line)
    else:
        _load_commands(sys.argv[1:])
    sys.exit(run(sys.argv[1:], began=IMPORTED_AT))


def run(arguments: list[str], *, began: float | None = None) -> int:
    """Run one command line and return its exit code; an error becomes one line on standard error.

    Args:
        arguments: The command line without the name of the program.
        began: When the user started it, on the clock of `time.monotonic()`; None for now.
    """
    with stopwatch(began):
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    named = SERVICE_URL.set(None)
    try:
        result = app(args=arguments, prog_name="lodestone", standalone_mode=False)
    except LodestoneError as error:
        _report(error, arguments)
        return error.exit_code
    except typer.TyperException as error:  # an unknown option, a missing argument
        if sentence := usage_sentence(error):
            command = command_of(error, arguments, [*COMMANDS, *GROUPS])
            _write_error(arguments, {"code": "usage", "detail": sentence, "hint": f"{command} --help"})
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
    problem = {"code": error.code, "detail": as_options(error.message), "hint": as_options(error.hint), **error.details}
    _write_error(arguments, problem)


def _write_error(arguments: list[str], problem: Mapping[str, Any]) -> None:
    if any(a in {"json", "--output=json", "-ojson"} for a in arguments):
        sys.stderr.write(inert_json(json.dumps({"error": problem}, ensure_ascii=False, default=str)) + "\n")
        return
    # A service elsewhere may have worded the problem: what a terminal would obey is not shown.
    sys.stderr.write(f"error [{problem['code']}]: {_printable_lines(problem['detail'])}\n")
    if problem["hint"]:
        sys.stderr.write(f"  hint: {_printable_lines(problem['hint'])}\n")


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())
