"""Which pictures get a search's words as a tag? Those that it found and that the whole pipeline is sure of (NEEDLE, F.2).

The confidence of a picture is what a linear model expects of it: the chance that it is right. Only a picture above the fitted
threshold is tagged, so that what a search teaches is seldom wrong: a wrong tag would make the same words find the wrong
picture again. For the same reason neither a list of tags nor a picture that only tags put there counts as evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lodestone.config.settings import TagSettings
from lodestone.query.trace import Trace

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, TagRecord


def implicit_tags(trace: Trace, settings: TagSettings, *, images: Mapping[str, ImageRecord]) -> list[TagRecord]:
    """Tags that this search leaves; for `Catalog.add_tags`.

    Args:
        trace: A search in words; any other leaves no tags.
        settings: Whether, from which confidence on, and how many at most.
        images: The shown pictures by id (`Catalog.images`): their corpora.
    """
    raise NotImplementedError


def feedback_tags(
    trace: Trace, relevant: Sequence[str], *, images: Mapping[str, ImageRecord], now: datetime
) -> list[TagRecord]:
    """Tags for pictures that somebody said are right, of those that the search had found.

    Args:
        trace: The search; one without words leaves no tags.
        relevant: Image ids.
        images: The relevant pictures by id.
        now: When it was said, aware.
    """
    raise NotImplementedError
