"""`lodestone serve` opens the search page only with `--open`, and tells its address where there is no browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import run_here

URL = "http://127.0.0.1:7860"


@pytest.mark.parametrize(
    ("flags", "keys", "expected"),
    [((), "false", []), (("--open",), "true", [URL]), (("--open",), "false", ["file:///…/unlock.html"])],
)
def test_the_page_is_opened_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], keys: str, expected: list[str]
) -> None:
    opened: list[str] = []
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "lodestone.toml").write_text(f"[serve.auth]\nkeys = {keys}\n")

    def serve(_settings: Any, *, options: Any, ready_callback: Callable[[str], None]) -> None:
        assert opened == [], "nothing answers yet"
        ready_callback(URL)
        for place in opened:
            if place.startswith("file:"):
                page = Path(place.removeprefix("file://"))
                assert f"{URL}/#unlock=" in page.read_text(), "the code is no part of what other users see of the browser"
                assert "unlock=" not in place

    monkeypatch.setattr("lodestone_serve.hosting.run.serve_forever", serve)
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")

    done = run_here("serve", *flags, home=tmp_path / "home")

    shown = [re.sub(r"^file:///.*/", "file:///…/", place) for place in opened]
    assert (done.code, shown) == (0, expected), done.err
    assert list((tmp_path / "home").glob("unlock.*")) == [], "no code outlives the service"


@pytest.mark.parametrize("has_browser", [True, False])
def test_where_there_is_no_browser_the_address_is_to_be_opened_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_browser: bool
) -> None:
    def serve(_settings: Any, *, options: Any, ready_callback: Callable[[str], None]) -> None:
        ready_callback(URL)

    monkeypatch.setattr("lodestone_serve.hosting.run.serve_forever", serve)
    monkeypatch.setattr("webbrowser.open", lambda _: has_browser)
    monkeypatch.setenv("DISPLAY", ":0")

    done = run_here("serve", "--open", home=tmp_path / "home")

    assert f"search page: {URL}" in done.err
    assert ("no browser could be opened" in done.err) is not has_browser
