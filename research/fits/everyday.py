"""Names of everyday things as queries: COCO's 80 categories, and others that people take pictures of.

A photo is right for a name when a caption of it has one of the name's words, in singular or plural. Captions leave most of what
a photo shows unsaid, so the figures are low; they compare two models, and are no share of right answers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from lodestone.training.classes import TEMPLATES

NAMES: Final = Path(__file__).resolve().parents[1] / "data" / "everyday_names.tsv"
COMMON: Final = 0.2  # share of the photos above which a name is no question


class EverydayName(NamedTuple):
    """A name, the set it is from, and the rows of the photos that it is right for."""

    name: str
    set_name: str
    right: np.ndarray


def everyday_names(captions: Sequence[str], owner: np.ndarray, photos: int) -> list[EverydayName]:
    """Return the names that captions of some photos have, and not those of a fifth of them.

    Args:
        captions: m captions.
        owner: (m,) row of the photo of each.
        photos: Number of photos.
    """
    with NAMES.open(encoding="utf8", newline="") as stream:
        table = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = []
    for row in table:
        pattern = re.compile(rf"\b({row['words']})(s|es)?\b", re.IGNORECASE)
        right = np.unique(owner[[pattern.search(text) is not None for text in captions]])
        if 0 < len(right) <= COMMON * photos:
            found.append(EverydayName(row["name"], row["set"], right))
    return found


def asked(names: Sequence[EverydayName]) -> list[str]:
    """Return the queries: every name in the first template, then every name in the next."""
    return [template.format(one.name) for template in TEMPLATES for one in names]


def precision(scores: np.ndarray, names: Sequence[EverydayName]) -> np.ndarray:
    """Return (queries, 2): average precision, and whether the first photo is right, of `asked` in this order."""
    figures = []
    for number, row in enumerate(scores):
        hits = np.isin(np.argsort(-row, kind="stable"), names[number % len(names)].right)
        places = np.flatnonzero(hits) + 1
        figures.append((float(np.mean(np.arange(1, len(places) + 1) / places)), float(hits[0])))
    return np.array(figures)
