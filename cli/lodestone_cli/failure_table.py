"""Table of the files that could not be used, written as CSV, TSV or JSON lines."""

from __future__ import annotations

import csv
import errno
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unicodedata import category, normalize

from lodestone.errors import InvalidRequestError, OutOfSpaceError
from lodestone_cli.naming import corpora_of

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Failure

_FIELDS: Final = ("run_id", "corpus", "root", "path", "uri", "code", "message", "image_id")
_FORMULA_BEGINS: Final = frozenset("=+-@")
_CELL_BEGINS: Final = frozenset("\t\r\n")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def failure_rows(catalog: Catalog, failures: Iterator[Failure]) -> Iterator[dict[str, Any]]:
    """Yield failures with the names of their corpora and roots."""
    corpora = {corpus.corpus_id: corpus.name for corpus in corpora_of(catalog)}
    roots = {root.root_id: root for root in catalog.roots(None)}
    for failure in failures:
        root = roots[failure.root_id]
        yield {
            "run_id": failure.run_id,
            "corpus": corpora[root.corpus_id],
            "root": root.name,
            "path": root.path,
            "uri": failure.uri,
            "code": failure.code,
            "message": failure.message,
            "image_id": failure.image_id,
        }


def write_table(file: Path, rows: Iterator[dict[str, Any]]) -> int:
    """Write rows as they come, under a temporary name first, and return how many there were.

    Raises:
        InvalidRequestError: the name ends otherwise than in .csv, .tsv or .jsonl, or the file cannot be written.
        OutOfSpaceError: the disk is full.
    """
    kind = file.suffix.lower()
    if kind not in {".csv", ".tsv", ".jsonl"}:
        raise InvalidRequestError(
            f"{file.name!r} is no table that can be written", hint="end the name with .csv, .tsv or .jsonl"
        )
    count = 0
    temporary = file.with_name(f".{file.name}.part")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as out:
            table = csv.DictWriter(out, _FIELDS, dialect="excel-tab" if kind == ".tsv" else "excel")
            if kind != ".jsonl":
                table.writeheader()
            for count, row in enumerate(rows, start=1):  # noqa: B007 - the last number is the answer
                if kind == ".jsonl":
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
                else:
                    table.writerow({name: _cell(value) for name, value in row.items()})
        temporary.replace(file)
    except OSError as error:
        if error.errno in _FULL:
            raise OutOfSpaceError(
                f"no space left for {str(file)!r}", hint="free some space, or name a file elsewhere"
            ) from error
        raise InvalidRequestError(f"{str(file)!r} cannot be written: {error.strerror}", hint="name another file") from error
    finally:
        with suppress(OSError):  # it is there only if this came to nothing
            temporary.unlink(missing_ok=True)
    return count


def _cell(value: str | None) -> str | None:
    """Return a value that no spreadsheet runs as a formula, because file names are not trusted. JSON lines keep it as it is.

    Spreadsheets take full-width signs for the plain ones, and pass over spaces and signs that are not seen.
    web/lodestone_web/engine/csv.js has the same rule.
    """
    if not value:
        return value
    seen = next((sign for sign in normalize("NFKC", value) if not (sign.isspace() or category(sign).startswith("C"))), "")
    return f"'{value}" if value[0] in _CELL_BEGINS or seen in _FORMULA_BEGINS else value
