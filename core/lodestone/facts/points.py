"""Filter fields of a picture's points, as every collection of pictures holds them."""

from __future__ import annotations

from typing import Any

from lodestone.catalog.pictures.taken import taken_fields
from lodestone.catalog.records import ImageFields, ImageRecord
from lodestone.facts.facts import FIELD, code_of, facts_of
from lodestone.sources.uris import folders_of


def point_fields(picture: ImageFields | ImageRecord) -> dict[str, Any]:
    """Return the filter fields (`PAYLOAD_FIELDS` of the schemas) of a picture; what is unknown is left out."""
    facts = [code_of(fact) for fact in facts_of(picture)]
    return {
        "corpus": picture.corpus_id,
        "root": picture.root_id,
        "folders": list(folders_of(picture.uri)),
        **taken_fields(picture.taken_at, picture.utc_offset_minutes, picture.taken_precision),
        **({FIELD: facts} if facts else {}),
    }
