"""Readers of COCO and the benchmarks in its format: `images` and `annotations` in one JSON file, pictures beside it.

COCO captions (Chen et al., 2015) and instances (Lin et al., 2014). LVIS (Gupta et al., 2019), where only some pictures were
checked for a category: those that show it, and those that are known not to (`neg_category_ids`). nocaps (Agrawal et al., 2019),
whose captions belong to three domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lodestone_eval.datasets.base import (
    EvalQuery,
    EvalSet,
    Folder,
    caption_set,
    check_split,
    object_set,
    one_line,
    safe_name,
)

_COCO_LAYOUT: Final = (
    "expected: DIR/annotations/{kind}_{split}.json and DIR/{split}/000000000139.jpg … (or DIR/images/{split}/)"
)
_LVIS_LAYOUT: Final = "expected: DIR/lvis_v1_{split}.json (or in DIR/annotations/) and COCO's DIR/val2017/, DIR/train2017/"
_NOCAPS_LAYOUT: Final = "expected: DIR/nocaps_val_4500_captions.json (or in DIR/annotations/) and DIR/images/ (or val/)"
_SPLITS: Final = ("val2017", "train2017", "val2014", "train2014")
_DOMAINS: Final = ("in-domain", "near-domain", "out-domain")
_FREQUENCIES: Final = {"r": "rare", "c": "common", "f": "frequent"}


def read_coco_captions(root: Path, split: str | None) -> EvalSet:
    """Read COCO's captions; every caption is a query for its picture."""
    split = split or _SPLITS[0]
    folder, table, path = _coco("coco-captions", "captions", root, split)
    names = _names(folder, table, path)
    return caption_set(
        folder, _files(names, _picture_folder(folder, split)), _captions(folder, table, path, names), split=split
    )


def read_coco_instances(root: Path, split: str | None) -> EvalSet:
    """Read COCO's instances; every category is a query for the pictures with an instance of it."""
    split = split or _SPLITS[0]
    folder, table, path = _coco("coco-instances", "instances", root, split)
    names = _names(folder, table, path)
    relevant = _pictures_of_categories(folder, table, path, names)
    queries = [
        EvalQuery(text, text, frozenset(relevant.get(category, ()))) for category, text, _ in _categories(folder, table, path)
    ]
    return object_set(folder, _files(names, _picture_folder(folder, split)), queries, split=split)


def read_lvis(root: Path, split: str | None) -> EvalSet:
    """Read LVIS; every category is a query, and `judged` holds the pictures that were checked for it.

    The labels are rare, common and frequent.
    """
    split = split or "val"
    check_split("lvis", split, ("val", "train"))
    folder = Folder("lvis", root, _LVIS_LAYOUT.format(split=split))
    path = folder.file(f"lvis_v1_{split}.json", f"annotations/lvis_v1_{split}.json")
    table = folder.json(path)
    names: dict[Any, str] = {}
    negatives: dict[Any, set[str]] = {}
    for row in folder.rows(table, "images", path):
        name = _lvis_name(row)
        if name is None or "id" not in row:
            folder.malformed()
            continue
        names[row["id"]] = name
        without = row.get("neg_category_ids")
        for category in without if isinstance(without, list) else ():
            negatives.setdefault(category, set()).add(name)
    relevant = _pictures_of_categories(folder, table, path, names)
    queries = []
    for category, text, row in _categories(folder, table, path):
        right = frozenset(relevant.get(category, ()))
        judged = right | negatives.get(category, set())
        label = _FREQUENCIES.get(str(row.get("frequency")), "")
        queries.append(EvalQuery(str(row["name"]), _lvis_words(text), right, judged=judged, label=label))
    base = root / "images" if (root / "images").is_dir() else root
    return object_set(folder, {name: base / name for name in names.values()}, queries, split=split)


def read_nocaps(root: Path, split: str | None) -> EvalSet:
    """Read nocaps; every caption is a query, and its label is its domain.

    The split is one domain (in-domain, near-domain, out-domain), or None for all.
    """
    check_split("nocaps", split, _DOMAINS)
    folder = Folder("nocaps", root, _NOCAPS_LAYOUT)
    path = folder.file("nocaps_val_4500_captions.json", "annotations/nocaps_val_4500_captions.json")
    table = folder.json(path)
    rows = [row for row in folder.rows(table, "images", path) if split is None or row.get("domain") == split]
    names = _names(folder, {"images": rows}, path)
    domains = {row.get("id"): one_line(row.get("domain")) for row in rows}
    base = folder.folder("images", "val", "validation")
    captions = _captions(folder, table, path, names, labels=domains, foreign_is_wrong=split is None)
    return caption_set(folder, _files(names, base), captions, split=split)


def _coco(name: str, kind: str, root: Path, split: str) -> tuple[Folder, Any, Path]:
    check_split(name, split, _SPLITS)
    folder = Folder(name, root, _COCO_LAYOUT.format(kind=kind, split=split))
    path = folder.file(f"annotations/{kind}_{split}.json", f"{kind}_{split}.json")
    return folder, folder.json(path), path


def _picture_folder(folder: Folder, split: str) -> Path:
    return folder.folder(split, f"images/{split}")


def _files(names: Mapping[Any, str], base: Path) -> dict[str, Path]:
    return {name: base / name for name in names.values()}


def _names(folder: Folder, table: Any, path: Path) -> dict[Any, str]:  # noqa: ANN401 - parsed JSON
    """Return image id -> picture's name."""
    names: dict[Any, str] = {}
    for row in folder.rows(table, "images", path):
        name = safe_name(row.get("file_name"))
        if name is None or not isinstance(row.get("id"), int | str):
            folder.malformed()
        else:
            names[row["id"]] = name
    return names


def _captions(
    folder: Folder,
    table: Any,  # noqa: ANN401 - parsed JSON
    path: Path,
    names: Mapping[Any, str],
    *,
    labels: Mapping[Any, str] | None = None,
    foreign_is_wrong: bool = True,
) -> list[tuple[str, str, str]]:
    captions = []
    for row in folder.rows(table, "annotations", path):
        name, text = names.get(_hashable(row.get("image_id"))), one_line(row.get("caption"))
        if name is not None and text:
            captions.append((name, text, (labels or {}).get(row["image_id"], "")))
        elif foreign_is_wrong or not text:
            folder.malformed()
    return captions


def _categories(folder: Folder, table: Any, path: Path) -> list[tuple[Any, str, dict[str, Any]]]:  # noqa: ANN401
    """Return (id, name, row) of each category."""
    categories = []
    for row in folder.rows(table, "categories", path):
        text = one_line(row.get("name"))
        if text and isinstance(row.get("id"), int | str):
            categories.append((row["id"], text, row))
        else:
            folder.malformed()
    return categories


def _pictures_of_categories(folder: Folder, table: Any, path: Path, names: Mapping[Any, str]) -> dict[Any, set[str]]:  # noqa: ANN401
    """Return category id -> names of the pictures that show it."""
    pictures: dict[Any, set[str]] = {}
    for row in folder.rows(table, "annotations", path):
        name, category = names.get(_hashable(row.get("image_id"))), row.get("category_id")
        if name is None or not isinstance(category, int | str):
            folder.malformed()
        else:
            pictures.setdefault(category, set()).add(name)
    return pictures


def _lvis_name(row: Mapping[str, Any]) -> str | None:
    """Return a picture's name from its address at COCO, `…/val2017/000000397133.jpg`.

    LVIS 0.5 gives the file's name instead.
    """
    address = row.get("coco_url")
    if isinstance(address, str):
        parts = urlsplit(address).path.rsplit("/", 2)
        return safe_name("/".join(parts[-2:]))
    return safe_name(row.get("file_name"))


def _lvis_words(name: str) -> str:
    """Return a category's words as NEEDLE queries them: `chicken_(animal)` -> `chicken animal`."""
    return one_line(name.replace("_", " ").replace("(", "").replace(")", ""))


def _hashable(value: object) -> int | str | None:
    return value if isinstance(value, int | str) else None
