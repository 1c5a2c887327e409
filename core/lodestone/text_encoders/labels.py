"""What are the classes of the ImageNet-1k classifiers called? The list is package data; its source lies beside it."""

from __future__ import annotations

from importlib.resources import files

CLASSES = 1000


def imagenet_labels() -> tuple[str, ...]:
    """The 1,000 class names, in the order of the classifiers' outputs."""
    text = files("lodestone").joinpath("data", "imagenet1k_labels.txt").read_text("utf8")
    return tuple(text.splitlines())
