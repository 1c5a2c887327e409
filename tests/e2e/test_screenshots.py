"""Every state of the pages can still be reached for screenshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from scripts.screenshots import STATES, small, take
from tests.support.browser import chromium
from tests.support.homes import home_settings, index, write_pictures
from tests.support.served import served_here


@pytest.mark.nightly
@pytest.mark.slow
def test_every_state_is_shown(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", drawn=8)
    settings = home_settings(tmp_path / "home", serve={"upkeep": False})
    index(settings, tmp_path / "pictures")
    with served_here(settings) as served, chromium() as browser:
        files = take(browser, served.address.url, tmp_path, only="-phone-dark")
    assert [file.stem for file in files] == [f"{state}-phone-dark" for state in STATES]
    for file in files:
        with Image.open(file) as shown:
            assert shown.size == (390, 844)
            assert len(shown.convert("RGB").getcolors(1 << 20) or ()) > 10, file.stem
    assert len(small(files[0].read_bytes())) < files[0].stat().st_size
