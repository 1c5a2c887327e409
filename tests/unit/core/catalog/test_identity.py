"""Ids are what they were when points were written with them."""

from __future__ import annotations

import uuid

import pytest

from lodestone.catalog.identity import caption_id
from lodestone.errors import InvalidRequestError
from lodestone.store.checks import check_ids


@pytest.mark.parametrize("text", ["", "a dog", "Ein Hund läuft über die Wiese", "犬 🐕", "two\nlines"])
def test_the_id_of_a_caption_is_uuid5_of_its_picture_source_and_text(text: str) -> None:
    for number in range(50):
        image_id = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
        assert caption_id(image_id, "file", text) == str(uuid.uuid5(uuid.UUID(image_id), f"file/{text}"))


def test_ids_are_made_canonical_and_nothing_else_passes() -> None:
    known = str(uuid.UUID(int=12))
    assert check_ids([known, known.upper(), known.replace("-", ""), f"{{{known}}}"]) == [known] * 4
    for wrong in ("", "x", known + "\n", known[:-1] + "g", 5):
        with pytest.raises(InvalidRequestError, match=r"is not a UUID such as [0-9a-f]{8}-") as refused:
            check_ids([wrong])  # type: ignore[list-item]
        assert "image id" in refused.value.message
        assert "lodestone search -o json" in refused.value.hint
