"""Synchronisation of the vector collections with catalog and Parquet files.

create -> delete what is gone -> load -> verify -> build -> promote, for every space and for the captions, then the tags. It
starts from any state that a killed run, a retrained projection or a lost store left, and rebuilds collections whose files are
damaged. No model runs and no picture is read: vectors are projected from the stored outputs. Idempotent. The owner of the store
runs it: the index command, or the service.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from lodestone.catalog.work.swaps import retained_collections
from lodestone.config.compositions import all_compositions
from lodestone.errors import CollectionDamagedError, EmbeddingsDamagedError
from lodestone.facts.facts import VERSION as FACTS_VERSION
from lodestone.indexing.faults import Faults
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import Meter, Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.resources import StoredHome
from lodestone.indexing.sync.fused_target import fused_targets, is_fused
from lodestone.indexing.sync.loaders import GroupLoader, LoaderFactory
from lodestone.indexing.sync.loading import IN_FLIGHT, load
from lodestone.indexing.sync.targets import CaptionTarget, SpaceTarget, Target
from lodestone.indexing.sync.verify import delete_orphan_points, verify
from lodestone.spaces.names import BRIDGE, TAGS
from lodestone.tags.delivery import COLLECTION, deliver, mend

if TYPE_CHECKING:
    from lodestone.backbones.base import Backbone
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.profiles import Profile
    from lodestone.config.store import StoreSettings
    from lodestone.errors import StoreError
    from lodestone.spaces.base import Projection
    from lodestone.store.base import VectorStore
    from lodestone.text_encoders.base import TextEncoder

_log = logging.getLogger(__name__)
_UNINDEXED_SHARE: Final = 0.2  # a graph is made again when more of the points than this lie outside it
_DELETE_BATCH: Final = 1000
_DELIVERED_MEANWHILE: Final = 2_000  # pictures whose words are delivered while a run goes on: loading must not wait for long
_ROUNDS: Final = 10  # most rounds of catching up with other runs; each loads what they recorded during the last one


class SyncResources(StoredHome, Protocol):
    """Resources that a sync works on; a `Runtime` provides all of them."""

    @property
    def profile(self) -> Profile:
        """Return the profile, whose graph parameters apply where the settings name none."""

    @property
    def store(self) -> VectorStore:
        """Return the vector store, owned by this process."""

    @property
    def text_encoder(self) -> TextEncoder:
        """Return the encoder of the captions' vectors; it is not loaded."""

    def backbones(self) -> list[Backbone]:
        """Return the backbones whose outputs are stored; they are not loaded."""

    def extra_backbones(self) -> list[Backbone]:
        """Return the backbones that only `standby_projections` needs; they are not loaded."""

    def projections(self) -> dict[str, Projection]:
        """Return space -> projection, in the versions in force now."""

    def standby_projections(self) -> dict[str, Projection]:
        """Return collection -> projection of the collections that model swaps keep loaded and do not promote."""


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """Report on one collection: counts of points, and whether its graph was built and its alias moved.

    `damage` says why the collection was dropped and rebuilt; empty if it was not.
    """

    alias: str
    collection: str
    loaded: int
    deleted: int
    points: int
    built: bool
    promoted: bool
    seconds: float
    damage: str = ""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Report of a sync.

    `dropped` names retired collections that were removed; `tags_damage` says why the tags' collection was rebuilt, if it was.
    """

    collections: tuple[CollectionReport, ...] = ()
    dropped: tuple[str, ...] = ()
    seconds: float = 0.0
    tags_damage: str = ""

    @property
    def rebuilt(self) -> tuple[str, ...]:
        """Return a sentence for each collection that was damaged and rebuilt."""
        sentences = [
            f"{one.damage}; it was dropped and rebuilt from the Parquet files with {one.points:,} points"
            for one in self.collections
            if one.damage
        ]
        if self.tags_damage:
            sentences.append(f"{self.tags_damage}; it was dropped and rebuilt from the catalog's tags")
        return tuple(sentences)


def sync(
    resources: SyncResources, *, progress: Progress = silent, build: bool = True, loaders: LoaderFactory | None = None
) -> SyncReport:
    """Synchronise every collection, as the module's docstring describes.

    A collection that this sync retires stays until the next one, for queries that resolved its alias before.

    Args:
        resources: The opened home.
        progress: Called at every step.
        build: Build the graphs of large collections. False while many more points will follow: what is loaded is found
            all the same, more slowly.
        loaders: Makes the loader of the groups of slices; None to load them in this process.

    Raises:
        StoreError: the store failed, or differs from the catalog even after one repair.
        CollectionDamagedError: a collection is damaged again right after it was rebuilt.
        EmbeddingsDamagedError: a stored file is missing or damaged; the next index run makes it again.
        OutOfSpaceError: there is no space left for the store.
    """
    with resources.store.patient():
        return _sync(resources, _Loading.of(resources, loaders, progress), build=build)


@dataclass(frozen=True, slots=True)
class _Loading:
    """How a sync loads: through which loader, how many groups at once, and whom it tells."""

    progress: Progress
    faults: Faults
    loader: GroupLoader | None
    width: int

    @classmethod
    def of(cls, resources: SyncResources, loaders: LoaderFactory | None, progress: Progress) -> _Loading:
        loader = loaders(resources.store, resources.embeddings) if loaders is not None else None
        settings = resources.settings
        several = IN_FLIGHT * len(settings.store.urls) if loader is not None else IN_FLIGHT
        return cls(progress, Faults.from_environment(), loader, settings.index.loaders or several)


def _sync(resources: SyncResources, how: _Loading, *, build: bool) -> SyncReport:
    started = time.perf_counter()
    progress, faults = how.progress, how.faults
    chosen = _chosen(resources.catalog)
    targets = make_targets(resources)
    resources.catalog.renew_facts(FACTS_VERSION)
    before = resources.store.aliases()
    reports: list[CollectionReport] = []
    ready: list[Target] = []
    try:
        for target in targets:
            reports.append(_bring_in_line(resources, target, before, how, build=build))
            ready.append(target)
    except EmbeddingsDamagedError as error:
        slice_id, part = error.details.get("slice_id"), error.details.get("part")
        if slice_id and part:  # the next index run then makes it again
            resources.catalog.forget_receipts(str(slice_id), [str(part)])
        raise
    faults.reach("before-promotion")
    dropped: list[str] = []
    if _chosen(resources.catalog) == chosen:  # if versions were changed meanwhile, the process that changed them promotes
        for target in ready:
            progress(ProgressEvent(RunStage.PROMOTE, detail=target.collection))
            if target.promoted and before.get(target.alias) != target.collection:
                resources.store.set_alias(target.alias, target.collection)
        for alias in before:
            if is_fused(alias) and all(target.alias != alias for target in targets):
                resources.store.drop_alias(alias)  # the settings no longer want it, or the collection became small
        dropped = _drop_retired(resources, targets, keep=set(before.values()) | retained_collections(resources.catalog))
        _drop_dangling(resources.store)
    tags_damage = mend(resources.catalog, resources.store)
    deliver(resources.catalog, resources.store, most=None if build else _DELIVERED_MEANWHILE)
    _forget_removed(resources, targets)
    resources.store.settle()
    return SyncReport(tuple(reports), tuple(dropped), time.perf_counter() - started, tags_damage)


def _forget_removed(resources: SyncResources, targets: Iterable[Target]) -> None:
    """Erase what is left of removed pictures once every collection has deleted their points."""
    if COLLECTION in resources.store.collections():
        resources.store.erase(COLLECTION, now=False)
    if resources.catalog.forget_tombstones([target.collection for target in targets]):
        resources.catalog.erase_free_space()


def _chosen(catalog: Catalog) -> tuple[object, ...]:
    """Return the rows that say which versions of spaces are in force."""
    return catalog.overrides(), catalog.active_artifact(BRIDGE)


def make_targets(resources: SyncResources) -> list[Target]:
    """Return all collections that the home should have now, as targets that make their points."""
    standby_projections = resources.standby_projections()
    extra = resources.extra_backbones() if standby_projections else []
    parts = SliceParts.of([*resources.backbones(), *extra], resources.text_encoder)
    embeddings, catalog = resources.embeddings, resources.catalog
    spaces = {
        name: SpaceTarget(catalog=catalog, embeddings=embeddings, parts=parts, projection=projection)
        for name, projection in resources.projections().items()
    }
    captions = CaptionTarget(catalog=catalog, embeddings=embeddings, parts=parts, encoder=resources.text_encoder)
    targets: list[Target] = list(spaces.values())
    targets += [
        SpaceTarget(catalog=catalog, embeddings=embeddings, parts=parts, projection=projection, promoted=False)
        for projection in standby_projections.values()
    ]
    compositions = all_compositions(resources.settings.compositions, resources.profile)
    fused = fused_targets(list(compositions.values()), spaces, captions, existing=resources.store.aliases())
    return [*targets, captions, *fused]


def rebuild_empty(resources: SyncResources, target: Target) -> None:
    """Put an empty collection in the place of a damaged one; the next sync loads it. Searches find less until then.

    Raises:
        StoreError: the store failed.
    """
    store = resources.store
    aliases = [alias for alias, collection in store.aliases().items() if collection == target.collection]
    store.drop(target.collection)
    resources.catalog.forget_loads(target.collection)
    store.create(target.spec(resources.settings.store, resources.profile))
    for alias in aliases:
        store.set_alias(alias, target.collection)


def _bring_in_line(
    resources: SyncResources, target: Target, aliases: dict[str, str], how: _Loading, *, build: bool
) -> CollectionReport:
    try:
        return _fill(resources, target, aliases, how, build=build)
    except CollectionDamagedError as error:
        if error.details.get("collection") != target.collection:
            raise
        _log.info("%s: it is rebuilt from the Parquet files", error.message)
        rebuild_empty(resources, target)
        report = _fill(resources, target, aliases, how, build=build)
        return replace(report, damage=error.message)


def _fill(resources: SyncResources, target: Target, aliases: dict[str, str], how: _Loading, *, build: bool) -> CollectionReport:
    started = time.perf_counter()
    catalog, store = resources.catalog, resources.store
    if target.collection not in store.collections():
        catalog.forget_loads(target.collection)  # the catalog may remember a store that was deleted
    settings = resources.settings.store
    store.create(target.spec(settings, resources.profile))
    loaded, deleted, problem = _catch_up(resources, target, how)
    if problem is not None:
        _repair(resources, target)
        more, gone, problem = _catch_up(resources, target, how)
        loaded, deleted = loaded + more, deleted + gone
    if problem is not None:
        raise problem
    built = build and _build_if_large(store, target, settings, how.progress)
    store.erase(target.collection, now=False)
    return CollectionReport(
        alias=target.alias,
        collection=target.collection,
        loaded=loaded,
        deleted=deleted,
        points=store.count(target.collection),
        built=built,
        promoted=target.promoted and aliases.get(target.alias) != target.collection,
        seconds=time.perf_counter() - started,
    )


def _catch_up(resources: SyncResources, target: Target, how: _Loading) -> tuple[int, int, StoreError | None]:
    """Carry out what the catalog asks for until the collection holds it.

    Runs of other corpora go on writing to the catalog. What they record between loading and verifying looks like a loss and is
    none: as long as there is something new to carry out, it is carried out and compared again.

    Returns:
        Points loaded, pictures deleted, and the remaining difference or None.
    """
    loaded = deleted = 0
    problem: StoreError | None = None
    for _ in range(_ROUNDS):
        gone = _apply_tombstones(resources, target)
        new = load(resources.store, target, progress=how.progress, faults=how.faults, loader=how.loader, loaders=how.width)
        loaded, deleted = loaded + new, deleted + gone
        before, problem = problem, verify(resources.store, target, progress=how.progress)
        if problem is None or (before is not None and new == gone == 0):
            break
    return loaded, deleted, problem


def _apply_tombstones(resources: SyncResources, target: Target) -> int:
    deleted = 0
    for ids in _batches(resources.catalog.tombstones(target.collection)):
        target.delete(resources.store, ids)
        resources.catalog.mark_deleted(target.collection, ids)
        deleted += len(ids)
    return deleted


def _batches(ids: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(ids)
    while batch := list(islice(remaining, _DELETE_BATCH)):
        yield batch


def _repair(resources: SyncResources, target: Target) -> None:
    """Mark everything as not loaded and delete points that the catalog does not know, after a lost disk or manual changes."""
    resources.catalog.forget_loads(target.collection)
    delete_orphan_points(resources.store, target)


def _build_if_large(store: VectorStore, target: Target, settings: StoreSettings, progress: Progress) -> bool:
    points = store.count(target.collection)
    if points < settings.build_threshold or store.outside_graph(target.collection) <= _UNINDEXED_SHARE * points:
        return False
    meter = Meter(progress, RunStage.BUILD, total=points, detail=target.collection)
    store.build(target.collection)
    meter.add(points)
    return True


def _drop_dangling(store: VectorStore) -> None:
    """Drop aliases of collections that do not exist: by now every space in use has its collection."""
    existing = set(store.collections())
    for alias, collection in store.aliases().items():
        if collection not in existing:
            _log.warning("alias %s pointed at collection %s, which is not there; forgotten", alias, collection)
            store.drop_alias(alias)


def _drop_retired(resources: SyncResources, targets: Iterable[Target], *, keep: set[str]) -> list[str]:
    """Drop other versions of the collections of targets and tags, except those that had an alias when the sync began."""
    current = {target.alias: target.collection for target in targets if target.promoted} | {TAGS: COLLECTION}
    dropped: list[str] = []
    for name in resources.store.collections():
        alias = name.rpartition("-")[0]
        if (alias in current or is_fused(name)) and name != current.get(alias) and name not in keep:
            resources.store.drop(name)
            resources.catalog.forget_loads(name)
            dropped.append(name)
    return dropped
