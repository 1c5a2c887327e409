"""Command lines of the documentation: which cannot be run by a test and why, and what the real parser says of them all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import typer
from tests.support.documents import Statement, without_comment

from lodestone_cli import main

SHELLS: Final = ("bash", "sh", "console")

# What a command line that no test can run looks like -> why. The first row that fits counts; a row that fits none is an error.
NOT_RUN: Final[dict[str, str]] = {
    r"^docs/(runbooks/|deploy\.md)": "needs a Kubernetes cluster",
    r" kubectl\b": "needs a Kubernetes cluster",
    r"qdrant\.example|//qdrant-0": "needs a Qdrant server",
    r"\bray job\b|//HEAD:8265|RAY_AUTH_MODE|RAY_SERVE_TRACING": "needs a Ray cluster",
    r"\b(s3|gs)://|\bexport AWS_": "needs a bucket",
    r"//pictures\.example|//photos\.example|/etc/lodestone|=authority\.pem|LODESTONE_API_KEY=": "asks another machine",
    r" docker\b": "needs Docker and minutes to build an image",
    r" (pip|git clone|python -m venv|\. \.venv)\b| \. \.venv": "installs packages",
    r" make\b": "builds, installs or measures for minutes",
    r" python -m (benchmarks|research)\b": "measures for minutes",
    r" createdb\b|db\.example": "needs a PostgreSQL server",
    r" promtool\b|fetch_promtool": "needs promtool, which other tests fetch",
    r" lodestone (serve|serve --open|serve --config .*|watch)$": "runs until stopped; a service is there already",
    r"OTLP_ENDPOINT|TELEMETRY__SAMPLE": "is for a service that is started afterwards",
    r" lodestone eval\b|lodestone eval ann\b": "needs a benchmark's data",
    r" lodestone train\b": "needs more captioned pictures than a test has, and minutes",
    r"LODESTONE_PROFILE=": "needs other models, some of them a GPU",
    r"efficientnet-lite1|models swap": "needs other models, and minutes",
    r"--generator turbo|generator test turbo": "needs a drawing model and a GPU",
    r"--here\b": "measures the machine for minutes",
    r"^docs/removal\.md": "removes pictures that the commands of other pages find; test_removal_commands.py forgets some",
    r"/backup/catalog\.sqlite|catalog rebuild|home\.json": "replaces a damaged catalog",
}

_OPERATORS = {";", "&&", "||", "|", "&", "(", ")", "\n"}
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_NESTED = re.compile(r"(?:--entrypoint|-c) '(lodestone [^']+)'|(?:^|\s)--\s+\\?\s*(lodestone [^|)\n]+)")


def reason_not_to_run(statement: Statement) -> str | None:
    """Return why a test cannot run a command line; None where it can."""
    return next((NOT_RUN[pattern] for pattern in patterns_of(statement)[:1]), None)


def patterns_of(statement: Statement) -> list[str]:
    """Return the rows of `NOT_RUN` that fit a command line: the place of it, or its text without comments."""
    text = "\n".join(without_comment(line).rstrip() for line in statement.text.splitlines())
    return [pattern for pattern in NOT_RUN if re.search(pattern, f"{statement.place} {text}")]


def calls(text: str, program: str = "lodestone") -> Iterator[list[str]]:
    """Yield the arguments of every call of a program in a command line, also of calls within other programs' arguments."""
    for nested in _NESTED.finditer(text):
        if program == "lodestone":
            yield shlex.split(without_comment(nested[1] or nested[2]))[1:]
    for words in _simple_commands(text):
        if words[0] == program:
            yield words[1:]


def _simple_commands(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in [*_without_comments(lexer), ";"]:
        if word in _OPERATORS or set(word) <= set(";&|()"):
            while words and _ASSIGNMENT.match(words[0]):
                words.pop(0)
            if words:
                yield _without_redirections(words)
            words = []
        else:
            words.append(word)


def _without_comments(words: Iterator[str]) -> Iterator[str]:
    """Yield words up to one that begins a comment: no statement goes on behind one."""
    for word in words:
        if word.startswith("#"):
            return
        yield word


def _without_redirections(words: list[str]) -> list[str]:
    return words[: next((at for at, word in enumerate(words) if set(word) <= {"<", ">"}), len(words))]


@cache
def root_command() -> Any:
    """Return the root of the real command line, with all commands loaded."""
    main._load_commands()
    return typer.main.get_command(main.app)


def parse(words: list[str]) -> Any:
    """Parse a call of `lodestone` as the program does, and return the context of its command; nothing is run.

    Raises:
        click's UsageError: the command, an option or an argument does not exist, is missing or has a wrong value.
    """
    command = root_command()
    context = command.make_context("lodestone", list(words))
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return context
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context
