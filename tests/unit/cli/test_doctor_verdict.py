"""Tests of how `lodestone doctor` ends: with a verdict, and with the one thing to do next."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import run_here

from lodestone_cli.commands.doctor import DoctorCheck, verdict

SOUND = DoctorCheck("python", True, "3.11")
LOST = DoctorCheck("torch", False, "not installed", "make install")
FULL = DoctorCheck("disk", False, "3 MB free", "free some space before indexing")
RIDDLE = DoctorCheck("service", False, "it answers nothing")


def test_a_sound_home_is_told_so_with_the_next_command() -> None:
    assert verdict([SOUND, SOUND], next_step="lodestone index ~/Pictures") == [
        "Nothing is wrong.",
        "Next: lodestone index ~/Pictures",
    ]


def test_faults_are_counted_and_named_once_and_the_first_remedy_comes_next() -> None:
    assert verdict([SOUND, RIDDLE, LOST, FULL, FULL], next_step="lodestone search") == [
        "4 of 5 checks found something wrong: service, torch, disk.",
        "Next: make install; then lodestone doctor again",
    ]


def test_a_fault_without_a_remedy_promises_none() -> None:
    assert verdict([SOUND, RIDDLE], next_step="lodestone search") == ["1 of 2 checks found something wrong: service."]


def test_the_command_ends_with_what_an_empty_home_is_ready_for(tmp_path: Path) -> None:
    done = run_here("doctor", home=tmp_path / "home")

    assert done.out.rstrip().splitlines()[-2:] == ["Nothing is wrong.", "Next: lodestone index ~/Pictures"]
