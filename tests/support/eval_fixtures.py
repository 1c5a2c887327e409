"""Benchmarks in their published layouts, tiny: two photographs each, with captions whose right picture is beyond doubt.

Every set holds two pictures. A query that names its picture finds it first (average precision 1); one whose truth is planted
on the other picture finds it second (1/2). What the fixtures hold besides (broken rows, missing pictures) is to be counted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.photos import CAT, COFFEE, photo

A_CAT = "a cat"
A_COFFEE = "a cup of coffee on a saucer"
A_TABBY = "a tabby cat with whiskers"
_SIDE = 256


@dataclass(frozen=True)
class Expected:
    """What the text pass must give on a fixture, by hand.

    Attributes:
        queries: Queries or pairs.
        metrics: Metric -> mean.
        skipped: What is left out -> how often.
        groups: Sub-set -> its main metric.
        options: What to give on the command line besides.
    """

    queries: int
    metrics: dict[str, float]
    skipped: dict[str, int] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    options: tuple[str, ...] = ()


_ALL_AMONG_TEN = {"r@10": 1.0, "p@10": 0.1, "recall@60": 1.0, "hit@10": 1.0}
RIGHT_AND_PLANTED = {"map": 0.75, "precision@ep": 0.5, "mrr": 0.75, "hit@1": 0.5, **_ALL_AMONG_TEN}
ALL_PLANTED = {"map": 0.5, "precision@ep": 0.0, "mrr": 0.5, "hit@1": 0.0, **_ALL_AMONG_TEN}
ALL_RIGHT = {"map": 1.0, "precision@ep": 1.0, "mrr": 1.0, "hit@1": 1.0, **_ALL_AMONG_TEN}
ONE_PAIR_OF_TWO = {"pairing": 0.5, "image": 0.5}


def save_photo(name: str, path: Path) -> None:
    """One of the photographs, small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = photo(name)
    picture.thumbnail((_SIDE, _SIDE))
    picture.save(path)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def caltech256(root: Path) -> Expected:
    """Both categories hold the other's picture."""
    base = root / "256_ObjectCategories"
    save_photo(COFFEE, base / "001.cat" / "001_0001.jpg")
    save_photo(CAT, base / "002.coffee-mug-101" / "002_0001.jpg")
    write_text(base / "002.coffee-mug-101" / "RENAME2", "a stray file, as in the published archive")
    (base / "257.clutter").mkdir()
    return Expected(2, ALL_PLANTED, {"malformed rows": 1})


def coco_captions(root: Path) -> Expected:
    table = _coco_pictures(root / "val2017") | {
        "annotations": [
            {"id": 1, "image_id": 1, "caption": A_CAT},
            {"id": 2, "image_id": 1, "caption": f"{A_COFFEE}\n"},
            {"id": 3, "image_id": 77, "caption": "of a picture that the file does not list"},
            {"id": 4, "image_id": 2},
        ]
    }
    write_json(root / "annotations" / "captions_val2017.json", table)
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 2})


def coco_instances(root: Path) -> Expected:
    table = _coco_pictures(root / "val2017") | {
        "categories": [{"id": 17, "name": "cat"}, {"id": 47, "name": "cup"}, {"id": 5, "name": "airplane"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 17, "bbox": [0, 0, 9, 9]},
            {"id": 2, "image_id": 1, "category_id": 17, "bbox": [9, 9, 9, 9]},
            {"id": 3, "image_id": 1, "category_id": 47, "bbox": [0, 0, 9, 9]},
        ],
    }
    write_json(root / "annotations" / "instances_val2017.json", table)
    return Expected(2, RIGHT_AND_PLANTED, {"queries without a right picture": 1})


def lvis(root: Path) -> Expected:
    """`coffee_cup` is planted on the cat's picture; the coffee's was not looked at for it."""
    _lvis(root)
    return Expected(2, RIGHT_AND_PLANTED, groups={"rare": 0.5, "frequent": 1.0})


def lvis_judged(root: Path) -> Expected:
    """The same, passing over what was not looked at: the cat's picture is then the first for `coffee_cup`."""
    _lvis(root)
    return Expected(2, ALL_RIGHT, groups={"rare": 1.0, "frequent": 1.0}, options=("--judged",))


def bdd100k(root: Path) -> Expected:
    base = root / "images" / "100k" / "val"
    save_photo(CAT, base / "b1c66a42-6f7d68ca.jpg")
    save_photo(COFFEE, base / "b1c81faa-3df17267.jpg")
    box = {"x1": 0.0, "y1": 0.0, "x2": 9.0, "y2": 9.0}
    frames = [
        {
            "name": "b1c66a42-6f7d68ca.jpg",
            "attributes": {"weather": "clear", "scene": "city street", "timeofday": "daytime"},
            "labels": [
                {"category": "cat", "box2d": box, "id": 1},
                {"category": "cup", "box2d": box, "id": 2},
                {"category": "lane", "poly2d": [{"vertices": [[0, 0], [1, 1]]}], "id": 3},
            ],
        },
        {"name": "b1c81faa-3df17267.jpg", "labels": None},
        {"name": "gone.jpg", "labels": []},
    ]
    write_json(root / "labels" / "bdd100k_labels_images_val.json", frames)
    return Expected(2, RIGHT_AND_PLANTED, {"pictures that are not there": 1})


def nocaps(root: Path) -> Expected:
    pictures = _coco_pictures(root / "images")["images"]
    table = {
        "images": [
            {**pictures[0], "domain": "in-domain", "open_images_id": "0013ea2087020901"},
            {**pictures[1], "domain": "out-domain", "open_images_id": "001464cfae2a30b8"},
        ],
        "annotations": [
            {"id": 1, "image_id": 1, "caption": A_CAT},
            {"id": 2, "image_id": 2, "caption": A_TABBY},
        ],
    }
    write_json(root / "nocaps_val_4500_captions.json", table)
    return Expected(2, RIGHT_AND_PLANTED, groups={"in-domain": 1.0, "out-domain": 0.5})


def senticap(root: Path) -> Expected:
    names = ["COCO_val2014_000000000042.jpg", "COCO_val2014_000000000073.jpg"]
    save_photo(CAT, root / "val2014" / names[0])
    save_photo(COFFEE, root / "val2014" / names[1])
    happy = {"tokens": ["a", "cute", "cat"], "raw": "a cute cat", "sentiment": 1, "word_sentiment": [0, 1, 1]}
    sad = {"tokens": ["a", "nasty", "cup"], "raw": "a nasty cup of cold coffee", "sentiment": 0, "word_sentiment": [0, 1, 1]}
    table = {
        "images": [
            {"filename": names[0], "imgid": 0, "split": "test", "sentences": [happy, sad, {"raw": "no sentiment"}]},
            {"filename": names[1], "imgid": 1, "split": "test", "sentences": []},
            {"filename": "COCO_val2014_000000000074.jpg", "imgid": 2, "split": "train", "sentences": [happy]},
        ]
    }
    write_json(root / "data" / "senticap_dataset.json", table)
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1}, groups={"positive": 1.0, "negative": 0.5})


def flickr8k(root: Path) -> Expected:
    names = _flickr_pictures(root / "Flicker8k_Dataset")
    tokens = [
        f"{names[0]}#0\t{A_CAT} .",
        f"{names[0]}#1\t{A_COFFEE} .",
        "2258277193_586949ec62.jpg.1#0\tof a picture that is not in the archive, nor in the split",
        "a line without a tab",
    ]
    write_text(root / "Flickr8k.token.txt", "\n".join(tokens) + "\n")
    write_text(root / "Flickr_8k.testImages.txt", "\n".join(names) + "\n")
    write_text(root / "Flickr_8k.devImages.txt", "")
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1})


def flickr30k(root: Path) -> Expected:
    names = _flickr_pictures(root / "flickr30k-images")
    write_text(root / "results_20130124.token", f"{names[0]}#0\t{A_CAT} .\r\n{names[1]}#0\t\r\n{names[1]}#1\t{A_TABBY}\r\n")
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1})


def karpathy(root: Path) -> Expected:
    names = _flickr_pictures(root / "images")
    table = {
        "dataset": "flickr30k",
        "images": [
            {
                "filename": names[0],
                "imgid": 0,
                "split": "test",
                "sentences": [{"raw": A_CAT}, {"raw": A_COFFEE}, {"tokens": []}],
            },
            {"filename": names[1], "imgid": 1, "split": "test", "sentences": []},
            {"filename": "1.jpg", "imgid": 2, "split": "train", "sentences": [{"raw": "a dog"}]},
        ],
    }
    write_json(root / "dataset_flickr30k.json", table)
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1})


def winoground(root: Path) -> Expected:
    """The second pair's pictures are swapped."""
    rows = []
    for number, photos in enumerate([(CAT, COFFEE), (COFFEE, CAT)]):
        for place, name in enumerate(photos):
            save_photo(name, root / "images" / f"ex_{number}_img_{place}.png")
        rows.append(
            {
                "id": number,
                "image_0": f"ex_{number}_img_0",
                "image_1": f"ex_{number}_img_1",
                "caption_0": A_CAT,
                "caption_1": A_COFFEE,
                "tag": "Adjective-Color",
                "secondary_tag": "",
                "num_main_preds": 1,
                "collapsed_tag": ["Object", "Relation"][number],
            }
        )
    write_text(root / "examples.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    return Expected(2, ONE_PAIR_OF_TWO, {"malformed rows": 1}, groups={"Object": 1.0, "Relation": 0.0})


def cola(root: Path) -> Expected:
    """The second pair's pictures are swapped: the same two files, addressed twice."""
    where = "https://cs-people.bu.edu/array/data/vg_gqa_images"
    save_photo(CAT, root / "images" / "2414605.jpg")
    save_photo(COFFEE, root / "images" / "2414606.jpg")
    rows = [
        [f"{where}/2414605.jpg", A_CAT, f"{where}/2414606.jpg", A_COFFEE],
        [f"{where}/2414606.jpg", A_CAT, f"{where}/2414605.jpg", A_COFFEE],
        [f"{where}/2414605.jpg", A_CAT],
        [f"{where}/2414605.jpg", A_CAT, f"{where}/1.jpg", A_COFFEE],
    ]
    write_json(root / "data" / "COLA_multiobjects_matching_benchmark.json", rows)
    skipped = {"malformed rows": 1, "pictures that are not there": 1, "pairs without both pictures": 1}
    return Expected(2, ONE_PAIR_OF_TWO, skipped)


def captions(root: Path) -> Expected:
    save_photo(CAT, root / "images" / "one.jpg")
    save_photo(COFFEE, root / "images" / "two.jpg")
    write_text(root / "captions.tsv", f"file\tcaption\none.jpg\t{A_CAT}\ntwo.jpg\t{A_TABBY}\ntwo.jpg\ngone.jpg\ta dog\n")
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1, "pictures that are not there": 1})


def names(root: Path) -> Expected:
    save_photo(CAT, root / "images" / "one.jpg")
    save_photo(COFFEE, root / "images" / "two.jpg")
    write_text(root / "names.tsv", "file\tname\none.jpg\tcat\ntwo.jpg\ttabby cat\n\nthree\n")
    return Expected(2, RIGHT_AND_PLANTED, {"malformed rows": 1})


LAYOUTS: dict[str, tuple[str, Callable[[Path], Expected]]] = {
    "caltech256": ("caltech256", caltech256),
    "coco-captions": ("coco-captions", coco_captions),
    "coco-instances": ("coco-instances", coco_instances),
    "lvis": ("lvis", lvis),
    "lvis-judged": ("lvis", lvis_judged),
    "bdd100k": ("bdd100k", bdd100k),
    "nocaps": ("nocaps", nocaps),
    "senticap": ("senticap", senticap),
    "flickr8k": ("flickr8k", flickr8k),
    "flickr30k": ("flickr30k", flickr30k),
    "flickr30k-karpathy": ("flickr30k", karpathy),
    "winoground": ("winoground", winoground),
    "cola": ("cola", cola),
    "captions": ("captions", captions),
    "names": ("names", names),
}
"""Fixture -> benchmark, and what writes it."""


def _coco_pictures(folder: Path) -> dict[str, Any]:
    names = ["000000000139.jpg", "000000000285.jpg"]
    save_photo(CAT, folder / names[0])
    save_photo(COFFEE, folder / names[1])
    return {"images": [{"id": number, "file_name": name} for number, name in enumerate(names, 1)]}


def _lvis(root: Path) -> None:
    names = ["000000397133.jpg", "000000037777.jpg"]
    save_photo(CAT, root / "val2017" / names[0])
    save_photo(COFFEE, root / "val2017" / names[1])
    where = "http://images.cocodataset.org/val2017"
    table = {
        "images": [
            {"id": 1, "coco_url": f"{where}/{names[0]}", "neg_category_ids": [], "not_exhaustive_category_ids": []},
            {"id": 2, "coco_url": f"{where}/{names[1]}", "neg_category_ids": [3], "not_exhaustive_category_ids": []},
        ],
        "categories": [
            {"id": 3, "name": "cat", "synset": "cat.n.01", "synonyms": ["cat"], "def": "a feline", "frequency": "f"},
            {
                "id": 8,
                "name": "coffee_cup_(drink)",
                "synset": "cup.n.01",
                "synonyms": ["cup"],
                "def": "a cup",
                "frequency": "r",
            },
        ],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3}, {"id": 2, "image_id": 1, "category_id": 8}],
    }
    write_json(root / "lvis_v1_val.json", table)


def _flickr_pictures(folder: Path) -> list[str]:
    names = ["1000268201_693b08cb0e.jpg", "1001773457_577c3a7d70.jpg"]
    save_photo(CAT, folder / names[0])
    save_photo(COFFEE, folder / names[1])
    return names


@contextmanager
def chat_server(answer: str | None, status: int = 200) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server of chat completions: `answer` with the search put in, or no JSON at all for None."""
    asked: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
            text = body["messages"][0]["content"].rsplit("Search: ", 1)[1]
            reply = b"<html>busy</html>"
            if answer is not None:
                reply = json.dumps({"choices": [{"message": {"content": answer.format(text)}}]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
