"""Tests of what is opened beside the terminal: only where there is a screen, or a browser that the user named."""

from __future__ import annotations

import webbrowser

import pytest

from lodestone_cli.terminal.desktop import has_screen, open_in_browser

PAGE = "http://127.0.0.1:7860"


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"WSL_DISTRO_NAME": "Debian"}, "linux", True),
        ({"SSH_CONNECTION": "::1 1 ::1 22"}, "linux", False),
        ({"SSH_CONNECTION": "::1 1 ::1 22", "DISPLAY": "localhost:10.0"}, "linux", True),
        ({}, "freebsd14", False),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_window_opens_only_where_the_environment_has_a_screen(
    environment: dict[str, str], platform: str, expected: bool
) -> None:
    assert has_screen(environment, platform=platform) is expected


def test_no_text_browser_takes_the_terminal_but_one_that_the_user_named_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda page: opened.append(page) or True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("lodestone_cli.terminal.desktop.has_screen", lambda: False)

    assert open_in_browser(PAGE) is False
    assert opened == []

    monkeypatch.setenv("BROWSER", "lynx")
    assert open_in_browser(PAGE) is True
    assert opened == [PAGE]


def test_a_browser_that_fails_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: str) -> bool:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", fails)
    assert open_in_browser(PAGE) is False
