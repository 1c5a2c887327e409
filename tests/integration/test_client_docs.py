"""Every example of the pages on the client runs, one after the other as a reader would try them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.pictures import write_photos
from tests.support.served import served_here

DOCS = Path(__file__).parents[2] / "docs"
# Page -> (the least number of its examples, what they print in this order or another).
PAGES = {
    "client.md": (
        7,
        (
            "family/pictures/",
            "True 3",
            "['words', 'picture'] [0.67, 0.33]",
            "3 parts",
            "final:",
            "3 failed:",
            "our old house",
            "family 8 pictures",
            "no indexed picture",
        ),
    ),
    "notebook.md": (2, ()),
    "frameworks.md": (
        4,
        ("family/pictures/", "Which of these pictures shows a boat?", "1 picture", "https://pictures.example"),
    ),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("client-docs")
    write_photos(folder / "pictures", 8)
    settings = settings_for(folder / "home")
    index(settings, folder / "pictures", corpus="family")
    with served_here(settings) as served:
        yield served.address.url


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_the_page_run(
    page: str, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LODESTONE_URL", url)
    monkeypatch.delenv("LODESTONE_API_KEY", raising=False)
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    least, printed = PAGES[page]
    assert len(blocks) >= least
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, example {number}", "exec"), names)
    said = capsys.readouterr().out
    for expected in printed:
        assert expected in said, said
    for name in ("service", "retriever", "quick", "pipeline"):
        if name in names:
            names[name].close()  # type: ignore[attr-defined]
