"""Tables of the catalog, which SQLite and PostgreSQL understand alike, and their metadata.

Ids are 36-character strings. Times are stored in UTC and come back aware. `images.uri` and other file names compare by code
point (case-sensitive; NFC and NFD differ). Deleting a corpus deletes everything under it (ON DELETE CASCADE).
"""

from lodestone.catalog.tables.base import UtcDateTime, metadata
from lodestone.catalog.tables.learning import (
    aliases,
    artifacts,
    engine_states,
    feedback,
    model_swaps,
    queries,
    space_overrides,
    trust_events,
    trust_topics,
)
from lodestone.catalog.tables.pictures import (
    captions,
    containers,
    corpora,
    deletions,
    duplicates,
    erasures,
    images,
    loads,
    receipts,
    roots,
    slice_members,
    slices,
    tag_outbox,
    tags,
    tombstones,
)
from lodestone.catalog.tables.service import (
    api_keys,
    failures,
    home_facts,
    idempotency,
    rate_windows,
    runs,
    slice_attempts,
    write_tokens,
)

__all__ = [
    "UtcDateTime",
    "aliases",
    "api_keys",
    "artifacts",
    "captions",
    "containers",
    "corpora",
    "deletions",
    "duplicates",
    "engine_states",
    "erasures",
    "failures",
    "feedback",
    "home_facts",
    "idempotency",
    "images",
    "loads",
    "metadata",
    "model_swaps",
    "queries",
    "rate_windows",
    "receipts",
    "roots",
    "runs",
    "slice_attempts",
    "slice_members",
    "slices",
    "space_overrides",
    "tag_outbox",
    "tags",
    "tombstones",
    "trust_events",
    "trust_topics",
    "write_tokens",
]
