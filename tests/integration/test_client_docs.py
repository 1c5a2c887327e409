"""Does every example of the client's page run, one after the other as a reader would try them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.pictures import write_photos
from tests.support.served import served_here

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    write_photos(tmp_path / "pictures", 8)
    settings = settings_for(tmp_path / "home")
    index(settings, tmp_path / "pictures", corpus="family")
    with served_here(settings) as served:
        yield served.address.url


def test_the_examples_of_the_page_run(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LODESTONE_URL", url)
    monkeypatch.delenv("LODESTONE_API_KEY", raising=False)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{PAGE.name}, example {number}", "exec"), names)
    said = capsys.readouterr().out
    for expected in (
        "family/pictures/",
        "True 3",
        "['words', 'picture'] [0.67, 0.33]",
        "3 parts",
        "final:",
        "3 failed:",
        "our old house",
        "family 8 pictures",
        "no indexed picture",
    ):
        assert expected in said, said
    names["service"].close()  # type: ignore[attr-defined]
