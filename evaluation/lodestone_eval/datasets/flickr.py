"""Readers of Flickr8k and Flickr30k: captions in a `.token` file, `picture.jpg#0<tab>caption`, or in Karpathy's JSON.

Hodosh, Young and Hockenmaier (2013); Young et al. (2014). The splits of Flickr8k are lists of names; those of Flickr30k are
Karpathy and Fei-Fei's (2015), from `dataset_flickr30k.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lodestone_eval.datasets.base import EvalSet, Folder, caption_set, check_split, one_line, safe_name, sentences_of

_8K_LAYOUT: Final = (
    "expected: DIR/Flickr8k.token.txt and DIR/Flickr_8k.testImages.txt (or in DIR/Flickr8k_text/), or"
    " DIR/dataset_flickr8k.json, and DIR/Flicker8k_Dataset/1000268201_693b08cb0e.jpg … (or DIR/images/)"
)
_30K_LAYOUT: Final = (
    "expected: DIR/results_20130124.token or DIR/dataset_flickr30k.json (which has the splits),"
    " and DIR/flickr30k-images/1000092795.jpg … (or DIR/images/)"
)
_SPLIT_LISTS: Final = {"train": "train", "val": "dev", "test": "test"}
_SPLITS: Final = (*_SPLIT_LISTS, "all")


def read_flickr8k(root: Path, split: str | None) -> EvalSet:
    """Read a split of Flickr8k (test by default, val, train or all); every caption is a query."""
    split = split or "test"
    check_split("flickr8k", split, _SPLITS)
    folder = Folder("flickr8k", root, _8K_LAYOUT)
    base = folder.folder("Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset", "images")
    tokens = folder.optional_file("Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt")
    karpathy = folder.optional_file("dataset_flickr8k.json", "dataset.json")
    if tokens is None and karpathy is not None:
        return _karpathy_set(folder, karpathy, base, split)
    rows = list(_tokens(folder, tokens or folder.file("Flickr8k.token.txt", "dataset_flickr8k.json")))
    if split == "all":
        names = {name for name, _ in rows}
    else:
        listed = f"Flickr_8k.{_SPLIT_LISTS[split]}Images.txt"
        path = folder.file(listed, f"Flickr8k_text/{listed}")
        names = {name for line in folder.lines(path) if (name := safe_name(line.strip()))}
    pictures = {name: base / name for name in sorted(names)}
    return caption_set(folder, pictures, ((name, text, "") for name, text in rows), split=split)


def read_flickr30k(root: Path, split: str | None) -> EvalSet:
    """Read a split of Flickr30k; every caption is a query.

    Splits need Karpathy's JSON (test by default); with only a token file, the split is `all`.
    """
    check_split("flickr30k", split, _SPLITS)
    folder = Folder("flickr30k", root, _30K_LAYOUT)
    base = folder.folder("flickr30k-images", "flickr30k_images", "images")
    karpathy = folder.optional_file("dataset_flickr30k.json", "dataset.json")
    if karpathy is not None:
        return _karpathy_set(folder, karpathy, base, split or "test")
    tokens = folder.optional_file("results_20130124.token", "flickr30k/results_20130124.token")
    if tokens is None or split not in {None, "all"}:
        tokens = folder.file(*(["dataset_flickr30k.json"] if tokens else ["results_20130124.token", "dataset_flickr30k.json"]))
    rows = list(_tokens(folder, tokens))
    pictures = {name: base / name for name in sorted({name for name, _ in rows})}
    return caption_set(folder, pictures, ((name, text, "") for name, text in rows), split="all")


def _tokens(folder: Folder, path: Path) -> Iterator[tuple[str, str]]:
    """Yield (picture, caption) of each line; lines of another form are counted as malformed."""
    for line in folder.lines(path):
        key, tab, caption = line.partition("\t")
        file, mark, number = key.rpartition("#")
        name = safe_name(file)
        if name is None or not (tab and mark and number.strip().isdigit()) or not caption.strip():
            folder.malformed()
        else:
            yield name, caption


def _karpathy_set(folder: Folder, path: Path, base: Path, split: str) -> EvalSet:
    pictures: dict[str, Path] = {}
    captions: list[tuple[str, str, str]] = []
    for name, sentences in sentences_of(folder, path, split):
        pictures[name] = base / name
        captions += ((name, text, "") for sentence in sentences if (text := _raw(folder, sentence)))
    return caption_set(folder, pictures, captions, split=split)


def _raw(folder: Folder, sentence: Any) -> str:  # noqa: ANN401 - parsed JSON
    text = one_line(sentence.get("raw")) if isinstance(sentence, dict) else ""
    if not text:
        folder.malformed()
    return text
