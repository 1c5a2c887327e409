"""Tables of the catalog, which SQLite and PostgreSQL understand alike, and their metadata.

Ids are 36-character strings. Times are stored in UTC and come back aware. `images.uri` and other file names compare by code
point (case-sensitive; NFC and NFD differ). Deleting a corpus deletes everything under it (ON DELETE CASCADE).
"""

from lodestone.catalog.tables.base import UtcDateTime, metadata
from lodestone.catalog.tables.embeddings import deletions, erasures, loads, receipts, slice_members, slices, tombstones
from lodestone.catalog.tables.learning import feedback, queries, trust_events, trust_topics
from lodestone.catalog.tables.models import aliases, artifacts, engine_states, model_swaps, space_overrides
from lodestone.catalog.tables.pictures import captions, containers, corpora, duplicates, images, roots, tag_outbox, tags
from lodestone.catalog.tables.service import api_keys, home_facts, idempotency, rate_windows, write_tokens
from lodestone.catalog.tables.work import failures, runs, slice_attempts

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
