"""Tests that the API reference is written from docstrings alone, and that names that do not resolve are errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import api_reference
from scripts.reference.definitions import Sources, UnresolvedNameError
from scripts.reference.docstrings import parse
from scripts.reference.pages import page

PACKAGE = {
    "shop/__init__.py": '''"""A shop."""
from .tills import Till as Till
from shop.prices import price

__all__ = ["Till", "price"]
''',
    "shop/prices.py": '''"""Prices."""
raise RuntimeError("this module must not be imported")

def price(name: str, *, count: int = 1, **options: object) -> float:
    """Return the price of a ware.

    The price is in euros.

    Args:
        name: Name of the ware,
            as on its label.
        count: Number of pieces.

    Returns:
        The price of all pieces.

    Raises:
        KeyError: there is no such ware.
        ValueError: the count is negative.
    """
''',
    "shop/base.py": '''from abc import ABC, abstractmethod

class Counter(ABC):
    """Something to pay at."""

    @property
    def open(self) -> bool:
        """Whether it is open."""

    @abstractmethod
    async def pay(self, amount: float, /) -> None:
        """Take money."""

    def _secret(self) -> None:
        """Hide."""
''',
    "shop/tills.py": '''from pydantic import BaseModel, Field, field_validator
from shop import base

class Till(base.Counter):
    """A till.

    Args:
        drawers: Drawers for coins.

    Attributes:
        number: Number of the till.
    """

    number: int

    def __init__(self, drawers: int = 3) -> None:
        ...

    async def pay(self, amount: float, /) -> None:
        """Take money and open a drawer."""

class Settings(BaseModel):
    """Settings of a till."""

    drawers: int = Field(3, ge=1, le=9, description="Drawers | for coins.")
    names: list[str] = Field(default_factory=list)

    @field_validator("drawers")
    @classmethod
    def check(cls, value: int) -> int:
        """Check."""
''',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "source"


def test_a_function_has_its_signature_and_its_sections(folder: Path) -> None:
    text = page("Shop", ["shop.price"], Sources([folder]))
    assert text.startswith("# Shop\n")
    assert "```python\nshop.price(name: str, *, count: int = 1, **options: object) -> float\n```" in text
    assert "Return the price of a ware.\n\nThe price is in euros." in text
    assert "**Parameters**\n\n- `name`: Name of the ware, as on its label.\n- `count`: Number of pieces." in text
    assert "**Returns**\n\nThe price of all pieces." in text
    assert "**Raises**\n\n- `KeyError`: there is no such ware.\n- `ValueError`: the count is negative." in text


def test_a_class_has_its_fields_and_own_and_inherited_members(folder: Path) -> None:
    text = page("Shop", ["shop.Till"], Sources([folder]))
    assert "class shop.Till(drawers: int = 3)\n" in text
    assert "| `number` | `int` |  | Number of the till. |" in text
    assert "### `Till.pay`\n\n```python\nasync pay(amount: float, /) -> None\n```\n\nTake money and open a drawer." in text
    assert text.count("### `Till.pay`") == 1
    assert (
        "### `Till.open`\n\n```python\nopen: bool\n```\n\n*property*\n\nWhether it is open.\n\nInherited from `Counter`."
        in text
    )
    assert "_secret" not in text


def test_an_abstract_method_is_named_as_such(folder: Path) -> None:
    assert "*abstract*\n\nTake money." in page("Shop", ["shop.base.Counter"], Sources([folder]))


def test_fields_of_a_pydantic_model_have_default_bounds_and_description(folder: Path) -> None:
    text = page("Shop", ["shop.tills.Settings"], Sources([folder]))
    assert "| `drawers` | `int` | `3` | Drawers \\| for coins. (>= 1, <= 9) |" in text
    assert "| `names` | `list[str]` | `list()` |  |" in text
    assert "check" not in text


def test_a_module_stands_for_all_that_it_exports(folder: Path) -> None:
    text = page("Shop", ["shop"], Sources([folder]))
    assert "A shop." in text
    assert text.index("## `Till`") < text.index("## `price`")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop.Wares", "'shop.Wares' does not resolve: .*__init__.py defines and imports no 'Wares'"),
        ("shop.Till.sell", "no 'sell'"),
        ("market.Stall", "there is no module 'market'"),
    ],
)
def test_a_name_that_leads_nowhere_is_a_clear_error(folder: Path, name: str, message: str) -> None:
    with pytest.raises(UnresolvedNameError, match=message):
        page("Shop", [name], Sources([folder]))


def test_the_check_fails_for_changed_missing_and_left_over_pages(folder: Path, tmp_path: Path) -> None:
    pages = api_reference.made({"a.md": ("A", ("shop.price",)), "b.md": ("B", ("shop.Till",))}, [folder])
    assert pages == api_reference.made({"a.md": ("A", ("shop.price",)), "b.md": ("B", ("shop.Till",))}, [folder])
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
    assert api_reference.stale(pages, tmp_path) == []
    (tmp_path / "a.md").write_text("changed")
    (tmp_path / "b.md").unlink()
    (tmp_path / "c.md").write_text("left over")
    assert api_reference.stale(pages, tmp_path) == ["a.md", "b.md", "c.md"]


def test_a_run_writes_what_its_check_accepts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api_reference, "ROOT", folder.parent)
    monkeypatch.setattr(api_reference, "SOURCES", (folder.name,))
    monkeypatch.setattr(api_reference.made, "__defaults__", ({"a.md": ("A", ("shop.price",))}, None))
    monkeypatch.setattr(api_reference, "PROGRAM", {"c.md": lambda: "# C\n"})
    target = ["--folder", str(tmp_path / "reference")]
    assert api_reference.main(["--check", *target]) == 1
    assert api_reference.main(target) == 0
    assert api_reference.main(["--check", *target]) == 0
    assert sorted(path.name for path in (tmp_path / "reference").iterdir()) == ["a.md", "c.md"]
    monkeypatch.setattr(api_reference.made, "__defaults__", ({"a.md": ("A", ("shop.gone",))}, None))
    assert api_reference.main(target) == 2
    assert "'shop.gone' does not resolve" in capsys.readouterr().err


def test_every_name_of_the_table_resolves() -> None:
    pages = api_reference.made()
    assert pages.keys() == api_reference.PAGES.keys()
    assert "### `Lodestone.search`" in pages["client.md"]


def test_text_behind_a_section_is_text_again() -> None:
    docstring = parse("First.\n\nArgs:\n    one, two: Both.\n\nLast words.")
    assert docstring.text == "First.\n\nLast words."
    assert docstring.items("Args") == {"one": "Both.", "two": "Both."}
