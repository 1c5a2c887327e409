"""Specification of an embedded collection as JSON in the collection's directory."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from lodestone.store.edge.engine import engine_errors
from lodestone_schemas.collections import CollectionSpec, FieldKind, HnswSpec, Quantization

SPEC_FILE = "spec.json"


def dump_spec(spec: CollectionSpec) -> str:
    """Return the specification as JSON text."""
    return json.dumps(asdict(spec), indent=1)


def read_spec(path: Path) -> CollectionSpec:
    """Read the specification in a collection's directory; raise `CollectionDamagedError` if it cannot be read."""
    with engine_errors("reading the collection's specification", path, collection=path.name):
        facts = json.loads((path / SPEC_FILE).read_text(encoding="utf-8"))
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
