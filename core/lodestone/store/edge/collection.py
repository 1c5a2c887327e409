"""One embedded collection on disk, shared by readers, writers and a graph build.

    <collection>/spec.json          the `CollectionSpec`
    <collection>/CURRENT            name of the current generation, replaced atomically
    <collection>/deleted.json       number of deleted points whose bytes the engine's files hold (see store/deleted_points.py)
    <collection>/gen-<hex>/shard/   the engine's files
    <collection>/gen-<hex>/built.json   graph parameters of the last finished build, if any
    <collection>/gen-<hex>/upserts.bin  number of points upserted since that build (see generation.py)
    <collection>/gen-<hex>/contents.json   sizes and checksums of these files when they were last closed (see contents.py)
    <collection>/gen-<hex>/matrix.bin   the vectors once more, as a matrix to multiply with (see matrix_file.py)

A build copies the current generation, lets a child process build the graph in the copy, replays the writes made meanwhile and
moves CURRENT. An erasure does the same with a new collection of the points that are there. A crash at any point leaves CURRENT
unchanged; the next opening removes generations that it does not name.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from lodestone.durable_files import sync_folder, sync_tree, write_atomically
from lodestone.errors import OutOfSpaceError, StoreError, UnknownNameError
from lodestone.store.base import PointBatch, SparseBatch
from lodestone.store.deleted_points import add_deleted, read_deleted, subtract_deleted
from lodestone.store.edge.engine import (
    SPEC_FILE,
    as_they_are,
    copy_points,
    create_field_indexes,
    damaged,
    delete_operation,
    dump_spec,
    engine_config,
    engine_errors,
    point_bytes,
    read_spec,
    sparse_upsert_operation,
    upsert_operation,
)
from lodestone.store.edge.generation import SHARD_DIR, Generation, build_facts, content_record, record_build
from lodestone.store.edge.matrix import VectorMatrix
from lodestone.store.edge.matrix_keeper import MatrixKeeper, MatrixPolicy
from lodestone.store.edge.shared_matrix import SharedMatrix
from lodestone.store.files import (
    DRAFT_PREFIX,
    discard,
    is_out_of_space,
    out_of_space,
    require_space,
)
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec, Quantization

CURRENT_FILE = "CURRENT"
GENERATION_PREFIX = "gen-"
# With fewer points than this left to replay, writers are blocked during the last replay.
FINAL_REPLAY_POINTS = 512
MAX_REPLAY_ROUNDS = 20

BuildChild = Callable[[Path, CollectionSpec, threading.Event], None]


class EdgeCollection:
    """Collection that several threads may use; it is made by `EdgeCollection.create` and opened at first use.

    Args:
        path: Its folder.
        policy: When it has a matrix.
        changing: Entered around each step that changes points, fields or the graph, while the writers' lock is held.
    """

    def __init__(
        self,
        path: Path,
        policy: MatrixPolicy = MatrixPolicy(),  # noqa: B008 - immutable
        changing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
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
        self._changing = changing
        self._keeper = MatrixKeeper(self, self._writing, shard=SHARD_DIR, policy=policy)

    @classmethod
    def create(
        cls,
        path: Path,
        spec: CollectionSpec,
        policy: MatrixPolicy = MatrixPolicy(),  # noqa: B008 - immutable
        changing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> EdgeCollection:
        """Create the collection's directory; a crash leaves nothing or an empty collection."""
        draft = path.with_name(f"{DRAFT_PREFIX}{uuid.uuid4().hex}")
        generation = f"{GENERATION_PREFIX}{uuid.uuid4().hex[:12]}"
        shard_path = draft / generation / SHARD_DIR
        with engine_errors(f"creating collection {spec.name!r}", path.parent):
            require_space(path.parent, 0)
            shard_path.mkdir(parents=True)
            shard = qe.EdgeShard.create(str(shard_path), engine_config(spec))
            create_field_indexes(shard, spec.fields)
            shard.flush()
            shard.close()
            content_record(shard_path.parent, spec.name).renew(written=True)
            write_atomically(draft / SPEC_FILE, dump_spec(spec))
            write_atomically(draft / CURRENT_FILE, generation)
            draft.rename(path)
            sync_folder(path.parent)
        return cls(path, policy, changing)

    @property
    def spec(self) -> CollectionSpec:
        """Return the specification, which is read at first use so that one broken collection leaves the others usable."""
        if self._spec is None:
            spec = read_spec(self.path)
            if spec.name != self.name:
                raise damaged(self.name, self.path, f"{SPEC_FILE} is that of the collection {spec.name!r}")
            self._spec = spec
        return self._spec

    def respecify(self, spec: CollectionSpec) -> None:
        """Store other graph or quantization parameters for the next build, and add new fields; all else stays."""
        known = dict(self.spec.fields)
        added = tuple((name, kind) for name, kind in spec.fields if name not in known)
        kept = replace(spec, fields=(*self.spec.fields, *added), placement=self.spec.placement)
        if kept != self.spec:
            with self._writing, self._changing():
                if added:
                    with self.reading() as shard, engine_errors("indexing fields", self.path, collection=self.name):
                        create_field_indexes(shard, added)
                    self._keeper.forget()  # its columns are those of the former fields
                write_atomically(self.path / SPEC_FILE, dump_spec(kept))
                self._spec = kept

    @contextmanager
    def reading(self) -> Iterator[qe.EdgeShard]:
        """Yield the current shard, and keep it open until the end of the block."""
        with self._leased() as generation:
            yield generation.shard

    def matrix(self) -> VectorMatrix | None:
        """Return the matrix of all points, which agrees with the engine; None where the engine has to answer."""
        if self._closed:
            self._opened()  # which says so
        return None if self.spec.sparse else self._keeper.current()

    @property
    def has_matrix(self) -> bool:
        """Whether the matrix is there now."""
        return self._keeper.has_matrix

    def approximate(self) -> bool:
        """Return whether a search finds what a graph or compressed vectors find, unless it is exact or among ids."""
        return self.has_graph() or not (self.spec.rescore or self.spec.quantization is Quantization.NONE)

    def shared_matrix(self, known: str | None) -> SharedMatrix | None:
        """Return what another process makes the matrix from, as `MatrixKeeper.shared` does."""
        return None if self.matrix() is None else self._keeper.shared(self.approximate(), known)

    def counts(self) -> tuple[int, int]:
        """Return the number of points, and how many of them at most lie outside the graph: all of them if that is not known."""
        with self._leased() as generation, engine_errors("reading its state", self.path, collection=self.name):
            points, outside = generation.counts()
        return points, 0 if self.spec.sparse else outside

    def has_graph(self) -> bool:
        """Return whether a graph was built of the generation in force."""
        with self._state:
            return self._opened().has_graph

    def generation(self) -> Path:
        """Return the folder of the generation in force."""
        with self._state:
            return self._opened().path

    def upsert(self, points: PointBatch) -> None:
        """Insert or replace at most `CALL_POINTS` points, durably."""
        needed, put = 3 * (points.vectors.nbytes + len(str(points.payloads))), partial(self._keeper.put, points)
        self._write(points.ids, upsert_operation(points), needed=needed, upserts=len(points), then=put)

    def upsert_sparse(self, points: SparseBatch) -> None:
        """Insert or replace at most `CALL_POINTS` points of a sparse collection, durably."""
        terms = sum(len(vector.indices) for vector in points.vectors)
        self._write(points.ids, sparse_upsert_operation(points), needed=3 * (8 * terms + len(str(points.payloads))))

    def delete(self, ids: Sequence[str]) -> None:
        """Remove points by id, durably. Their bytes stay in the engine's files until `erase`."""
        with self._writing:
            known = self._known(ids)  # the engine's log would hold the ids of others too
            if known:
                add_deleted(self.path, len(known), len(known) * point_bytes(self.spec))
                self._write(known, delete_operation(known), needed=0, then=lambda: self._keeper.remove(known))

    def deleted_bytes(self) -> int:
        """Return about how many bytes of the engine's files hold deleted points."""
        return read_deleted(self.path).bytes

    def may_wait(self) -> bool:
        """Return whether deleted points may wait for an erasure: where a large graph would be made anew for them, some days."""
        deleted = read_deleted(self.path)
        return not deleted.points or (self.has_graph() and deleted.may_wait(self.counts()[0] * self.spec.dim))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Block other writers during the block, for work that reads and then writes."""
        with self._writing:
            yield

    def built_hnsw(self) -> dict[str, object] | None:
        """Return the parameters that the current graph was built with, or None."""
        with self._leased() as generation, engine_errors("reading how its graph was built", self.path, collection=self.name):
            return generation.built_with()

    def examine(self) -> None:
        """Compare all bytes of the files with what was recorded when they were written.

        Raises:
            CollectionDamagedError: A file is not as it was recorded.
            StoreError: A file cannot be read.
        """
        with self._writing, self._leased() as generation, engine_errors("reading", self.path, collection=self.name):
            if (why := generation.examine()) is not None:
                raise damaged(self.name, self.path, why)

    def settle(self) -> None:
        """Record what the files hold now if points were written, so that they are vouched for if the process is killed."""
        with self._writing:
            if self._generation is not None:
                self._generation.settle()

    def build(self, run_child: BuildChild) -> None:
        """Build the graph over all points in a child process, as the module's docstring describes.

        Args:
            run_child: Builds the graph inside a shard directory that no process has open; must stop when its event is set.

        Raises:
            CollectionDamagedError: The child found the files damaged.
            StoreError: The child failed; the current generation is unchanged.
            OutOfSpaceError: The disk has no room for a second copy.
        """
        with self._build_turn:
            if not self.spec.sparse and not self._is_built():
                self._renew(self._copy_to, run_child)

    def erase(self, run_child: BuildChild) -> None:
        """Put a new generation of the points that are there into the place of one that holds deleted points.

        Args:
            run_child: Builds the graph, where there was one, as `build` does.

        Raises:
            CollectionDamagedError: The files are damaged.
            StoreError: It failed; the current generation is unchanged.
            OutOfSpaceError: The disk has no room for a second copy.
        """
        with self._build_turn:
            deleted = read_deleted(self.path)
            if not deleted.points:
                return
            self._renew(self._copy_points_to, run_child if self.has_graph() else None)
            with self._writing:
                subtract_deleted(self.path, deleted)

    def _renew(self, copy: Callable[[Path], CollectionSpec], run_child: BuildChild | None) -> None:
        """Copy the current generation, build the graph in the copy if asked, and put the copy into its place."""
        self.building = True
        draft = self.path / f"{GENERATION_PREFIX}{uuid.uuid4().hex[:12]}"
        try:
            spec = copy(draft)
            if run_child is not None:
                run_child(draft / SHARD_DIR, spec, self._stop_build)
                record_build(draft, spec)
            sync_tree(draft)  # the engine syncs what it writes, and not the files that were copied
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
        """Stop a running build, flush, and close the shard once it has no readers. Idempotent."""
        self._stop_build.set()
        self._keeper.stop()
        with self._writing:
            self._keeper.close(save=not delete)
            with self._state:
                self._closed = True
                generation, self._generation = self._generation, None
        if generation is not None:
            if delete:
                with suppress(StoreError):  # of damaged files, which are about to go
                    generation.retire(delete=False, record=False)
            else:
                with engine_errors("flushing the collection", self.path):
                    generation.shard.flush()
                generation.retire(delete=False)
        with self._build_turn:
            if delete:
                discard(self.path)

    @contextmanager
    def _leased(self) -> Iterator[Generation]:
        with self._state:
            generation = self._opened()
            generation.enter()
        try:
            yield generation
        finally:
            generation.leave()

    def _opened(self) -> Generation:
        if self._closed:
            raise UnknownNameError(f"collection {self.name!r} was closed or dropped", hint="open the store again")
        if self._generation is None:
            self._sweep()
            self._generation = Generation(self.path / self._current_name())
        return self._generation

    def _current_name(self) -> str:
        with engine_errors("reading which generation is in force", self.path, collection=self.name):
            name = (self.path / CURRENT_FILE).read_text(encoding="utf-8").strip()
            if not name.startswith(GENERATION_PREFIX) or Path(name).name != name:
                raise damaged(self.name, self.path, f"{CURRENT_FILE} names no generation")
            return name

    def _sweep(self) -> None:
        current = self._current_name()
        if not (self.path / current).is_dir():
            raise damaged(self.name, self.path, f"the generation {current!r} is missing")  # and nothing else is removed
        for entry in self.path.iterdir():
            if entry.is_dir() and entry.name != current:
                discard(entry)
            elif entry.suffix == ".tmp":
                entry.unlink(missing_ok=True)

    def _write(
        self,
        ids: Sequence[str],
        operation: qe.UpdateOperation,
        *,
        needed: int,
        upserts: int = 0,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        with self._writing, self._changing():
            require_space(self.path, needed)
            # Journalled before the write: replaying a point that did not change does no harm.
            if self._journal is not None:
                self._journal.update(ids)
            try:
                with self._leased() as generation, engine_errors("writing", self.path, collection=self.name):
                    generation.count_upserts(upserts)
                    generation.shard.update(operation)
                then()
            except BaseException:
                self._keeper.forget()
                raise

    def _is_built(self) -> bool:
        points, outside = self.counts()
        return points == 0 or (outside == 0 and self.built_hnsw() == build_facts(self.spec))

    def _copy_to(self, draft: Path) -> CollectionSpec:
        with self._writing, self.reading() as shard:
            if self._stop_build.is_set():
                raise StoreError(f"building {self.name!r} was stopped", hint="the store is closing")
            with self._state:
                source = self._opened().path / SHARD_DIR
            with engine_errors("flushing", self.path, collection=self.name):
                shard.flush()
            # Apparent sizes: the engine's pre-allocated files are sparse, their copies are not. The graph needs room too.
            require_space(self.path, 2 * sum(entry.stat().st_size for entry in source.rglob("*") if entry.is_file()))
            try:
                shutil.copytree(source, draft / SHARD_DIR)
            except shutil.Error as error:
                # copytree collects the errors of single files: (source, target, text) each.
                raise OutOfSpaceError(str(error), hint="free some space") if is_out_of_space(error) else error from error
            self._journal = set()
            return self.spec

    def _copy_points_to(self, draft: Path) -> CollectionSpec:
        """Write the points that are there into a new shard. Writers wait; readers do not."""
        with self._writing, self.reading() as shard:
            if self._stop_build.is_set():
                raise StoreError(f"erasing from {self.name!r} was stopped", hint="the store is closing")
            require_space(self.path, 3 * int(shard.info().points_count) * point_bytes(self.spec))
            with engine_errors("copying points", self.path, collection=self.name):
                copy_points(shard, draft / SHARD_DIR, self.spec)
            self._journal = set()
            return self.spec

    def _known(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of those points that are there."""
        asked: list[Any] = list(ids)
        with self.reading() as shard, engine_errors("looking for points", self.path, collection=self.name):
            return [str(record.id) for record in shard.retrieve(asked, False, False)]

    def _switch_to(self, draft: Path) -> None:
        built = Generation(draft, made_here=True)
        try:
            for _ in range(MAX_REPLAY_ROUNDS):
                with self._writing:
                    journal, self._journal = self._journal or set(), set()
                    if len(journal) <= FINAL_REPLAY_POINTS:
                        self._journal = journal
                        break
                self._replay(journal, built)
            with self._writing:
                self._replay(self._journal or set(), built)
                with engine_errors("flushing the built collection", draft):
                    built.shard.flush()
                with self._changing(), self._state:
                    previous = self._opened()
                    write_atomically(self.path / CURRENT_FILE, draft.name)
                    self._generation = built
                self._keeper.moved()
        except BaseException:
            built.retire(delete=False)
            raise
        previous.retire(delete=True)

    def _replay(self, touched: set[str], target: Generation) -> None:
        ids: list[Any] = sorted(touched)
        for start in range(0, len(ids), CALL_POINTS):
            batch = ids[start : start + CALL_POINTS]
            # One step under the lock: a write between reading the old point and writing it to the target would be lost.
            with self._writing, self.reading() as shard, engine_errors("bringing over writes", self.path):
                records = shard.retrieve(batch, True, True)
                deleted = set(batch).difference(str(record.id) for record in records)
                target.count_upserts(len(records))
                if records:
                    target.shard.update(as_they_are(records))
                if deleted:
                    target.shard.update(delete_operation(sorted(deleted)))
