"""Specification of an embedded collection as JSON in the collection's directory, with its checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from lodestone.store.edge.engine import damaged, engine_errors
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec, Quantization

SPEC_FILE = "spec.json"
_CHECKSUM: Final = "checksum"  # specifications written by earlier versions have none


def dump_spec(spec: CollectionSpec) -> str:
    """Return the specification as JSON text."""
    facts = asdict(spec)
    return json.dumps({**facts, _CHECKSUM: _checksum(facts)}, indent=1)


def read_spec(path: Path) -> CollectionSpec:
    """Read the specification in a collection's directory; raise `CollectionDamagedError` if it cannot be read."""
    with engine_errors("reading the collection's specification", path, collection=path.name):
        facts = json.loads((path / SPEC_FILE).read_text(encoding="utf-8"))
        if facts.pop(_CHECKSUM, None) not in (None, _checksum(facts)):
            raise damaged(path.name, path, f"{SPEC_FILE} was altered: its checksum is another one")
        return CollectionSpec(
            name=facts["name"],
            dim=int(facts["dim"]),
            fields=tuple((name, FieldKind(kind)) for name, kind in facts["fields"]),
            hnsw=HnswSpec(**facts["hnsw"]),
            quantization=Quantization(facts["quantization"]),
            on_disk=bool(facts["on_disk"]),
            # Specifications written by earlier versions lack these.
            sparse=bool(facts.get("sparse", False)),
            rescore=bool(facts.get("rescore", True)),
            oversampling=facts.get("oversampling"),
            payload_on_disk=facts.get("payload_on_disk"),
        )


def _checksum(facts: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())
