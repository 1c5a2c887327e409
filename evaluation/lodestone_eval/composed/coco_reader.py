"""Reader of MS-COCO with three modalities: parts of two pictures and a category's name ask for a picture that shows all three.

The benchmark of MPC (Neculai, Chen and Akata, 2022) on COCO (Lin et al., 2014), which MUST uses (appendix J). A part of a
query is the region of a category in a picture, or the category's name. Right is every picture that shows all of the
categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from lodestone_eval.composed.queries import ComposedQuery, ComposedSet, QueryPicture, Region, finish
from lodestone_eval.datasets.base import Folder, check_split, one_line

_LAYOUT: Final = (
    "expected: DIR/{parts}_{split}_cases.json and DIR/{split}_imgs.json (or in DIR/datasets/coco/), "
    "DIR/instances_train2017.json (or in DIR/annotations/) and COCO's DIR/train2017/000000000009.jpg …"
)
_PARTS: Final = 3
_COMPOSITION: Final = "image_text_image"  # what MUST encodes
_SPLITS: Final = ("test", "val", "test-all", "val-all")


def read_coco_parts(root: Path, split: str | None) -> ComposedSet:
    """Read the queries of three categories; a picture whose part is in the query is left out.

    Args:
        root: The folder.
        split: test (default) or val for queries of a picture, words and a picture; test-all and val-all for all eight orders of
            pictures and words, which are then the labels.
    """
    split = split or "test"
    check_split("coco-parts", split, _SPLITS)
    part, _, every = split.partition("-")
    folder = Folder("coco-parts", root, _LAYOUT.format(parts=_PARTS, split=part))
    cases_path = folder.file(f"{_PARTS}_{part}_cases.json", f"datasets/coco/{_PARTS}_{part}_cases.json")
    gallery_path = folder.file(f"{part}_imgs.json", f"datasets/coco/{part}_imgs.json")
    instances_path = folder.file("instances_train2017.json", "annotations/instances_train2017.json")
    base = folder.folder("train2017", "images/train2017")
    gallery, cases = folder.json(gallery_path), folder.json(cases_path)
    if not isinstance(gallery, list):
        raise folder.unreadable(gallery_path, "it is no list of picture ids")
    if not isinstance(cases, dict):
        raise folder.unreadable(cases_path, "it is no object of modalities and queries")
    searched = dict.fromkeys(number for number in gallery if isinstance(number, int))
    folder.malformed(len(gallery) - len(searched))
    asked = list(_cases(folder, cases, cases_path, only=None if every else _COMPOSITION))
    names, regions = _instances(
        folder, instances_path, {*searched, *(number for _, pictures, _ in asked for number in pictures)}
    )
    showing: dict[int, set[int]] = {}
    for number, category in regions:
        showing.setdefault(category, set()).add(number)

    def queries() -> Iterator[ComposedQuery]:
        for place, (order, pictures, categories) in enumerate(asked):
            parts = list(zip(order.split("_"), pictures, categories, strict=True))
            shown = [(number, regions.get((number, category))) for kind, number, category in parts if kind == "image"]
            words = [names.get(category) for kind, _, category in parts if kind == "text"]
            if None in words or any(region is None for _, region in shown):
                folder.malformed()
                continue
            right = set.intersection(*(showing.get(category, set()) for category in categories)) & searched.keys()
            yield ComposedQuery(
                f"{order}-{place}",
                tuple(QueryPicture(base / _file(number), region) for number, region in shown),
                tuple(word for word in words if word is not None),
                frozenset(map(_file, right)),
                excluded=frozenset(_file(number) for number, _ in shown),
                labels=(order,),
            )

    texts: dict[str, list[str]] = {}
    for number, category in regions:
        if number in searched and category in names:
            texts.setdefault(_file(number), []).append(names[category])
    return finish(
        folder,
        {_file(number): base / _file(number) for number in searched},
        queries(),
        split=split,
        metrics=("recall@10(1)", "recall@50(1)", "recall@100(1)"),
        texts={name: ", ".join(categories) for name, categories in texts.items()},
    )


def _cases(
    folder: Folder, cases: Mapping[str, Any], path: Path, *, only: str | None
) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield (modalities, picture ids, category ids) of each query."""
    if only is not None and only not in cases:
        raise folder.unreadable(path, f"no list {only!r} in it")
    for order in cases if only is None else (only,):
        known = order.count("_") == _PARTS - 1 and {"image", "text"}.issuperset(order.split("_"))
        for row in folder.rows(cases, order, path):
            pictures, categories = _ids(row.get("images")), _ids(row.get("categories"))
            if not known or len(pictures) != _PARTS or len(categories) != _PARTS:
                folder.malformed()
            else:
                yield order, pictures, categories


def _instances(folder: Folder, path: Path, pictures: set[int]) -> tuple[dict[int, str], dict[tuple[int, int], Region]]:
    """Return category id -> name, and (picture, category) -> region of the first annotation, of some pictures."""
    table = folder.json(path)
    names = {}
    for row in folder.rows(table, "categories", path):
        text = one_line(row.get("name"))
        if text and isinstance(row.get("id"), int):
            names[row["id"]] = text
        else:
            folder.malformed()
    regions: dict[tuple[int, int], Region] = {}
    for row in folder.rows(table, "annotations", path):
        number, category, box = row.get("image_id"), row.get("category_id"), row.get("bbox")
        if not isinstance(number, int) or not isinstance(category, int) or not _is_box(box):
            folder.malformed()
        elif number in pictures:
            left, top, width, height = box
            regions.setdefault((number, category), (float(left), float(top), float(width), float(height)))
    return names, regions


def _is_box(box: object) -> TypeGuard[list[float]]:
    return (
        isinstance(box, list)
        and len(box) == 4
        and all(isinstance(edge, int | float) for edge in box)
        and min(box) >= 0
        and box[2] > 0
        and box[3] > 0
    )


def _ids(items: object) -> list[int]:
    return [item for item in items if isinstance(item, int)] if isinstance(items, list) else []


def _file(number: int) -> str:
    """Return the name of a picture of COCO 2017."""
    return f"{number:012d}.jpg"
