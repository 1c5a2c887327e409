"""Reader of SentiCap: COCO pictures with captions of positive and negative sentiment, in JSON with splits or in CSV.

Mathews, Xie and He, SentiCap: Generating Image Descriptions with Sentiments (2016).
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from lodestone_eval.datasets.base import EvalSet, Folder, caption_set, check_split, one_line, safe_name, sentences_of

_LAYOUT: Final = (
    "expected: DIR/data/senticap_dataset.json (or DIR/senticap_dataset.json, or .csv with the columns"
    " filename,is_positive_sentiment,caption) and COCO's DIR/val2014/COCO_val2014_000000000042.jpg …"
)
_COLUMNS: Final = ["filename", "is_positive_sentiment", "caption"]
_LABELS: Final = {0: "negative", 1: "positive"}
_Captions = list[tuple[str, str, str]]


def read_senticap(root: Path, split: str | None) -> EvalSet:
    """Read a split of SentiCap (test by default, val, train or all).

    Every caption is a query, labelled positive or negative.
    """
    check_split("senticap", split, ("test", "val", "train", "all"))
    folder = Folder("senticap", root, _LAYOUT)
    base = folder.folder("val2014", "images/val2014", "images")
    table = folder.optional_file("data/senticap_dataset.json", "senticap_dataset.json")
    if table is not None:
        split = split or "test"
        names, captions = _from_json(folder, table, split)
    else:
        path = folder.file("data/senticap_dataset.csv", "senticap_dataset.csv")
        if split not in {None, "all"}:
            folder.file("data/senticap_dataset.json")  # the CSV has no splits, so this raises with the name of the missing file
        split = "all"
        names, captions = _from_csv(folder, path)
    return caption_set(folder, {name: base / name for name in names}, captions, split=split)


def _from_json(folder: Folder, path: Path, split: str) -> tuple[list[str], _Captions]:
    names: list[str] = []
    captions: _Captions = []
    for name, sentences in sentences_of(folder, path, split):
        names.append(name)
        for sentence in sentences:
            text = one_line(sentence.get("raw")) if isinstance(sentence, dict) else ""
            label = _label(sentence.get("sentiment")) if isinstance(sentence, dict) else None
            if text and label:
                captions.append((name, text, label))
            else:
                folder.malformed()
    return names, captions


def _label(sentiment: object) -> str | None:
    return _LABELS.get(sentiment) if isinstance(sentiment, int) else None


def _from_csv(folder: Folder, path: Path) -> tuple[list[str], _Captions]:
    rows = csv.reader(io.StringIO("\n".join(folder.lines(path))))
    if next(rows, []) != _COLUMNS:
        raise folder.unreadable(path, f"its header is not {','.join(_COLUMNS)}")
    captions: _Captions = []
    for row in rows:
        name = safe_name(row[0]) if len(row) == len(_COLUMNS) else None
        if name is None or row[1] not in {"0", "1"} or not row[2].strip():
            folder.malformed()
        else:
            captions.append((name, row[2], _LABELS[int(row[1])]))
    return list(dict.fromkeys(name for name, _, _ in captions)), captions
