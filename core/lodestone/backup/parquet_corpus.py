"""One corpus as its Parquet files tell of it, as rows of a catalog: for rebuilding a catalog that was lost.

Files hold no times, so the newest slice of a picture is the one whose `meta` file was written last. A bucket does not tell that
either; there, a picture that changed may get the vectors of its former content until the next index run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from lodestone.catalog import tables
from lodestone.catalog.identity import mint_image_id
from lodestone.catalog.pictures.photo_facts import PHOTO_FACTS
from lodestone.catalog.records import Corpus, ImageState, Receipt, Root, RunState
from lodestone.embeddings.corpus_records import CorpusRecord, read_corpus_record
from lodestone.embeddings.slices import find_part, fingerprint, read_part
from lodestone.imaging.metadata import read_by
from lodestone.indexing.parts.captions import CAPTIONS_PREFIX
from lodestone.indexing.progress import Meter, RunStage
from lodestone.indexing.tasks import META_PART, this_worker

if TYPE_CHECKING:
    from sqlalchemy import Table

    from lodestone.files.area import FileArea

KIND: Final = "catalog-rebuild"
_FILE: Final = re.compile(r"[^/]+/[^/]+/(?P<fp>[0-9a-f]{16,})\.(?P<part>.+)\.parquet")
_ATTEMPTS: Final = 4  # ids that are tried for a picture's place; see `mint_image_id`
_UNKNOWN_ROOT: Final = "unknown"
Pages = Iterator[tuple["Table", Sequence[Mapping[str, Any]]]]


@dataclass(slots=True)
class _Slice:
    """A slice whose `meta` file could be read."""

    slice_id: str
    fingerprint: str
    members: list[str]
    uris: list[str]
    sizes: list[int]
    receipts: list[Receipt]
    captions: Receipt | None = None
    age: int = -1  # of the captions' file


@dataclass(slots=True)
class ParquetCorpus:
    """One corpus as its Parquet files tell of it. Call `look` first, then `rows`.

    Attributes:
        area: Area of the Parquet files.
        corpus_id: Id of the corpus, and name of its folder.
        folders: Folders that were indexed, in case that the corpus has no record of its roots.
        alone: Whether it is the only corpus.
        corpus: The corpus; set by `look`, as are the others below.
        roots: Its roots.
        slices: Slices that are the newest of at least one picture.
        unreadable: Paths of damaged files.
        counts: Numbers of `images`, `failures`, `captions` and pictures `without_root`, as far as their rows were made.
    """

    area: FileArea
    corpus_id: str
    folders: Sequence[Path]
    alone: bool
    slices: list[_Slice] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    corpus: Corpus = field(init=False)
    roots: tuple[Root, ...] = field(init=False)
    _owner: dict[str, str] = field(default_factory=dict)  # picture -> id of the newest slice that has it
    _run_id: str = field(default_factory=lambda: str(uuid4()))
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)  # picture -> id of its root, uri

    def look(self, meter: Meter) -> None:
        """Read which slices there are, what they have, and which of them is a picture's newest."""
        record = read_corpus_record(self.area, self.corpus_id) or self._guessed()
        unknown = Root(str(uuid4()), self.corpus_id, _UNKNOWN_ROOT, f"/{_UNKNOWN_ROOT}/{self.corpus_id}")
        self.corpus, self.roots = record.corpus, (*record.roots, unknown)
        files: dict[str, dict[str, str]] = defaultdict(dict)  # fingerprint -> part -> path
        for stored in self.area.files(self.corpus_id):
            if match := _FILE.fullmatch(stored.path):
                files[match["fp"]][match["part"]] = stored.path
        for fp in sorted(
            (fp for fp, parts in files.items() if META_PART in parts), key=lambda fp: self._age(files[fp][META_PART])
        ):
            self._add_slice(fp, files[fp])
            meter.add(1)
        self.slices = [one for one in self.slices if any(self._owner[member] == one.slice_id for member in one.members)]
        self._find_captions(files)
        self._find_places()
        if not self.counts["without_root"]:
            self.roots = self.roots[:-1]

    def rows(self, table: str) -> Pages:
        """Yield the rows of one table."""
        if table == "corpora":
            yield tables.corpora, [asdict(self.corpus)]
        elif table == "roots":
            yield tables.roots, [asdict(root) for root in self.roots]
        elif table == "slices":
            now = datetime.now(UTC)
            for seq, one in enumerate(self.slices, start=1):
                plain = {"slice_id": one.slice_id, "corpus_id": self.corpus_id, "fingerprint": one.fingerprint}
                yield tables.slices, [{**plain, "rows": len(one.members), "created_at": now, "seq": seq, "parts": ""}]
        elif table == "runs":
            yield tables.runs, [self._run()]
        elif table == "receipts":
            for one in self.slices:
                receipts = [*one.receipts, *([one.captions] if one.captions else [])]
                yield tables.receipts, [asdict(receipt) for receipt in receipts]
        else:
            for one in self.slices:
                yield from self._picture_rows(one, table)

    def _guessed(self) -> CorpusRecord:
        name = "default" if self.alone else f"corpus-{self.corpus_id[:8]}"
        roots = tuple(
            Root(str(uuid4()), self.corpus_id, folder.name or "root", str(folder)) for folder in dict.fromkeys(self.folders)
        )
        return CorpusRecord(Corpus(self.corpus_id, name, datetime.now(UTC)), roots)

    def _age(self, path: str) -> int:
        """Return when a file was written, in nanoseconds; 0 in a bucket, which does not tell."""
        if self.area.folder is None:
            return 0
        return (self.area.folder / path).stat().st_mtime_ns

    def _add_slice(self, fp: str, parts: Mapping[str, str]) -> None:
        slice_id = str(uuid4())
        receipts = []
        for part, path in parts.items():
            if part.startswith(CAPTIONS_PREFIX):
                continue
            receipt = find_part(self.area, self.corpus_id, fp, part, slice_id=slice_id)
            if receipt is None:
                self.unreadable.append(path)
            else:
                receipts.append(receipt)
        meta = next((receipt for receipt in receipts if receipt.part == META_PART), None)
        if meta is None:
            return
        table = read_part(self.area, meta, columns=["image_id", "uri", "size"])
        members: list[str] = table.column("image_id").to_pylist()
        self.slices.append(
            _Slice(slice_id, fp, members, table.column("uri").to_pylist(), table.column("size").to_pylist(), receipts)
        )
        self._owner.update(dict.fromkeys(members, slice_id))

    def _find_captions(self, files: Mapping[str, Mapping[str, str]]) -> None:
        """Give each slice the newest file with captions of its pictures; a slice without captions has an empty one."""
        by_id = {one.slice_id: one for one in self.slices}
        empty: dict[str, str] = {}  # fingerprint in the file's name -> part
        for fp, part in [(fp, part) for fp, parts in files.items() for part in parts if part.startswith(CAPTIONS_PREFIX)]:
            path = files[fp][part]
            receipt = find_part(self.area, self.corpus_id, fp, part, slice_id="")
            if receipt is None:
                self.unreadable.append(path)
            elif not receipt.rows:
                empty[fp] = part
            elif (owner := by_id.get(self._owner_of(receipt))) is not None and self._age(path) > owner.age:
                owner.captions, owner.age = _given(receipt, owner.slice_id), self._age(path)
        for one in self.slices:
            texts = [(member, "") for member in one.members]
            # A slice that was rewritten has the file of its captions under its own name.
            names = (fingerprint(texts, one.fingerprint), fingerprint(texts, f"{one.fingerprint}+"), one.fingerprint)
            name = next((name for name in names if name in empty), None) if one.captions is None else None
            if name is not None:
                one.captions = find_part(self.area, self.corpus_id, name, empty[name], slice_id=one.slice_id)

    def _owner_of(self, captions: Receipt) -> str:
        """Return the id of the slice that has most of a file's captioned pictures; empty if none has."""
        ids = read_part(self.area, captions, columns=["image_id"]).column("image_id").to_pylist()
        owners = Counter(self._owner[image_id] for image_id in ids if image_id in self._owner)
        return owners.most_common(1)[0][0] if owners else ""

    def _picture_rows(self, one: _Slice, table: str) -> Pages:
        if table == "slice_members":
            plain = {"slice_id": one.slice_id}
            places = enumerate(one.members)
            yield tables.slice_members, [{**plain, "image_id": member, "position": position} for position, member in places]
            return
        meta = next(receipt for receipt in one.receipts if receipt.part == META_PART)
        owned = [row for row in read_part(self.area, meta).to_pylist() if self._owner[row["image_id"]] == one.slice_id]
        if table == "images":
            yield tables.images, [self._image(row, one.slice_id) for row in owned]
        elif table == "failures":
            broken = [row for row in owned if row["error_code"] is not None]
            self.counts["failures"] += len(broken)
            yield tables.failures, [self._failure(row) for row in broken]
        elif table == "captions":
            texts = self._captions(one, owned)
            self.counts["captions"] += len(texts)
            yield tables.captions, texts

    def _image(self, row: Mapping[str, Any], slice_id: str) -> dict[str, Any]:
        failed = row["error_code"] is not None
        root_id, uri = self._places[row["image_id"]]
        self.counts["images"] += not failed
        facts = {name: row.get(name) for name in ("decoded_share", *PHOTO_FACTS)}
        return {
            "image_id": row["image_id"],
            "corpus_id": self.corpus_id,
            "root_id": root_id,
            "uri": uri,
            **{name: row[name] for name in ("hash", "size", "mtime_ns")},
            "state": (ImageState.FAILED if failed else ImageState.ACTIVE).value,
            "slice_id": slice_id,
            **{name: row[name] or 0 for name in ("width", "height")},
            "format": row["format"] or "",
            **facts,
            "position": None,
            "metadata_version": read_by(row.get("metadata_version")),
        }

    def _find_places(self) -> None:
        """Find the root of each picture: its id was made from the root's name and its uri, unless it was moved before."""
        *known, unknown = self.roots
        taken: set[tuple[str, str]] = set()
        for one in self.slices:
            for image_id, uri, size in zip(one.members, one.uris, one.sizes, strict=True):
                if self._owner[image_id] != one.slice_id:
                    continue
                root = next((root for root in known if _is_from(image_id, self.corpus_id, root, uri)), None)
                root = root or next((root for root in known if _has_file(root, uri, size)), unknown)
                self.counts["without_root"] += root is unknown
                place = (root.root_id, uri)
                if place in taken:  # it moved away, and another picture took its place: the next run finds where it is
                    place = (root.root_id, f"{uri}#{image_id}")
                taken.add(place)
                self._places[image_id] = place

    def _failure(self, row: Mapping[str, Any]) -> dict[str, Any]:
        root_id, uri = self._places[row["image_id"]]
        told = {"code": row["error_code"], "message": row["error_message"] or "", "image_id": row["image_id"]}
        return {"root_id": root_id, "uri": uri, "run_id": self._run_id, **told}

    def _captions(self, one: _Slice, owned: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        usable = {row["image_id"] for row in owned if row["error_code"] is None}
        if one.captions is None:
            pairs = [(row["image_id"], c["source"], c["text"]) for row in owned for c in row["captions"] or ()]
        else:
            table = read_part(self.area, one.captions, columns=["image_id", "source", "text"])
            pairs = [(row["image_id"], row["source"], row["text"]) for row in table.to_pylist()]
        positions = Counter[tuple[str, str]]()
        rows = []
        for image_id, source, text in dict.fromkeys(pairs):
            if image_id in usable:
                position = positions[image_id, source]
                positions[image_id, source] += 1
                rows.append({"image_id": image_id, "source": source, "position": position, "text": text})
        return rows

    def _run(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "run_id": self._run_id,
            "kind": KIND,
            "corpus_id": self.corpus_id,
            "state": RunState.DONE.value,
            "stage": RunStage.DONE.value,
            "started_at": now,
            "finished_at": now,
            "counts": {},
            "error": "",
            "request": {},
            "worker": this_worker(),
            "heartbeat_at": None,
            "cancel_requested": False,
            "seq": 1,
        }


def _given(receipt: Receipt, slice_id: str) -> Receipt:
    return Receipt(**{**asdict(receipt), "slice_id": slice_id})


def _is_from(image_id: str, corpus_id: str, root: Root, uri: str) -> bool:
    return any(mint_image_id(corpus_id, root.name, uri, attempt=attempt) == image_id for attempt in range(_ATTEMPTS))


def _has_file(root: Root, uri: str, size: int) -> bool:
    with suppress(OSError, ValueError):
        return root.kind == "folder" and (Path(root.path) / uri).stat().st_size == size
    return False
