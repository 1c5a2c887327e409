"""Trace of an answered query: everything that its ranking was made of, so that it can be explained, replayed and judged.

A trace is one compressed block of bytes: a JSON header and the arrays behind it (safetensors). Numbers come back bit for bit.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.access.visibility import EVERYTHING, Visibility, no_query
from lodestone.errors import CatalogError
from lodestone.retrieval.fusion import FORMER_NAMES, FusedList, RankedList
from lodestone.retrieval.rescoring import ListSearch
from lodestone_schemas.api import GateDecision, GuideInfo

FORMAT: Final = 1
Kind = Literal["words", "similar", "picture", "composed"]
_QUICK: Final = 1  # zlib level: ids hardly shrink further
_ZLIB_HEADER: Final = b"\x78\x01"  # deflate, a window of 32 kB, the quickest level (RFC 1950)


@dataclass(frozen=True, slots=True)
class Trace:
    """Record of one answered query.

    Attributes:
        query_id: Identifier of the query.
        created_at: When it was asked, UTC.
        kind: Whether it was asked in words, by an indexed picture, by any picture, or composed of several parts.
        text: Normalised words; empty for a search by picture; of a composed query, all words that it looks for.
        request: The request as it was given, JSON-serialisable.
        plan: What was decided before searching, JSON-serialisable.
        fusion: Key of `FUSIONS`, or `WEIGHTED_SUM`; a former name is read as today's.
        depths: See `fuse_in_tiers`.
        space_weights: Space -> weight in the text pass, trust included.
        topic: Topic whose trust counted.
        trust: Space -> learnt trust, 1 being neutral.
        gate: Decision of the complexity gate.
        prompts: Engine -> prompt.
        guides: All guides, also rejected ones.
        text_vectors: Encoder -> (d,) float32 vector of the words.
        searches: The (guide, space) searches behind `lists`, with their vectors.
        lists: The lists that they found; also lists without a vector behind them, such as `tags`.
        completed: What was fused: for fusions that read scores one list a space with every candidate's exact score (guide
            `*`), for composed queries one list a part and space with its share of every candidate's score, else `lists`
            themselves.
        ranking: The fused answer.
        hits: Ids of the page that was shown, in order.
        parts: (guide, space) -> (hits,) float32: similarity of each shown hit with that guide, or that part of a composed
            query; NaN where it has none.
        stage: Stage of the final answer: text, guides or picture.
        dropped: What was left out.
        warnings: What went wrong.
        timings_ms: Stage -> milliseconds.
        owner: Who asked; "" where callers are anonymous.
        confidence: How likely the collection held what was asked; None where nothing was said of it.
        probably_nothing: Whether the answer said that there is probably nothing.
        confidence_signs: Sign -> value: what the confidence was read from.
    """

    query_id: str
    created_at: datetime
    kind: Kind
    text: str
    request: Mapping[str, Any]
    plan: Mapping[str, Any]
    fusion: str
    depths: tuple[int, ...]
    space_weights: Mapping[str, float]
    ranking: FusedList
    topic: str | None = None
    trust: Mapping[str, float] = field(default_factory=dict)
    gate: GateDecision | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    guides: tuple[GuideInfo, ...] = ()
    text_vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    searches: tuple[ListSearch, ...] = ()
    lists: tuple[RankedList, ...] = ()
    completed: tuple[RankedList, ...] = ()
    hits: tuple[str, ...] = ()
    parts: Mapping[tuple[str, str], NDArray[np.float32]] = field(default_factory=dict)
    stage: str = "text"
    dropped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    owner: str = ""
    confidence: float | None = None
    probably_nothing: bool = False
    confidence_signs: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the trace as bytes, for the catalog."""
        from safetensors.numpy import save

        packed = _Packed(self.ranking.ids)
        header = {
            "format": FORMAT,
            "query_id": self.query_id,
            "created_at": self.created_at.isoformat(),
            "kind": self.kind,
            "text": self.text,
            "request": dict(self.request),
            "plan": dict(self.plan),
            "fusion": self.fusion,
            "depths": list(self.depths),
            "space_weights": dict(self.space_weights),
            "topic": self.topic,
            "trust": dict(self.trust),
            "gate": None if self.gate is None else self.gate.model_dump(),
            "prompts": dict(self.prompts),
            "guides": [guide.model_dump() for guide in self.guides],
            "text_vectors": {name: packed.add(vector) for name, vector in self.text_vectors.items()},
            "searches": [
                [one.guide, one.space, one.collection, one.weight, packed.add(one.vector), one.depth] for one in self.searches
            ],
            "lists": [packed.ranked(one) for one in self.lists],
            "completed": [packed.ranked(one) for one in self.completed],
            "merged": [[one.guide, one.space] for one in self.lists if one.merged],
            "ranking": [packed.ids(self.ranking.ids), packed.add(self.ranking.scores)],
            "hits": packed.ids(self.hits),
            "parts": [[guide, space, packed.add(scores)] for (guide, space), scores in self.parts.items()],
            "stage": self.stage,
            "dropped": list(self.dropped),
            "warnings": list(self.warnings),
            "timings_ms": dict(self.timings_ms),
            "owner": self.owner,
            "confidence": self.confidence,
            "probably_nothing": self.probably_nothing,
            "confidence_signs": dict(self.confidence_signs),
            "ids": packed.table,
        }
        text = json.dumps(header, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
        arrays = {**packed.arrays, "header": np.frombuffer(text, np.uint8)}
        return _compressed(save(arrays), plain=[array for array in arrays.values() if array.dtype.kind == "f"])

    @classmethod
    def from_bytes(cls, data: bytes) -> Trace:
        """Read what `to_bytes` returned.

        Raises:
            CatalogError: not a trace, or of a format that this version does not know.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(zlib.decompress(data))
            header = json.loads(arrays["header"].tobytes().decode("utf-8", "surrogatepass"))
        except (zlib.error, SafetensorError, KeyError, ValueError) as error:
            raise CatalogError(f"the record of a query is damaged: {error}", hint="ask the query again") from error
        if header.get("format") != FORMAT:
            raise CatalogError(
                f"the record of this query has format {header.get('format')!r}, this version reads {FORMAT}",
                hint="ask the query again",
            )
        return _unpacked(header, arrays)


class RecordedQuery(Protocol):
    """Row of a query in the catalog."""

    @property
    def trace(self) -> bytes:
        """Bytes that `Trace.to_bytes` returned."""


class TraceReader(Protocol):
    """Reads recorded queries; the catalog is one."""

    def query(self, query_id: str) -> RecordedQuery | None:
        """Return a query's row; None for an unknown id."""


def load_trace(catalog: TraceReader, query_id: str, visibility: Visibility = EVERYTHING) -> Trace:
    """Return the trace of a recorded query. Blocking.

    Raises:
        NotFoundError: no such query, it is no longer kept, or somebody else's.
    """
    found = catalog.query(query_id)
    if found is None:
        raise no_query(query_id)
    trace = Trace.from_bytes(found.trace)
    if not (visibility.owns(trace.owner) and visibility.covers(trace.plan.get("corpora"))):
        raise no_query(query_id)
    return trace


def _compressed(data: bytes, *, plain: Sequence[NDArray[Any]]) -> bytes:
    """Return a zlib stream of safetensors data in which numbers with fractions are stored as they are.

    They would take four fifths of the time and become a tenth smaller.

    Args:
        data: Header and arrays; safetensors puts the widest numbers first, so those with fractions begin behind the header.
        plain: The arrays of numbers with fractions.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    end = start + sum(array.nbytes for array in plain)
    shrunk, stored = (zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS) for level in (_QUICK, 0))
    stream = (
        _ZLIB_HEADER,
        shrunk.compress(data[:start]),
        shrunk.flush(zlib.Z_FULL_FLUSH),
        stored.compress(data[start:end]),
        stored.flush(zlib.Z_FULL_FLUSH),
        shrunk.compress(data[end:]),
        shrunk.flush(zlib.Z_FINISH),
        zlib.adler32(data).to_bytes(4, "big"),
    )
    return b"".join(stream)


class _Packed:
    """Collects the arrays and the distinct ids of one trace.

    Args:
        ids: Ids with which the table begins; nearly all ids of a trace are in its ranking.
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._row: dict[str, int] = {image_id: row for row, image_id in enumerate(dict.fromkeys(ids))}

    @property
    def table(self) -> list[str]:
        return list(self._row)

    def add(self, array: NDArray[Any]) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(array)
        return name

    def ids(self, ids: Sequence[str]) -> str:
        try:
            rows = list(map(self._row.__getitem__, ids))
        except KeyError:
            rows = [self._row.setdefault(image_id, len(self._row)) for image_id in ids]
        return self.add(np.array(rows, np.int32))

    def ranked(self, one: RankedList) -> list[Any]:
        return [one.guide, one.space, one.weight, one.scale, self.ids(one.ids), self.add(one.scores)]


def _unpacked(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Trace:
    table = header["ids"]
    merged = {(guide, space) for guide, space in header.get("merged", ())}  # records of earlier versions have none

    def ids(name: str) -> tuple[str, ...]:
        return tuple(table[row] for row in arrays[name])

    def ranked(rows: Sequence[Any]) -> tuple[RankedList, ...]:
        return tuple(
            RankedList(guide, space, weight, ids(names), arrays[scores], scale, (guide, space) in merged)
            for guide, space, weight, scale, names, scores in rows
        )

    return Trace(
        query_id=header["query_id"],
        created_at=datetime.fromisoformat(header["created_at"]),
        kind=header["kind"],
        text=header["text"],
        request=header["request"],
        plan=header["plan"],
        fusion=FORMER_NAMES.get(header["fusion"], header["fusion"]),
        depths=tuple(header["depths"]),
        space_weights=header["space_weights"],
        topic=header["topic"],
        trust=header["trust"],
        gate=None if header["gate"] is None else GateDecision.model_validate(header["gate"]),
        prompts=header["prompts"],
        guides=tuple(GuideInfo.model_validate(guide) for guide in header["guides"]),
        text_vectors={name: arrays[key] for name, key in header["text_vectors"].items()},
        searches=tuple(
            ListSearch(guide, space, collection, weight, arrays[vector], depth)
            for guide, space, collection, weight, vector, depth in header["searches"]
        ),
        lists=ranked(header["lists"]),
        completed=ranked(header["completed"]),
        ranking=FusedList(ids(header["ranking"][0]), arrays[header["ranking"][1]]),
        hits=ids(header["hits"]),
        parts={(guide, space): arrays[scores] for guide, space, scores in header["parts"]},
        stage=header["stage"],
        dropped=tuple(header["dropped"]),
        warnings=tuple(header["warnings"]),
        timings_ms=header["timings_ms"],
        owner=header.get("owner", ""),
        confidence=header.get("confidence"),
        probably_nothing=header.get("probably_nothing", False),
        confidence_signs=header.get("confidence_signs", {}),
    )
