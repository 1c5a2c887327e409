"""Class names of the ImageNet-1k classifiers, read from package data; the file's source is noted beside it."""

from __future__ import annotations

from importlib.resources import files

CLASSES = 1000


def imagenet_labels() -> tuple[str, ...]:
    """Return the 1,000 class names, in the order of the classifiers' outputs."""
    text = files("lodestone").joinpath("data", "imagenet1k_labels.txt").read_text("utf8")
    return tuple(text.splitlines())
