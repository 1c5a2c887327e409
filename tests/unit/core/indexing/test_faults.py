"""The testing aid that kills a process at a named point."""

import signal
import subprocess
import sys

import pytest

from lodestone.errors import ConfigurationError
from lodestone.indexing.faults import VARIABLE, Faults


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    Faults.from_environment().reach("loading")


@pytest.mark.parametrize("asked", ["nowhere:1", "loading:0", "loading:x", ":1"])
def test_a_wrong_point_or_count_is_named(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    with pytest.raises(ConfigurationError, match=VARIABLE):
        Faults.from_environment()


def test_the_process_dies_at_the_visit_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "loading:2")
    script = (
        "from lodestone.indexing.faults import Faults\n"
        "faults = Faults.from_environment()\n"
        "for visit in range(3):\n"
        "    faults.reach('embedding'); faults.reach('loading'); print(visit, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0"]
