"""Which missing and damaged packs of thumbnails are found: those of slices that are embedded and hold pictures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.embeddings.thumbnail_upkeep import damaged_packs
from lodestone.imaging.thumbnail_packs import PackVerification


@pytest.mark.parametrize(
    ("parts", "kept", "exists", "singles", "found"),
    [
        (("meta",), 3, True, False, True),
        (("meta",), 3, False, False, True),
        (("meta",), 3, False, True, False),  # an older version wrote single ones
        (("meta",), 3, True, True, True),
        (("meta",), 0, True, False, False),
        (("minilm",), 3, True, False, False),
        ((), 0, False, False, False),
    ],
)
def test_packs_are_wanted_where_a_slice_is_described_and_holds_pictures(
    parts: tuple[str, ...], kept: int, exists: bool, singles: bool, found: bool
) -> None:
    usage = SimpleNamespace(record=SimpleNamespace(fingerprint="ab" * 16, slice_id="slice"), parts=parts, kept=kept)
    catalog: Any = SimpleNamespace(
        slice_usage=lambda _: [usage], slice_images=lambda _, states: [SimpleNamespace(hash="a")] * len(states)
    )
    packs = SimpleNamespace(verify=lambda _, deep: PackVerification("is damaged", exists=exists))
    thumbnails: Any = SimpleNamespace(packs_slices=True, packs=packs, has=lambda _: singles)
    assert [pack.slice_id for pack in damaged_packs(catalog, thumbnails, "corpus")] == ["slice"] * found
    thumbnails.packs_slices = False
    assert list(damaged_packs(catalog, thumbnails, "corpus")) == []
