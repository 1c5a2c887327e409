"""Benchmarks of composed queries in their published layouts, tiny, with metrics worked out by hand for a fixed ranking.

Each writer returns what a reader must find. `Composed.order` is what every query is answered with, so that metrics can
be worked out on paper. What the fixtures hold besides (broken rows, missing pictures) is to be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.eval_fixtures import save_photo, write_json, write_text
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET

_PHOTOS = (CAT, COFFEE, PERSON, ROCKET)


@dataclass(frozen=True)
class Composed:
    """What a reader finds in a fixture.

    Attributes:
        queries: Queries.
        order: Names of pictures, as every query is answered.
        metrics: Metric -> mean, by hand.
        groups: Group -> its metrics, by hand.
        skipped: What is left out -> how often.
    """

    queries: int
    order: tuple[str, ...]
    metrics: dict[str, float]
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)


def _photos(base: Path, *names: str) -> None:
    for number, name in enumerate(names):
        save_photo(_PHOTOS[number % len(_PHOTOS)], base / name)


def mit_states(root: Path) -> Composed:
    _photos(root / "images", "fresh cheese/1.jpg", "moldy cheese/1.jpg", "moldy cheese/2.jpg")
    _photos(root / "images", "adj cheese/9.jpg", "old rusty gate/1.jpg", "sliced apple/1.jpg", "whole apple/1.jpg")
    return Composed(
        queries=3,
        order=("moldy cheese/2.jpg", "moldy cheese/1.jpg", "fresh cheese/1.jpg"),
        metrics={"recall@1(1)": 1 / 3, "recall@5(1)": 1.0},  # from a moldy cheese, the other one is first
        skipped={"malformed rows": 1},  # three words
    )


_FACES = {1: (1, ""), 2: (1, "s"), 3: (1, "sh"), 4: (2, "s"), 5: (2, ""), 6: (3, "h"), 7: (4, "")}


def celeba(root: Path) -> Composed:
    """Person 1 has three pictures, of which one smiles and one smiles and wears a hat; person 2 has two."""
    files = {number: f"{number:06d}.jpg" for number in _FACES}
    _photos(root / "Img" / "img_align_celeba", *files.values())
    rows = [
        f"{files[number]} {'1' if 's' in what else '-1'} {' 1' if 'h' in what else '-1'}"
        for number, (_, what) in _FACES.items()
    ]
    write_text(root / "Anno" / "list_attr_celeba.txt", "7\nSmiling Wearing_Hat \n" + "\n".join(rows) + "\nbroken.jpg 1\n")
    people = [f"{files[number]} {person}" for number, (person, _) in _FACES.items()]
    write_text(root / "Anno" / "identity_CelebA.txt", "\n".join(people) + "\n")
    parts = [f"{file} {0 if number == 7 else 2}" for number, file in files.items()]
    write_text(root / "Eval" / "list_eval_partition.txt", "\n".join(parts) + "\n")
    return Composed(
        queries=3,
        order=tuple(files[number] for number in (3, 4, 2, 1, 5, 6)),
        metrics={"recall@1(1)": 2 / 3, "recall@5(1)": 1.0},  # for person 2 another person is first
        skipped={"malformed rows": 1},
    )


def shopping100k(root: Path) -> Composed:
    base = root / "splits" / "Shopping100k"
    _photos(root, "Img/a.jpg", "Img/b.jpg", "Img/c.jpg", "Img/d.jpg")
    write_text(base / "imgs_test.txt", "Img/a.jpg\nImg/b.jpg\nImg/c.jpg\nImg/d.jpg\n")
    write_text(base / "labels_test.txt", "1 0 1 0\n1 0 0 1\n0 1 1 0\n1 0 0 1\n")
    write_text(base / "attr_num.txt", "2\n2\n")
    write_text(base / "attr_names.txt", "t-shirt\nbottoms\ngray color\nwhite color\n")
    write_text(base / "ref_test.txt", "0\n2\n1\n")
    write_text(base / "gt_test.txt", "1 0 0 1\n0 1 0 1\n1 0 1 0\n")
    return Composed(
        queries=2,
        order=("Img/d.jpg", "Img/c.jpg", "Img/a.jpg", "Img/b.jpg"),
        metrics={"recall@1(1)": 0.5, "recall@5(1)": 1.0},
        skipped={"queries without a right picture": 1},  # no white bottoms
    )


def coco_parts(root: Path) -> Composed:
    """Pictures 2 and 4 show a person, a cat and a cup."""
    shown = {1: (1, 2), 2: (2, 3, 1), 3: (3,), 4: (1, 2, 3), 9: (1,)}
    names = {number: f"{number:012d}.jpg" for number in shown}
    _photos(root / "train2017", *names.values())
    annotations = [
        {"image_id": number, "category_id": category, "bbox": [1, 2, 30, 40]} for number in shown for category in shown[number]
    ]
    categories = [{"id": 1, "name": "person"}, {"id": 2, "name": "cat"}, {"id": 3, "name": "cup"}]
    write_json(root / "instances_train2017.json", {"categories": categories, "annotations": [*annotations, {"image_id": 1}]})
    write_json(root / "test_imgs.json", [1, 2, 3, 4])
    case = {"images": [9, 1, 3], "categories": [1, 2, 3]}
    write_json(root / "3_test_cases.json", {"image_text_image": [case, {"images": [9]}], "text_text_text": [case]})
    return Composed(
        queries=1,
        order=tuple(names[number] for number in (1, 4, 3, 2)),  # 3 is in the query, and left out
        metrics={"recall@1(1)": 0.0, "recall@2(2)": 0.5, "recall@3(2)": 1.0, "recall@10(1)": 1.0},
        skipped={"malformed rows": 2},
    )


def fashioniq(root: Path) -> Composed:
    _photos(root / "images", "A.jpg", "B.jpg", "C.png", "D.jpg", "E.jpg")
    write_json(root / "image_splits" / "split.dress.val.json", ["A", "B", "C"])
    write_json(root / "image_splits" / "split.shirt.val.json", ["D", "E"])
    dresses = [
        {"candidate": "A", "target": "B", "captions": ["is red.", "has sleeves"]},
        {"candidate": "C", "target": "A", "captions": ["is longer", ""]},
        {"candidate": "A", "target": "gone", "captions": ["is blue", "is short"]},
        {"candidate": "A", "captions": "no list"},
    ]
    write_json(root / "captions" / "cap.dress.val.json", dresses)
    write_json(
        root / "captions" / "cap.shirt.val.json", [{"candidate": "D", "target": "E", "captions": ["is black", "no text"]}]
    )
    return Composed(
        queries=3,
        order=("B.jpg", "A.jpg", "C.png", "D.jpg", "E.jpg"),
        metrics={"recall@1(1)": 1 / 3, "recall@10(1)": 1.0},
        groups={"dress": {"recall@1(1)": 0.5}, "shirt": {"recall@1(1)": 0.0}, "mean over labels": {"recall@1(1)": 0.25}},
        skipped={"malformed rows": 1, "queries without a right picture": 1},
    )


def cirr(root: Path) -> Composed:
    ids = [f"dev-{number}-0-img0" for number in range(6)]
    names = [f"dev/{key}.png" for key in ids]
    _photos(root / "img_raw", *names)
    write_json(root / "image_splits" / "split.rc2.val.json", {key: f"./{name}" for key, name in zip(ids, names, strict=True)})
    subset = {"id": 1, "members": ids[:4], "reference_rank": 0, "target_rank": 1}
    write_json(
        root / "captions" / "cap.rc2.val.json",
        [
            {"pairid": 12, "reference": ids[0], "target_hard": ids[1], "caption": "two dogs", "img_set": subset},
            {"pairid": 13, "reference": ids[1], "target_hard": ids[3], "caption": "one dog", "img_set": subset},
            {"pairid": 14, "reference": "unknown", "target_hard": ids[3], "caption": "no dog", "img_set": subset},
        ],
    )
    return Composed(
        queries=2,
        order=tuple(names[number] for number in (4, 2, 0, 1, 3, 5)),
        metrics={"recall@1(1)": 0.0, "recall@3(1)": 0.5, "recall@5(1)": 1.0, "subset@1": 0.0, "subset@2": 0.5, "subset@3": 1.0},
        skipped={"malformed rows": 1},
    )


def circo(root: Path) -> Composed:
    names = {number: f"{number:012d}.jpg" for number in range(1, 7)}
    coco = root / "COCO2017_unlabeled"
    _photos(coco / "unlabeled2017", *names.values())
    images = [{"id": number, "file_name": name} for number, name in names.items()]
    write_json(coco / "annotations" / "image_info_unlabeled2017.json", {"images": images})
    write_json(
        root / "annotations" / "val.json",
        [
            {
                "reference_img_id": 1,
                "target_img_id": 2,
                "relative_caption": "has no dog",
                "shared_concept": "a bench",
                "gt_img_ids": [2, 3],
                "id": 0,
                "semantic_aspects": ["negation"],
            },
            {
                "reference_img_id": 4,
                "target_img_id": 5,
                "relative_caption": "has two dogs and no cat",
                "shared_concept": "a bench",
                "gt_img_ids": [5],
                "id": 1,
                "semantic_aspects": ["negation", "cardinality"],
            },
        ],
    )
    # query 0: right at ranks 1 and 3, query 1: at rank 4
    return Composed(
        queries=2,
        order=tuple(names[number] for number in (3, 4, 2, 5, 1, 6)),
        metrics={"map@5": (5 / 6 + 1 / 4) / 2, "map@1": 0.5, "target@5": 1.0, "target@3": 0.5},
        groups={"negation": {"map@5": (5 / 6 + 1 / 4) / 2}, "cardinality": {"map@5": 0.25}},
    )


def icir(root: Path) -> Composed:
    _photos(root / "database", "a1.jpg", "a2.jpg", "a3.jpg", "b1.jpg")
    _photos(root / "query", "q1.jpg", "q2.jpg")
    rows = [
        "database/a1.jpg,at night,homer",
        "database/a2.jpg,as a drawing,homer",
        "database/a3.jpg,at night,homer",
        "database/b1.jpg,at night,temple",
    ]
    write_text(root / "database_files.csv", "\n".join(rows) + "\n")
    asked = [
        "query/q1.jpg,at night,homer",
        "query/q2.jpg,at night,temple",
        "query/q1.jpg,on mars,homer",
        "query/gone.jpg,at night,homer",
    ]
    write_text(root / "query_files.csv", "\n".join([*asked, "too,short"]) + "\n")
    # homer: right at ranks 2 and 3 of his own three pictures; temple: at rank 1 of one
    trapezoid = ((0 + 1 / 2) / 2 + (1 / 2 + 2 / 3) / 2) / (2 + 1e-5)
    return Composed(
        queries=2,
        order=("database/a2.jpg", "database/a1.jpg", "database/b1.jpg", "database/a3.jpg"),
        metrics={"map": ((1 / 2 + 2 / 3) / 2 + 1) / 2, "map-trapezoid": (trapezoid + 1 / (1 + 1e-5)) / 2},
        skipped={
            "malformed rows": 1,
            "queries without a right picture": 1,
            "queries whose reference picture is not there": 1,
        },
    )


COMPOSED_LAYOUTS: dict[str, Callable[[Path], Composed]] = {
    "mit-states": mit_states,
    "celeba": celeba,
    "celeba+": celeba,
    "shopping100k": shopping100k,
    "coco-parts": coco_parts,
    "fashioniq": fashioniq,
    "cirr": cirr,
    "circo": circo,
    "icir": icir,
}
