"""Reader of BDD100K: one JSON file per split lists frames with boxes, and the boxes' categories are the queries.

Yu et al., BDD100K: A Diverse Driving Dataset for Heterogeneous Multitask Learning (2020).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lodestone_eval.datasets.base import EvalQuery, EvalSet, Folder, check_split, object_set, one_line, safe_name

_LAYOUT: Final = (
    "expected: DIR/labels/det_20/det_{split}.json or DIR/labels/bdd100k_labels_images_{split}.json,"
    " and DIR/images/100k/{split}/b1c66a42-6f7d68ca.jpg …"
)


def read_bdd100k(root: Path, split: str | None) -> EvalSet:
    """Read a split of BDD100K; every category with a box is a query for the frames that show it.

    Lanes and drivable areas have no boxes, so they are no queries.
    """
    split = split or "val"
    check_split("bdd100k", split, ("val", "train"))
    folder = Folder("bdd100k", root, _LAYOUT.format(split=split))
    old = f"bdd100k_labels_images_{split}.json"
    path = folder.file(f"labels/det_20/det_{split}.json", f"labels/{old}", f"bdd100k/labels/{old}", old)
    frames = folder.json(path)
    if not isinstance(frames, list):
        raise folder.unreadable(path, "it is no list of frames")
    base = folder.folder(f"images/100k/{split}", f"bdd100k/images/100k/{split}")
    pictures: dict[str, Path] = {}
    frames_of: dict[str, set[str]] = {}
    for frame in frames:
        name = safe_name(frame.get("name")) if isinstance(frame, dict) else None
        labels = frame.get("labels") if isinstance(frame, dict) else None
        if name is None or not isinstance(labels, list | None):  # an empty frame has null or no labels
            folder.malformed()
            continue
        pictures[name] = base / name
        for label in labels or ():
            category = one_line(label.get("category")) if isinstance(label, dict) else ""
            if not category:
                folder.malformed()
            elif isinstance(label.get("box2d"), dict):
                frames_of.setdefault(category, set()).add(name)
    queries = [EvalQuery(category, category, frozenset(names)) for category, names in sorted(frames_of.items())]
    return object_set(folder, pictures, queries, split=split)
