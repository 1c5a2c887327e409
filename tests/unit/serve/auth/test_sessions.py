"""A session holds for a week by a clock that may be set back, and not beyond."""

from __future__ import annotations

import time

import pytest

from lodestone.errors import UnauthorizedError
from lodestone_serve.auth.sessions import CLOCK_STEP_S, HOLDS_S, Sessions

NOW = 1_800_000_000


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(time, "time", lambda: NOW)
    return Sessions("token")


@pytest.mark.parametrize("seconds", [0, 1, HOLDS_S, -1, -61, -3600, -CLOCK_STEP_S], ids=lambda seconds: f"{seconds:+} s")
def test_a_session_goes_on_for_a_week_also_when_the_clock_is_set_back(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    cookie = sessions.seal("lodestone_key")
    monkeypatch.setattr(time, "time", lambda: NOW + seconds)
    assert sessions.open(cookie) == "lodestone_key"


@pytest.mark.parametrize("seconds", [HOLDS_S + 1, -CLOCK_STEP_S - 1, -400 * 24 * 3600], ids=lambda seconds: f"{seconds:+} s")
def test_a_session_that_is_too_old_or_from_far_in_the_future_has_ended(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    cookie = sessions.seal("lodestone_key")
    monkeypatch.setattr(time, "time", lambda: NOW + seconds)
    with pytest.raises(UnauthorizedError, match="the session has ended"):
        sessions.open(cookie)


def test_a_session_of_another_service_or_with_another_time_does_not_open(sessions: Sessions) -> None:
    cookie = sessions.seal("lodestone_key")
    with pytest.raises(UnauthorizedError):
        Sessions("another token").open(cookie)
    with pytest.raises(UnauthorizedError):
        sessions.open(cookie[:8] + ("A" if cookie[8] != "A" else "B") + cookie[9:])
