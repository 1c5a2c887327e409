"""Readers of benchmarks whose words are captions that tell a picture from its reference: FashionIQ, CIRR, CIRCO and i-CIR.

FashionIQ (Wu et al., 2021), CIRR (Liu et al., 2021), CIRCO (Baldrati et al., 2023) and i-CIR (Psomas et al., 2025), each in
the layout that its authors publish. Splits without a published truth are read as well: their answers are submitted to a
server.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lodestone_eval.composed.queries import ComposedQuery, ComposedSet, QueryPicture, finish
from lodestone_eval.datasets.base import Folder, check_split, one_line, safe_name

_FASHION_LAYOUT: Final = (
    "expected: DIR/captions/cap.dress.{split}.json and DIR/image_splits/split.dress.{split}.json, the same for shirt and "
    "toptee (one at least), and DIR/images/<asin>.jpg (or .png)"
)
_GARMENTS: Final = ("dress", "shirt", "toptee")
_CIRR_LAYOUT: Final = (
    "expected: DIR/captions/cap.rc2.{split}.json, DIR/image_splits/split.rc2.{split}.json and the pictures of NLVR2 in "
    "DIR/img_raw/ (or DIR): dev/dev-0-0-img0.png …"
)
_CIRCO_LAYOUT: Final = (
    "expected: DIR/annotations/{split}.json, DIR/COCO2017_unlabeled/annotations/image_info_unlabeled2017.json and "
    "DIR/COCO2017_unlabeled/unlabeled2017/000000243611.jpg …"
)
_ICIR_LAYOUT: Final = (
    "expected: DIR/query_files.csv and DIR/database_files.csv (file,text,instance), DIR/query/ and DIR/database/"
)


def read_fashion_iq(root: Path, split: str | None) -> ComposedSet:
    """Read FashionIQ; a query is a garment with both of its captions, and its pictures are those of its category's split.

    The labels are dress, shirt and toptee. The reference stays among the results, as in the published protocol.

    Args:
        root: The folder.
        split: val (default), train, or test, whose targets are not in every copy.
    """
    split = split or "val"
    check_split("fashioniq", split, ("val", "train", "test"))
    folder = Folder("fashioniq", root, _FASHION_LAYOUT.format(split=split))
    base = folder.folder("images", "resized_image", "image_data")
    galleries: dict[str, frozenset[str]] = {}
    rows: list[tuple[str, int, dict[str, Any]]] = []
    for garment in _GARMENTS:
        captions = folder.optional_file(f"captions/cap.{garment}.{split}.json")
        if captions is None and (garment != _GARMENTS[-1] or galleries):
            continue
        captions = folder.file(f"captions/cap.{garment}.{split}.json")
        members_path = folder.file(f"image_splits/split.{garment}.{split}.json")
        members = _list(folder, members_path)
        galleries[garment] = frozenset(asin for asin in members if isinstance(asin, str) and safe_name(asin))
        folder.malformed(len(members) - len(galleries[garment]))
        rows += [(garment, number, row) for number, row in enumerate(_objects(folder, captions))]
    asked = {asin for _, _, row in rows for key in ("candidate", "target") if isinstance(asin := row.get(key), str)}
    names = {asin: _picture_name(base, asin) for asin in asked.union(*galleries.values()) if safe_name(asin)}
    searched = {garment: frozenset(names[asin] for asin in members) for garment, members in galleries.items()}

    def queries() -> Iterator[ComposedQuery]:
        for garment, number, row in rows:
            captions_of_row = row.get("captions")
            words = [one_line(text).strip(" .?,") for text in captions_of_row] if isinstance(captions_of_row, list) else []
            reference, target = _named(names, row.get("candidate")), _named(names, row.get("target"))
            if reference is None or not any(words) or ("target" in row and target is None):
                folder.malformed()
                continue
            yield ComposedQuery(
                f"{garment}-{number}",
                (QueryPicture(base / reference),),
                (" and ".join(text for text in words if text),),
                frozenset() if target is None else frozenset({target}),
                target=target or "",
                candidates=searched[garment],
                labels=(garment,),
            )

    pictures = {name: base / name for members in searched.values() for name in sorted(members)}
    hidden = not any("target" in row for _, _, row in rows)
    return finish(folder, pictures, queries(), split=split, metrics=("recall@10(1)", "recall@50(1)"), hidden=hidden)


def read_cirr(root: Path, split: str | None) -> ComposedSet:
    """Read CIRR (version rc2); the reference is left out, and the target is ranked among its subset too.

    Args:
        root: The folder.
        split: val (default), train, or test1, whose targets are not published.
    """
    split = split or "val"
    check_split("cirr", split, ("val", "train", "test1"))
    folder = Folder("cirr", root, _CIRR_LAYOUT.format(split=split))
    base = folder.root / "img_raw" if (folder.root / "img_raw").is_dir() else folder.root
    members_path = folder.file(f"image_splits/split.rc2.{split}.json")
    captions_path = folder.file(f"captions/cap.rc2.{split}.json")
    members = folder.json(members_path)
    if not isinstance(members, dict):
        raise folder.unreadable(members_path, "it is no object of picture and path")
    names = {key: name for key, place in members.items() if (name := safe_name(place)) is not None}
    folder.malformed(len(members) - len(names))
    hidden = split == "test1"

    def queries() -> Iterator[ComposedQuery]:
        for row in _objects(folder, captions_path):
            reference, target = _named(names, row.get("reference")), _named(names, row.get("target_hard"))
            subset, words = row.get("img_set"), one_line(row.get("caption"))
            of_subset = subset.get("members") if isinstance(subset, dict) else None
            if reference is None or not words or not isinstance(of_subset, list) or (target is None and not hidden):
                folder.malformed()
                continue
            yield ComposedQuery(
                str(row.get("pairid")),
                (QueryPicture(base / reference),),
                (words,),
                frozenset() if target is None else frozenset({target}),
                target=target or "",
                subset=frozenset(name for member in of_subset if (name := _named(names, member)) not in {None, reference}),
                excluded=frozenset({reference}),
            )

    metrics = (*(f"recall@{k}(1)" for k in (1, 5, 10, 50)), *(f"subset@{k}" for k in (1, 2, 3)))
    pictures = {name: base / name for name in names.values()}
    return finish(folder, pictures, queries(), split=split, metrics=metrics, hidden=hidden)


def read_circo(root: Path, split: str | None) -> ComposedSet:
    """Read CIRCO; a query has several right pictures among those of COCO's unlabelled part.

    The labels are the semantic aspects of a query, where the file has them.

    Args:
        root: The folder.
        split: val (default), or test, whose truth is not published.
    """
    split = split or "val"
    check_split("circo", split, ("val", "test"))
    folder = Folder("circo", root, _CIRCO_LAYOUT.format(split=split))
    coco = "COCO2017_unlabeled"
    info_path = folder.file(f"{coco}/annotations/image_info_unlabeled2017.json")
    base = folder.folder(f"{coco}/unlabeled2017")
    names: dict[int, str] = {}
    for row in folder.rows(folder.json(info_path), "images", info_path):
        name, number = safe_name(row.get("file_name")), row.get("id")
        if name is None or not isinstance(number, int):
            folder.malformed()
        else:
            names[number] = name
    hidden = split == "test"

    def queries() -> Iterator[ComposedQuery]:
        for row in _objects(folder, folder.file(f"annotations/{split}.json")):
            reference, target = _known(names, row.get("reference_img_id")), _known(names, row.get("target_img_id"))
            words, truths, aspects = one_line(row.get("relative_caption")), row.get("gt_img_ids"), row.get("semantic_aspects")
            if reference is None or not words or (not hidden and (target is None or not isinstance(truths, list))):
                folder.malformed()
                continue
            right = {_known(names, number) for number in truths or ()} if isinstance(truths, list) else set()
            yield ComposedQuery(
                str(row.get("id")),
                (QueryPicture(base / reference),),
                (words,),
                frozenset(name for name in right if name is not None),
                target=target or "",
                labels=tuple(one_line(aspect) for aspect in aspects) if isinstance(aspects, list) else (),
            )

    depths = (5, 10, 25, 50)
    metrics = (*(f"map@{k}" for k in depths), *(f"target@{k}" for k in depths))
    return finish(
        folder, {name: base / name for name in names.values()}, queries(), split=split, metrics=metrics, hidden=hidden
    )


def read_icir(root: Path, split: str | None) -> ComposedSet:
    """Read i-CIR; right are the pictures of the same instance with the same text, searched among the instance's pictures.

    The labels are the instances. Their mean over instances is published as well.
    """
    check_split("icir", split, ())
    folder = Folder("icir", root, _ICIR_LAYOUT)
    database = list(_icir_rows(folder, folder.file("database_files.csv", "annotations/database_files.csv"), "database"))
    asked = list(_icir_rows(folder, folder.file("query_files.csv", "annotations/query_files.csv"), "query"))
    of_instance: dict[str, set[str]] = {}
    of_text: dict[tuple[str, str], set[str]] = {}
    for name, text, instance in database:
        of_instance.setdefault(instance, set()).add(name)
        of_text.setdefault((instance, text), set()).add(name)
    searched = {instance: frozenset(members) for instance, members in of_instance.items()}
    right = {key: frozenset(members) for key, members in of_text.items()}
    queries = [
        ComposedQuery(
            f"{name}#{text}",
            (QueryPicture(root / name),),
            (text,),
            right.get((instance, text), frozenset()),
            candidates=searched.get(instance, frozenset()),
            labels=(instance,),
        )
        for name, text, instance in asked
    ]
    return finish(folder, {name: root / name for name, _, _ in database}, queries, split=None, metrics=("map-trapezoid", "map"))


def _icir_rows(folder: Folder, path: Path, base: str) -> Iterator[tuple[str, str, str]]:
    """Yield (picture, text, instance) of each row; the picture relative to the benchmark's folder."""
    below = (folder.root / base).is_dir()
    for row in csv.reader(io.StringIO("\n".join(folder.lines(path)))):
        name = safe_name(row[0].removeprefix("./")) if len(row) == 3 else None
        if name is None or not row[1].strip() or not row[2].strip():
            folder.malformed()
            continue
        if below and not name.startswith(f"{base}/"):
            name = f"{base}/{name}"
        yield name, one_line(row[1]), one_line(row[2])


def _list(folder: Folder, path: Path) -> list[Any]:
    items = folder.json(path)
    if not isinstance(items, list):
        raise folder.unreadable(path, "it is no list")
    return items


def _objects(folder: Folder, path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file that is a list; other items are counted as malformed."""
    items = _list(folder, path)
    rows = [item for item in items if isinstance(item, dict)]
    folder.malformed(len(items) - len(rows))
    return rows


def _picture_name(base: Path, asin: str) -> str:
    png = f"{asin}.png"
    return png if not (base / f"{asin}.jpg").is_file() and (base / png).is_file() else f"{asin}.jpg"


def _known(names: Mapping[int, str], number: object) -> str | None:
    return names.get(number) if isinstance(number, int) else None


def _named(names: Mapping[str, str], key: object) -> str | None:
    return names.get(key) if isinstance(key, str) else None
