"""The table of files that could not be used: what spreadsheets and scripts make of other people's file names."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lodestone.errors import CatalogError, InvalidRequestError
from lodestone_cli.failure_table import write_table

FORMULAS = ["=cmd|' C'!A0.jpg", "+1.jpg", "-1.jpg", "@SUM(A1).jpg", "\tx.jpg", "\rx.jpg", "\nx.jpg"]
# Full width and small forms, and plain ones behind spaces and signs that are not seen.
FORMULAS += ["＝1+1.jpg", "＋1.jpg", "－1.jpg", "＠x.jpg", "﹦1.jpg"]
FORMULAS += [" =1.jpg", "\u00a0=1.jpg", "\u200b=1.jpg", "\ufeff +1.jpg", "\x00=1"]
PLAIN = ['plain, "quoted" 🐈.jpg', "two\nlines.jpg", " 1=1.jpg", "ＡＢ＝1.jpg", "'=1.jpg", "−1.jpg", "\u200b", " "]
NAMES = [*FORMULAS, *PLAIN]


def rows() -> Iterator[dict[str, Any]]:
    for uri in NAMES:
        yield {
            "run_id": "r",
            "corpus": "default",
            "root": "photos",
            "path": "/photos",
            "uri": uri,
            "code": "empty_file",
            "message": "the file is empty",
            "image_id": None,
        }


@pytest.mark.parametrize(("name", "dialect"), [("bad.csv", "excel"), ("bad.TSV", "excel-tab")])
def test_no_cell_of_a_table_is_a_formula_and_every_name_is_one_cell(tmp_path: Path, name: str, dialect: str) -> None:
    assert write_table(tmp_path / name, rows()) == len(NAMES)
    with (tmp_path / name).open(encoding="utf-8", newline="") as file:
        found = [row["uri"] for row in csv.DictReader(file, dialect=dialect)]
    assert found == [f"'{name}" for name in FORMULAS] + PLAIN


def test_json_lines_have_names_as_they_are(tmp_path: Path) -> None:
    write_table(tmp_path / "bad.jsonl", rows())
    lines = (tmp_path / "bad.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["uri"] for line in lines] == NAMES


def test_what_comes_to_nothing_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("earlier")

    def breaks_off() -> Iterator[dict[str, Any]]:
        yield next(rows())
        raise CatalogError("the catalog's server does not answer")

    with pytest.raises(CatalogError):
        write_table(tmp_path / "bad.csv", breaks_off())
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]
    assert (tmp_path / "bad.csv").read_text() == "earlier"


@pytest.mark.parametrize("name", ["bad", "bad.xls", "nowhere/bad.csv"])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=Path(name).name):
        write_table(tmp_path / name, rows())
