"""Consistency check of files, catalog, embeddings and store, with the remedy for each difference.

It runs when the service starts and in `lodestone doctor`, and changes nothing. A problem has one of two remedies: a sync, which
loads stored outputs and runs no model, or an index run, which embeds what has no stored outputs. Folders that cannot be reached
(an unplugged disk) are reported and left alone.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lodestone.catalog.records import ImageRecord, ImageState, Root, SliceRecord
from lodestone.errors import CollectionDamagedError, EmbeddingsDamagedError, LodestoneError, StoreError
from lodestone.facts.facts import VERSION as FACTS_VERSION
from lodestone.files.bounds import changed_ns
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import silent
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.sync.collections import SyncResources, make_targets, rebuild_empty
from lodestone.indexing.sync.targets import Target
from lodestone.indexing.sync.verify import verify
from lodestone.sources.uris import path_of

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

FOLDER: Final = "folder"
_STATS_A_ROOT: Final = 20_000  # pictures of one directory whose files are checked; in a larger one, those of some slices
_SLICES_SAMPLED: Final = 80
_REMOTE_SLICES: Final = 200  # slices whose files are checked where each takes a request
_SHOWN: Final = 3

Remedy = Literal["sync", "resume", "index", "none"]
"""What puts a problem right.

The values are `sync`; `resume`, an index run that finishes what is planned; `index`, one that also searches for files; and
`none`, where only the user can help.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference that the check found.

    Attributes:
        part: Where it is: files, work, embeddings or store.
        what: Description in a sentence.
        remedy: What puts it right.
        corpus_id: Corpus of the pictures concerned, where there is one.
        root_id: Directory concerned, where there is one.
    """

    part: Literal["files", "work", "embeddings", "store"]
    what: str
    remedy: Remedy
    corpus_id: str = ""
    root_id: str = ""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Result of a check.

    Attributes:
        findings: The differences.
        damaged: (slice id, part) pairs whose files are missing or truncated.
        seconds: Duration of the check.
    """

    findings: tuple[Finding, ...] = ()
    damaged: tuple[tuple[str, str], ...] = field(
        default=(), repr=False
    )  # (slice id, part) whose files are missing or truncated
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.findings

    def needs(self, remedy: Remedy) -> bool:
        """Return whether any finding has this remedy."""
        return any(finding.remedy == remedy for finding in self.findings)


def examine_home(
    resources: SyncResources, *, files: bool = True, store: bool = True, stopped: Callable[[], bool] = lambda: False
) -> Consistency:
    """Compare files, catalog, embeddings and store with each other, without changing anything.

    Args:
        resources: An opened home.
        files: Also check the pictures' own files.
        store: Also check the collections; this opens the store.
        stopped: Polled; once it returns True, the findings so far are returned.

    Raises:
        CatalogError: the catalog cannot be read.
        StoreLockedError: another process owns the store.
    """
    started = time.perf_counter()
    findings: list[Finding] = []
    damaged: list[tuple[str, str]] = []
    for slice_id, part, finding in _damaged_files(resources, stopped):
        damaged.append((slice_id, part))
        if len(damaged) <= _SHOWN:
            findings.append(finding)
    if len(damaged) > _SHOWN:
        findings.append(Finding("embeddings", f"and {len(damaged) - _SHOWN} more stored files are missing or cut", "index"))
    findings += _unfinished_work(resources)
    if files:
        for root in resources.catalog.roots(None):
            findings += _check_files(resources, root, stopped)
    if store and not stopped():
        for target in make_targets(resources):
            findings += [] if stopped() else _check_collection(resources, target)
    return Consistency(tuple(findings), tuple(damaged), time.perf_counter() - started)


def make_missing_collections(resources: SyncResources) -> list[str]:
    """Create empty collections in place of those that an alias names and the store lost or cannot open; return their names.

    Queries then find less until a sync has loaded them, instead of failing.
    """
    aliases = resources.catalog.alias_table().all() if resources.settings.store.kind == "edge" else resources.store.aliases()
    existing, lost = set(resources.store.collections()), []
    for target in make_targets(resources):
        if aliases.get(target.alias) != target.collection:
            continue
        if target.collection in existing:
            try:
                resources.store.info(target.collection)
            except CollectionDamagedError:
                rebuild_empty(resources, target)
                lost.append(target.collection)
        else:
            resources.catalog.forget_loads(target.collection)
            resources.store.create(target.spec(resources.settings.store, resources.profile))
            lost.append(target.collection)
    return lost


def forget_damaged(resources: SyncResources, consistency: Consistency) -> int:
    """Forget the receipts of damaged files, so that the next index run makes the files again; return their number."""
    for slice_id, part in consistency.damaged:
        resources.catalog.forget_receipts(slice_id, [part])
    return len(consistency.damaged)


def _damaged_files(resources: SyncResources, stopped: Callable[[], bool]) -> Iterator[tuple[str, str, Finding]]:
    """Yield receipts of slices in use whose file is missing or has another size."""
    catalog, area = resources.catalog, resources.embeddings
    parts = set(SliceParts.of(resources.backbones(), resources.text_encoder).names())
    for number, record in enumerate(catalog.slices()):
        if stopped() or (area.folder is None and number >= _REMOTE_SLICES):
            return
        receipts = [receipt for part, receipt in catalog.receipts(record.slice_id).items() if part in parts]
        wrong = [receipt for receipt in receipts if area.size(receipt.path) != receipt.size]
        if wrong and catalog.slice_images(record.slice_id):  # slices without living pictures are never read again
            for receipt in wrong:
                description = f"the stored file {receipt.path!r} of {receipt.rows} rows is missing or cut"
                yield record.slice_id, receipt.part, Finding("embeddings", description, "index", corpus_id=record.corpus_id)


def _unfinished_work(resources: SyncResources) -> Iterator[Finding]:
    catalog = resources.catalog
    if catalog.lacks_facts(FACTS_VERSION):
        yield Finding("work", "not all pictures can be asked for by place, time of the year and camera yet", "sync")
    parts = SliceParts.of(resources.backbones(), resources.text_encoder)
    embedded = replace(parts, further={}).names()
    offset = 0
    while page := catalog.corpora(offset):
        offset += len(page)
        for corpus in page:
            waiting = catalog.count_images(corpus.corpus_id, ImageState.PENDING)
            slices, rows = catalog.count_unfinished(embedded, corpus.corpus_id)
            if waiting or slices:
                description = f"{max(waiting, rows):,} pictures of the corpus {corpus.name!r} are not embedded yet"
                planned = waiting <= rows  # an interrupted run may leave pictures without a slice
                yield Finding("work", description, "resume" if planned else "index", corpus_id=corpus.corpus_id)
            for name, file in parts.further.items():
                lacking = catalog.count_unfinished((*embedded, file), corpus.corpus_id)[1] - rows
                if lacking:
                    description = f"{lacking:,} embedded pictures of the corpus {corpus.name!r} have no part {name!r} yet"
                    yield Finding("work", description, "resume", corpus_id=corpus.corpus_id)
            if misnoted := len(catalog.misnoted_slices(corpus.corpus_id)):
                description = (
                    f"what {misnoted:,} slices of the corpus {corpus.name!r} have is noted otherwise than their receipts say"
                )
                yield Finding("work", description, "index", corpus_id=corpus.corpus_id)


def _check_files(resources: SyncResources, root: Root, stopped: Callable[[], bool]) -> Iterator[Finding]:
    if root.kind != FOLDER:
        return  # checking each object costs a request: `lodestone index` lists them
    folder = Path(root.path)
    if not folder.is_dir():
        description = f"the directory {root.name!r} is not there: {root.path!r}"
        yield Finding("files", description, "none", root.corpus_id, root.root_id)
        return
    sampled = sum(resources.catalog.count_of_root(root.root_id).values()) > _STATS_A_ROOT
    images = _sample(resources.catalog, root) if sampled else resources.catalog.images_of_root(root.root_id)
    living = (image for image in images if image.state is not ImageState.GONE)
    disks = Mounts(resources.home.path / mounts.NAME)
    states = Counter(_file_state(folder, image, disks) for image in takewhile(lambda _: not stopped(), living))
    examined, vanished, changed = states.total(), states["vanished"], states["changed"]
    if stopped():
        return
    if states["away"]:
        description = (
            f"{states['away']:,} of {examined:,} files looked at below {root.path!r} lie on a disk that is not mounted"
        )
        yield Finding("files", description, "none", root.corpus_id, root.root_id)
    if examined and vanished == examined:
        description = f"none of the {examined:,} files looked at below {root.path!r} is there: is a disk missing?"
        yield Finding("files", description, "none", root.corpus_id, root.root_id)
    elif vanished or changed:
        share = f"of {examined:,} files looked at" if sampled else f"of {examined:,} files"
        description = f"{vanished:,} {share} of the directory {root.name!r} are gone, {changed:,} have changed"
        yield Finding("files", description, "index", root.corpus_id, root.root_id)


def _file_state(folder: Path, image: ImageRecord, disks: Mounts) -> str:
    path = path_of(folder, image.uri)
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "vanished" if disks.missing(path) is None else "away"
    except OSError:
        return "unknown"  # a file that cannot be examined has neither vanished nor changed
    return "same" if (status.st_size, changed_ns(status)) == (image.size, image.mtime_ns) else "changed"


def _sample(catalog: Catalog, root: Root) -> Iterator[ImageRecord]:
    """Yield the pictures of a few slices, drawn uniformly in one pass: a large directory has too many rows to read."""
    draw = random.Random(root.root_id)  # noqa: S311 - a sample, not a secret
    chosen: list[SliceRecord] = []
    for number, record in enumerate(catalog.slices(root.corpus_id)):
        if len(chosen) < _SLICES_SAMPLED:
            chosen.append(record)
        elif (place := draw.randrange(number + 1)) < _SLICES_SAMPLED:
            chosen[place] = record
    for record in chosen:
        yield from (image for image in catalog.slice_images(record.slice_id) if image.root_id == root.root_id)


def _check_collection(resources: SyncResources, target: Target) -> Iterator[Finding]:
    store = resources.store
    if target.collection not in store.collections():
        count, rows = resources.catalog.count_unloaded(f"{target.collection} (lost)", parts=target.required)
        if count:  # an empty catalog needs no collection
            yield Finding("store", f"the collection {target.collection!r} is not there: {rows:,} pictures to load", "sync")
        return
    _, rows = resources.catalog.count_unloaded(target.collection, parts=target.required)
    if rows:
        yield Finding("store", f"{rows:,} embedded pictures are not in the collection {target.collection!r} yet", "sync")
        return
    try:
        problem: LodestoneError | None = verify(store, target, progress=silent)
    except EmbeddingsDamagedError as error:
        yield Finding("embeddings", error.message, "index")
        return
    except StoreError as error:
        problem = error
    if problem is not None:
        yield Finding("store", problem.message, "sync")
