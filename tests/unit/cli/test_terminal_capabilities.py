"""Tests of what a terminal can show: by its variables, by its answers, in a real pseudo-terminal, and never in a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.cli import environment
from tests.support.terminal import DA1, KITTY_SAYS, PATIENT_PROBE, child_script, in_terminal, screen_of
from tests.unit.cli.test_answer import answer, hit

from lodestone_cli.answer import print_answer
from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.options import Pictures
from lodestone_cli.terminal import capabilities
from lodestone_cli.terminal.probe import TerminalAnswer, ask_terminal, read_answer

NOTHING = TerminalAnswer()
CHILD = """
import io, sys
from PIL import Image
from rich.console import Console
from tests.unit.cli.test_answer import answer, hit
from lodestone_cli.answer import print_answer
from lodestone_cli.options import Pictures
from lodestone_cli.terminal.capabilities import screen_of
from lodestone_cli.terminal.grid import PictureGrid

file = io.BytesIO()
Image.new("RGB", (64, 48), (10, 200, 30)).save(file, "PNG")
console = Console(soft_wrap=True, highlight=False)
screen = screen_of(console, Pictures(sys.argv[1]))
grid = None if screen is None else PictureGrid(screen, lambda _: file.getvalue())
print_answer(console, answer(hit(1), hit(2)), {}, grid=grid)
print("as", "nothing" if screen is None else f"{screen.pictures} {screen.cell}")
"""


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    said: TerminalAnswer = NOTHING,
    *,
    wanted: Pictures = Pictures.AUTO,
    colours: str | None = "truecolor",
    stream: io.StringIO | None = None,
) -> tuple[Pictures | None, list[bool]]:
    """How pictures are shown, and the questions that were asked (whether kitty's was among them)."""
    asked: list[bool] = []

    def ask(*, kitty: bool) -> TerminalAnswer:
        asked.append(kitty)
        return said

    monkeypatch.setattr(sys, "stdout", stream or Tty())
    monkeypatch.setattr(capabilities.os, "get_terminal_size", lambda _: (80, 24))
    monkeypatch.setattr(capabilities, "_cell_of", lambda _: (9, 18))
    console = Console(file=io.StringIO(), force_terminal=True, color_system=colours)  # type: ignore[arg-type]
    screen = capabilities.screen_of(console, wanted, environment={"TERM": "xterm-256color", **variables}, ask=ask)
    return (None if screen is None else screen.pictures), asked


@pytest.mark.parametrize(
    ("variables", "pictures"),
    [
        ({"TERM": "xterm-kitty"}, Pictures.KITTY),
        ({"KITTY_WINDOW_ID": "1"}, Pictures.KITTY),
        ({"TERM_PROGRAM": "ghostty"}, Pictures.KITTY),
        ({"TERM_PROGRAM": "iTerm.app"}, Pictures.ITERM2),
        ({"TERM_PROGRAM": "WezTerm"}, Pictures.ITERM2),
        ({"LC_TERMINAL": "iTerm2"}, Pictures.ITERM2),
    ],
)
def test_a_terminal_that_names_itself_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], pictures: Pictures
) -> None:
    assert chosen(monkeypatch, variables) == (pictures, [])


@pytest.mark.parametrize(
    ("variables", "answer", "pictures"),
    [
        ({}, TerminalAnswer(kitty=True, sixel=True), Pictures.KITTY),
        ({}, TerminalAnswer(sixel=True), Pictures.SIXEL),
        ({}, NOTHING, Pictures.BLOCKS),
        ({"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/tmux"}, NOTHING, Pictures.BLOCKS),
        ({"KITTY_WINDOW_ID": "1", "TERM": "screen-256color"}, TerminalAnswer(sixel=True), Pictures.SIXEL),
    ],
)
def test_others_are_asked_and_show_half_blocks_at_least(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], answer: TerminalAnswer, pictures: Pictures
) -> None:
    assert chosen(monkeypatch, variables, answer) == (pictures, [True])


def test_a_terminal_that_would_print_the_question_is_asked_the_rest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, {"TERM_PROGRAM": "Apple_Terminal"}) == (Pictures.BLOCKS, [False])


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ({"NO_COLOR": "1"}, {}),
        ({"NO_COLOR": "1", "TERM": "xterm-kitty"}, {"wanted": Pictures.KITTY}),
        ({"TERM": "dumb"}, {}),
        ({"TERM": "linux"}, {"colours": "standard"}),
        ({}, {"wanted": Pictures.NONE}),
        ({"TERM": "xterm-kitty"}, {"stream": io.StringIO()}),
        ({"FORCE_COLOR": "1"}, {"stream": io.StringIO(), "wanted": Pictures.SIXEL}),
    ],
)
def test_no_pictures_without_a_terminal_that_can_and_may_show_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], options: dict[str, object]
) -> None:
    assert chosen(monkeypatch, variables, TerminalAnswer(kitty=False), **options) == (None, [])  # type: ignore[arg-type]


def test_the_user_s_choice_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, {"TERM": "xterm-kitty"}, wanted=Pictures.SIXEL) == (Pictures.SIXEL, [])


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (b"", NOTHING),
        (b"\x1b[?62;4;22c", TerminalAnswer(sixel=True)),
        (b"\x1b[?4c", NOTHING),  # a VT132, whose kind is 4
        (b"\x1b[?64;14;42c", NOTHING),
        (KITTY_SAYS + b"\x1b[6;20;10t\x1b[?62c", TerminalAnswer(kitty=True, cell=(10, 20))),
        (b"\x1b_Gi=31;ENOTSUP:no\x1b\\\x1b[?62c", NOTHING),
        (b"\x1b[6;0;0t\x1b[?62;4c", TerminalAnswer(sixel=True)),
        (b"\x1b[6;99999999;3t\x1b[?6", NOTHING),
        (b"ls -l\r\x1b[?1;2;4c", TerminalAnswer(sixel=True)),
    ],
)
def test_answers_of_terminals_are_understood(answer: bytes, meaning: TerminalAnswer) -> None:
    assert read_answer(answer) == meaning


def test_what_is_no_terminal_is_not_asked() -> None:
    assert ask_terminal() == NOTHING  # pytest's own standard output has no terminal


@pytest.mark.parametrize(
    ("wanted", "answer", "variables", "shown"),
    [
        ("auto", KITTY_SAYS + b"\x1b[6;24;12t\x1b[?62c", {}, "as kitty (12, 24)"),
        ("auto", b"\x1b[?62;4c", {}, "as sixel (10, 20)"),
        ("auto", b"\x1b[?62c", {"COLORTERM": "truecolor"}, "as blocks (10, 20)"),
        ("auto", b"", {}, "as blocks (10, 20)"),
        ("auto", b"\x1b[?62;4c", {"NO_COLOR": "1"}, "as nothing"),
        ("none", b"\x1b[?62;4c", {}, "as nothing"),
    ],
)
def test_a_real_terminal_is_asked_once_and_gets_what_it_knows(
    wanted: str, answer: bytes, variables: dict[str, str], shown: str, tmp_path: Path
) -> None:
    env = environment(tmp_path, TERM="xterm-256color", **variables)
    env = {name: value for name, value in env.items() if name not in {"COLUMNS", "LINES", "TMUX", "TERM_PROGRAM"}}
    script = child_script(tmp_path, (PATIENT_PROBE if answer else "") + CHILD)

    done = in_terminal([sys.executable, str(script), wanted], env, answer=answer)

    assert done.code == 0
    assert done.raw.count(DA1) == (shown != "as nothing")
    written = done.text.replace(DA1.decode(), "").replace("\x1b[16t", "").replace("\r\n", "\n")
    screen = screen_of(written, width=80)
    assert screen.lines[-1] == shown
    assert "\x1b[?62" not in done.text, "the answer was echoed"
    drawn = [graphics for *_, graphics in screen.graphics if "a=q" not in graphics]
    assert len(drawn) == (2 if shown.startswith(("as kitty", "as sixel")) else 0)
    assert any("▀" in line for line in screen.lines) == shown.startswith("as blocks")


def test_without_colours_answers_have_no_escape_sequences_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich's own: a terminal, even in a pipe

    console = CommandContext(HomeOptions(home=tmp_path)).console
    with console.capture() as printed:
        print_answer(console, answer(hit(1)), {"id-1": "/p/a.jpg"})

    assert "/p/a.jpg" in printed.get()
    assert "\x1b" not in printed.get()
