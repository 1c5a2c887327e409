"""Tests of progress in a real terminal: one look for all commands, nothing left behind, and a clean end by Ctrl-C."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import environment
from tests.support.terminal import Shown, child_script, in_terminal

HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
CHILD = """
import sys, time
from pathlib import Path
from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone_cli import main
from lodestone_cli.command_context import CommandContext, HomeOptions
from lodestone_cli.options import Output
from lodestone_cli.progress import shown_counts, shown_progress, shown_wait

def work(kind: str, output: Output = Output.HUMAN) -> None:
    with CommandContext(HomeOptions(output=output)) as context:
        if kind == "stages":
            with shown_progress(context) as progress:
                for done in range(5):
                    progress(ProgressEvent(RunStage.LOAD, done=done * 250, total=1000, rate=120.0, eta=9.0))
                    time.sleep(0.1)
        elif kind == "wait":
            with shown_wait(context, "learning", after_s=0.1):
                time.sleep(0.6)
        elif kind == "short":
            with shown_wait(context, "learning", after_s=30):
                pass
        else:
            with shown_counts(context) as count:
                for done in range(6):
                    count("comparing [pictures]", done * 1000, 5000)
                    time.sleep(0.1)
                if kind == "endless":
                    time.sleep(60)
        print("the result")

main.COMMANDS.clear()
main.GROUPS.clear()
main.app.command("work")(work)
main.app.command("other")(lambda: None)
sys.argv = ["lodestone", "work", *sys.argv[1:]]
main.main()
"""


def run(tmp_path: Path, kind: str, *, columns: int = 80, interrupt_at: bytes | None = None) -> Shown:
    env = {
        name: value for name, value in environment(tmp_path, TERM="xterm-256color").items() if name not in {"COLUMNS", "LINES"}
    }
    script = child_script(tmp_path, CHILD)
    return in_terminal([sys.executable, str(script), kind], env, size=(columns, 24), interrupt_at=interrupt_at)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("stages", ["loading vectors", "/1,000", "120/s", " left"]),
        ("counts", ["comparing [pictures]", "/5,000", "/s", "0:00:0"]),
        ("wait", ["learning", "0:00:0"]),
    ],
)
def test_progress_is_drawn_while_it_lasts_and_gone_afterwards(tmp_path: Path, kind: str, texts: list[str]) -> None:
    shown = run(tmp_path, kind)

    assert shown.code == 0
    drawn, _, after = shown.text.rpartition("the result")
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", drawn)
    assert not [text for text in texts if text not in plain]
    assert ("━" in plain) == (kind != "stages")  # at 80 columns, stages have more to say than fits beside a bar
    assert shown.raw.count(HIDE) == shown.raw.count(SHOW) == 1
    assert shown.raw.index(SHOW) < shown.raw.rindex(b"the result")
    assert after.strip() == ""


def test_what_takes_no_time_shows_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "short").text.split() == ["the", "result"]


def test_ctrl_c_ends_progress_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    shown = run(tmp_path, "endless", interrupt_at=b"5,000/5,000")

    assert shown.code == 130
    assert shown.raw.rindex(SHOW) > shown.raw.rindex(HIDE)
    assert shown.text.rpartition("\x1b[2K")[2].strip() == "interrupted"
    assert "Traceback" not in shown.text


@pytest.mark.parametrize(("output", "lines"), [("human", True), ("json", False)])
def test_elsewhere_there_are_few_lines_and_none_for_machines(tmp_path: Path, output: str, lines: bool) -> None:
    script = child_script(tmp_path, CHILD)
    done = subprocess.run(
        [sys.executable, str(script), "counts", "--output", output],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "the result\n"
    told = done.stderr.splitlines()
    assert "\x1b" not in done.stderr
    assert len(told) == (2 if lines else 0)
    assert not lines or told[0] == "comparing [pictures] 0/5,000"
    assert not lines or told[1].startswith("comparing [pictures] 5,000/5,000 ")
