"""How does one embedded collection live on disk, and how do readers, writers and a build share it?

    <collection>/spec.json          the `CollectionSpec`
    <collection>/CURRENT            name of the generation in force, replaced atomically
    <collection>/gen-<hex>/shard/   the engine's files
    <collection>/gen-<hex>/built.json   graph parameters of the last finished build, if any

A build copies the generation in force, lets a child process make the graph in the copy, brings over what was written
meanwhile and moves CURRENT. A crash anywhere leaves CURRENT where it was; generations it does not name are swept at
the next opening.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from lodestone.errors import OutOfSpaceError, StoreError, UnknownNameError
from lodestone.store.base import PointBatch, SparseBatch
from lodestone.store.edge.engine import (
    create_field_indexes,
    delete_operation,
    engine_config,
    engine_errors,
    sparse_upsert_operation,
    upsert_operation,
)
from lodestone.store.edge.spec import SPEC_FILE, dump_spec, read_spec
from lodestone.store.files import (
    DRAFT_PREFIX,
    discard,
    is_out_of_space,
    out_of_space,
    require_room_to_map,
    require_space,
    write_atomically,
)
from lodestone.store.limits import CALL_POINTS
from lodestone.store.records import as_batch
from lodestone_schemas.collections import CollectionSpec

CURRENT_FILE, BUILT_FILE, SHARD_DIR = "CURRENT", "built.json", "shard"
GENERATION_PREFIX = "gen-"
# With fewer points than this left to bring over, writers are made to wait while that happens.
FINAL_REPLAY_POINTS = 512
MAX_REPLAY_ROUNDS = 20

BuildChild = Callable[[Path, CollectionSpec, threading.Event], None]


class Generation:
    """An opened engine shard that stays open as long as somebody reads from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._leases = 0
        self._retired = False
        self._idle = threading.Condition()
        with engine_errors("opening the collection", path):
            require_room_to_map(path)
            self.shard = qe.EdgeShard.load(str(path / SHARD_DIR))

    def enter(self) -> None:
        """Keep the shard open until `leave`."""
        with self._idle:
            self._leases += 1

    def leave(self) -> None:
        """End what `enter` began."""
        with self._idle:
            self._leases -= 1
            self._idle.notify_all()

    def retire(self, *, delete: bool) -> None:
        """Close as soon as nobody reads any more (engine calls take milliseconds), and remove the files if asked. Idempotent.

        Nobody may `enter` any more when this is called.
        """
        with self._idle:
            self._idle.wait_for(lambda: self._leases == 0)
            if self._retired:
                return
            self._retired = True
        with engine_errors("closing the collection", self.path):
            self.shard.close()
        if delete:
            discard(self.path)


class EdgeCollection:
    """One collection. Safe to use from several threads; made by `EdgeCollection.create`, opened at first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._spec: CollectionSpec | None = None
        self.building = False
        self._state = threading.Lock()
        self._writing = threading.RLock()
        self._build_turn = threading.Lock()
        self._journal: set[str] | None = None
        self._stop_build = threading.Event()
        self._generation: Generation | None = None
        self._closed = False

    @classmethod
    def create(cls, path: Path, spec: CollectionSpec) -> EdgeCollection:
        """Make the collection's directory; a crash leaves nothing or an empty collection."""
        draft = path.with_name(f"{DRAFT_PREFIX}{uuid.uuid4().hex}")
        generation = f"{GENERATION_PREFIX}{uuid.uuid4().hex[:12]}"
        shard_path = draft / generation / SHARD_DIR
        with engine_errors(f"creating collection {spec.name!r}", path.parent):
            require_space(path.parent, 0)
            shard_path.mkdir(parents=True)
            shard = qe.EdgeShard.create(str(shard_path), engine_config(spec))
            create_field_indexes(shard, spec)
            shard.flush()
            shard.close()
            write_atomically(draft / SPEC_FILE, dump_spec(spec))
            write_atomically(draft / CURRENT_FILE, generation)
            draft.rename(path)
        return cls(path)

    @property
    def spec(self) -> CollectionSpec:
        """How the collection was created; read at first use, so that one broken collection leaves the others alone."""
        if self._spec is None:
            self._spec = read_spec(self.path)
        return self._spec

    def respecify(self, spec: CollectionSpec) -> None:
        """Keep other graph or quantization parameters for the next build; vectors and fields stay."""
        kept = replace(spec, fields=self.spec.fields, placement=self.spec.placement)
        if kept != self.spec:
            with self._writing:
                write_atomically(self.path / SPEC_FILE, dump_spec(kept))
                self._spec = kept

    @contextmanager
    def reading(self) -> Iterator[qe.EdgeShard]:
        """The shard in force, kept open until the end of the block."""
        with self._state:
            generation = self._opened()
            generation.enter()
        try:
            yield generation.shard
        finally:
            generation.leave()

    def upsert(self, points: PointBatch) -> None:
        """Insert or replace at most `CALL_POINTS` points, durably."""
        self._write(points.ids, upsert_operation(points), needed=3 * (points.vectors.nbytes + len(str(points.payloads))))

    def upsert_sparse(self, points: SparseBatch) -> None:
        """`upsert` for a sparse collection."""
        terms = sum(len(vector.indices) for vector in points.vectors)
        self._write(points.ids, sparse_upsert_operation(points), needed=3 * (8 * terms + len(str(points.payloads))))

    def delete(self, ids: Sequence[str]) -> None:
        """Remove points by id, durably."""
        self._write(ids, delete_operation(ids), needed=0)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers out, for read-then-write work."""
        with self._writing:
            yield

    def built_hnsw(self) -> dict[str, object] | None:
        """Parameters the graph in force was built with, or None."""
        with self._state:
            path = self._opened().path / BUILT_FILE
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def build(self, run_child: BuildChild) -> None:
        """Make the graph over all points in a child process; see the module's docstring.

        Args:
            run_child: Builds the graph inside a shard directory that nobody has open; must give up when its event is set.

        Raises:
            StoreError: The child failed; the generation in force is unchanged.
            OutOfSpaceError: The disk has no room for a second copy.
        """
        with self._build_turn:
            if self.spec.sparse or self._is_built():
                return
            self.building = True
            draft = self.path / f"{GENERATION_PREFIX}{uuid.uuid4().hex[:12]}"
            try:
                spec = self._copy_to(draft)
                run_child(draft / SHARD_DIR, spec, self._stop_build)
                write_atomically(draft / BUILT_FILE, json.dumps(_build_facts(spec)))
                self._switch_to(draft)
            except OSError as error:
                if is_out_of_space(error):
                    raise out_of_space(self.path) from error
                raise StoreError(
                    f"building {self.name!r} failed: {error}", hint="the collection is unchanged; build it again"
                ) from error
            finally:
                self._journal = None
                self.building = False
                if (self.path / CURRENT_FILE).exists() and self._current_name() != draft.name:
                    discard(draft)

    def close(self, *, delete: bool = False) -> None:
        """Stop a running build, flush, and let the shard go once nobody reads. Idempotent."""
        self._stop_build.set()
        with self._writing, self._state:
            self._closed = True
            generation, self._generation = self._generation, None
        if generation is not None:
            if not delete:
                with engine_errors("flushing the collection", self.path):
                    generation.shard.flush()
            generation.retire(delete=False)
        with self._build_turn:
            if delete:
                discard(self.path)

    def _opened(self) -> Generation:
        if self._closed:
            raise UnknownNameError(f"collection {self.name!r} was closed or dropped", hint="open the store again")
        if self._generation is None:
            self._sweep()
            self._generation = Generation(self.path / self._current_name())
        return self._generation

    def _current_name(self) -> str:
        with engine_errors("reading which generation is in force", self.path):
            return (self.path / CURRENT_FILE).read_text(encoding="utf-8").strip()

    def _sweep(self) -> None:
        current = self._current_name()
        for entry in self.path.iterdir():
            if entry.is_dir() and entry.name != current:
                discard(entry)
            elif entry.suffix == ".tmp":
                entry.unlink(missing_ok=True)

    def _write(self, ids: Sequence[str], operation: qe.UpdateOperation, *, needed: int) -> None:
        with self._writing:
            require_space(self.path, needed)
            # Journalled before it is done: bringing over a point that did not change does no harm.
            if self._journal is not None:
                self._journal.update(ids)
            with self.reading() as shard, engine_errors(f"writing to collection {self.name!r}", self.path):
                shard.update(operation)

    def _is_built(self) -> bool:
        with self.reading() as shard:
            info = shard.info()
        return info.points_count == 0 or (
            info.indexed_vectors_count >= info.points_count and self.built_hnsw() == _build_facts(self.spec)
        )

    def _copy_to(self, draft: Path) -> CollectionSpec:
        with self._writing, self.reading() as shard:
            if self._stop_build.is_set():
                raise StoreError(f"building {self.name!r} was stopped", hint="the store is closing")
            with self._state:
                source = self._opened().path / SHARD_DIR
            with engine_errors("flushing the collection", self.path):
                shard.flush()
            # Apparent sizes: the engine's pre-allocated files are sparse, their copies are not. The graph comes on top.
            require_space(self.path, 2 * sum(entry.stat().st_size for entry in source.rglob("*") if entry.is_file()))
            try:
                shutil.copytree(source, draft / SHARD_DIR)
            except shutil.Error as error:
                # copytree collects the errors of single files: (source, target, text) each.
                raise OutOfSpaceError(str(error), hint="free some space") if is_out_of_space(error) else error from error
            self._journal = set()
            return self.spec

    def _switch_to(self, draft: Path) -> None:
        fresh = Generation(draft)
        try:
            for _ in range(MAX_REPLAY_ROUNDS):
                with self._writing:
                    journal, self._journal = self._journal or set(), set()
                    if len(journal) <= FINAL_REPLAY_POINTS:
                        self._journal = journal
                        break
                self._replay(journal, fresh.shard)
            with self._writing:
                self._replay(self._journal or set(), fresh.shard)
                with engine_errors("flushing the built collection", draft):
                    fresh.shard.flush()
                with self._state:
                    old = self._opened()
                    write_atomically(self.path / CURRENT_FILE, draft.name)
                    self._generation = fresh
        except BaseException:
            fresh.retire(delete=False)
            raise
        old.retire(delete=True)

    def _replay(self, touched: set[str], target: qe.EdgeShard) -> None:
        ids: list[Any] = sorted(touched)
        for start in range(0, len(ids), CALL_POINTS):
            part = ids[start : start + CALL_POINTS]
            # One step under the lock: a writer between reading the old point and writing it would be undone.
            with self._writing, self.reading() as shard, engine_errors("bringing over writes", self.path):
                found = as_batch(shard.retrieve(part, True, True), dim=self.spec.dim)
                gone = set(part).difference(found.ids)
                if len(found):
                    target.update(upsert_operation(found))
                if gone:
                    target.update(delete_operation(sorted(gone)))


def _build_facts(spec: CollectionSpec) -> dict[str, object]:
    return {"m": spec.hnsw.m, "ef_construct": spec.hnsw.ef_construct, "quantization": spec.quantization.value}
