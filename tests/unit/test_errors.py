"""Do errors keep their code, hint and facts on the way through processes, and are codes unique?"""

from __future__ import annotations

import pickle

import pytest

from lodestone import errors
from lodestone.errors import LodestoneError, UnknownNameError


def _all(kind: type[LodestoneError] = LodestoneError) -> list[type[LodestoneError]]:
    return [kind, *(sub for child in kind.__subclasses__() if child.__module__ == errors.__name__ for sub in _all(child))]


@pytest.mark.parametrize("kind", _all())
def test_an_error_survives_pickling(kind: type[LodestoneError]) -> None:
    error = pickle.loads(pickle.dumps(kind("it broke", hint="mend it", path="a/b", count=3)))
    assert type(error) is kind
    assert (str(error), error.hint, error.details) == ("it broke", "mend it", {"path": "a/b", "count": 3})


def test_codes_are_unique_and_statuses_are_errors() -> None:
    codes = [kind.code for kind in _all()]
    assert len(codes) == len(set(codes))
    assert all(400 <= kind.status < 600 and 0 < kind.exit_code < 128 for kind in _all())


def test_every_code_is_documented() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
    assert [kind.code for kind in _all() if f"`{kind.code}`" not in text] == []


def test_an_unknown_name_lists_what_is_known() -> None:
    error = UnknownNameError.among("fusion", "magic", ["rrf", "needle"])
    assert "magic" in error.message
    assert error.hint == "known: needle, rrf"
    assert UnknownNameError.among("corpus", "x", []).hint == "known: none yet"
