"""Comparison of the files below a root with the catalog: it decides which pictures are new, changed, moved or gone.

Files that have the size and time of an embedded picture are left alone; others are hashed. The same content at the same place
only updates the stored time. Content of a picture that vanished means that the picture moved: it keeps its id. The same holds
for pictures that changed places with each other (move_detection.py). Any other content makes the picture pending again. New
files get ids. All decisions are written to the catalog batch by batch, so a killed run loses nothing but its position.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Root
from lodestone.errors import ImageError, LodestoneError, ManifestChangedError, SourceError
from lodestone.files.beneath import Boundaries
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import Meter
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.indexing.scan.interrupted_runs import cut_short_since
from lodestone.indexing.scan.listing import Survey
from lodestone.indexing.scan.mounts import Mounts, vanished
from lodestone.indexing.scan.move_detection import (
    ChangedFile,
    Exchanges,
    edited_picture,
    likeliest,
    moved_over,
    put,
    revived,
    touched,
)
from lodestone.indexing.scan.scan_scopes import distinct
from lodestone.indexing.scan.scan_writer import ScanWriter
from lodestone.indexing.scan.scope import ScanScope
from lodestone.indexing.scan.tally import Changes, all_denied
from lodestone.sources.base import FoundFile, UnreadablePath
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.exclusion import Exclusion
from lodestone.sources.folders import discover
from lodestone.sources.reading import Reader
from lodestone.sources.uris import path_of, relative_path_of, uri_of

BATCH: Final = 1000  # files that are compared with the catalog at a time


@dataclass(slots=True)
class ChangeFinder:
    """Updates the catalog's pictures of some scopes to match the files.

    Attributes:
        catalog: Read and written.
        run_id: Stored in failure rows.
        recaptioner: Compares captions beside the pictures with the catalog's.
        faults: Testing aid that kills the process at named points.
        retry_failed: Also retry pictures that failed and have not changed.
        boundaries: What may be opened of the roots, and whether links are followed.
        threads: Number of files hashed at once.
        reader: Reads the files, also from object stores.
        mounts: Disks that were seen inside directories.
        changes: Counts of what was found, filled by `update`.
    """

    catalog: Catalog
    run_id: str
    recaptioner: Recaptioner
    faults: Faults
    retry_failed: bool = False
    boundaries: Boundaries = field(default_factory=Boundaries)
    threads: int = 2
    reader: Reader = field(default_factory=Reader)
    mounts: Mounts = field(default_factory=Mounts)
    changes: Changes = field(default_factory=Changes)
    _denied: int = 0
    _readable: int = 0
    _exclusions: dict[str, Exclusion] = field(default_factory=dict)  # by root
    _exchanges: Exchanges = field(init=False)
    _writer: ScanWriter = field(init=False)

    def __post_init__(self) -> None:
        self._writer = ScanWriter(self.catalog, self.run_id, self.changes.counts)
        self._exchanges = Exchanges(self.catalog, since=cut_short_since(self.catalog, self.run_id))

    def update(self, scopes: Sequence[ScanScope], meter: Meter, expect: Callable[[int], None]) -> None:
        """Update the catalog for all scopes of a run: list them, mark what vanished, enter what was listed.

        If a listing breaks off, the files listed so far are entered and no picture of that scope is marked as gone.

        Args:
            scopes: Parts of roots; of overlapping ones only the outer ones are scanned.
            meter: Counts each batch.
            expect: Called after each batch with the number of pictures that this run will have to embed.

        Raises:
            SourceError: a source cannot be listed to its end, or every read from one is denied.
            ManifestChangedError: a table or archive changed while it was read.
        """
        scopes = distinct(scopes)
        broken: list[LodestoneError] = []
        with ExitStack() as stack:
            surveys: list[tuple[ScanScope, Survey, bool]] = []
            for scope in scopes:
                survey = stack.enter_context(Survey())
                complete = True
                try:
                    around = next((other.path for other in scopes if scope.path in other.others), Path(scope.root.path))
                    survey.take(self.walk(scope, around=around), scope.uri, step=lambda _: meter.add(0))
                except (SourceError, ManifestChangedError) as error:
                    broken.append(error)
                    complete = False
                surveys.append((scope, survey, complete))
            self.changes.left_out.update(self._left_out())
            for scope, survey, complete in surveys:
                if complete:
                    self.mark_deleted(scope, survey)
            for scope, survey, _ in surveys:
                self._denied = self._readable = 0
                self.scan(scope, survey, meter, expect)
                if self._denied and not self._readable:
                    broken.append(all_denied(scope, self._denied))
        if self._exchanges.waiting:
            self._exchange(scopes[0].root.corpus_id)
            expect(self._expected())
        # Last, because what a killed run leaves unsettled is scanned again.
        for scope in (scope for scope, _, complete in surveys if complete):
            meter.add(self._settle(scope))
        if broken:
            raise broken[0]

    def scan(self, scope: ScanScope, survey: Survey, meter: Meter, expect: Callable[[int], None]) -> None:
        """Enter the scope's files in the catalog, after `mark_deleted` of all scopes, so that moves are recognised."""
        for batch in survey.batches(BATCH):
            failures = self._enter(scope, batch)
            self.faults.reach("discovering")
            meter.add(len(batch), failures=failures)
            expect(self._expected())

    def _expected(self) -> int:
        return sum(self.changes.counts[kind] for kind in ("new", "changed", "retried")) + len(self._exchanges.waiting)

    def walk(self, scope: ScanScope, *, around: Path) -> Iterator[FoundFile]:
        """Yield the scope's files; unreadable folders become failure rows. `around` is the directory around the scope."""
        if scope.vanished:
            return iter(())
        if scope.source is not None:
            return scope.source.items(
                lambda found: self._writer.fail(scope.root, found.uri, found.code, found.message), reread=self.retry_failed
            )

        def report(unreadable: UnreadablePath) -> None:
            relative = relative_path_of(unreadable.uri)
            uri = uri_of(f"{scope.prefix}/{relative}" if scope.prefix else relative)
            self._writer.fail(scope.root, uri, "unreadable", unreadable.message)

        found = discover(
            scope.path,
            follow_symlinks=self.boundaries.follow_symlinks,
            on_unreadable=report,
            skip=scope.other_inodes(),
            within=enclosure_of(scope.root, self.boundaries),
            exclusion=self._exclusion(scope.root),
            prefix=scope.prefix.replace(os.sep, "/"),
        )
        return self.mounts.watching(found, scope.path, around=around)

    def _exclusion(self, root: Root) -> Exclusion:
        """Return what is left out of a directory; it is read once a run, so that listing and comparison agree."""
        if root.root_id not in self._exclusions:
            within = enclosure_of(root, self.boundaries)
            self._exclusions[root.root_id] = Exclusion(root.path, self.boundaries, patterns=root.patterns, within=within)
        return self._exclusions[root.root_id]

    def _left_out(self) -> Counter[str]:
        return sum((exclusion.counts for exclusion in self._exclusions.values()), Counter[str]())

    def mark_deleted(self, scope: ScanScope, survey: Survey) -> None:
        """Mark the scope's pictures as gone that vanished or now belong to another root."""
        if scope.is_file:
            return
        images = self.catalog.images_of_root(scope.root.root_id)
        while batch := list(islice(images, BATCH)):
            covered = [image for image in batch if image.state is not ImageState.GONE and scope.covers(image.uri)]
            seen = survey.saw([image.uri for image in covered])
            unseen = [image for image, listed in zip(covered, seen, strict=True) if not listed]
            self._mark_gone(scope, [image for image in unseen if self._is_gone(scope, image.uri)])

    def _is_gone(self, scope: ScanScope, uri: str) -> bool:
        """Return whether a picture that was not listed is gone. On disk, an unreadable folder may merely hide it."""
        if scope.source is not None:
            return not scope.source.settled.keeps(uri)
        path = path_of(Path(scope.root.path), uri)
        if scope.leaves(path) or self._exclusion(scope.root).leaves_out(relative_path_of(uri).replace(os.sep, "/")):
            return True
        if not vanished(path):
            return False
        if (point := self.mounts.missing(path)) is not None:
            self.changes.away[point] += 1
            self.changes.counts["away"] += 1
            return False
        return True

    def _settle(self, scope: ScanScope) -> int:
        """Store listed archives and tables, remove vanished ones; return the number of pictures in the unchanged ones."""
        source, root_id = scope.source, scope.root.root_id
        if source is None:
            return 0
        settled = source.settled
        self.catalog.put_containers([replace(container, root_id=root_id) for container in settled.listed])
        self.catalog.remove_containers(root_id, source.vanished_containers(self.catalog.containers(root_id)))
        unchanged = sum(container.items for container in settled.unchanged)
        self.changes.counts["unchanged"] += unchanged
        return unchanged

    def _mark_gone(self, scope: ScanScope, gone: Sequence[ImageRecord]) -> None:
        if not gone:
            return
        self.catalog.mark_gone([image.image_id for image in gone])
        self._exchanges.vanished(image.image_id for image in gone)
        self.catalog.clear_failures(scope.root.root_id, [image.uri for image in gone])
        self.changes.counts["gone"] += len(gone)
        self.changes.left.update(image.hash for image in gone)

    def _enter(self, scope: ScanScope, batch: Sequence[FoundFile]) -> int:
        uris = [scope.uri(found) for found in batch]
        known = self.catalog.images_by_uri(scope.root.root_id, uris)
        updates: dict[str, ImageRecord] = {}
        to_hash: list[tuple[str, FoundFile]] = []
        for uri, found in zip(uris, batch, strict=True):
            image = known.get(uri)
            if image is None or image.state is ImageState.GONE or not _same_stat(image, found):
                to_hash.append((uri, found))
            elif image.state is ImageState.FAILED and self.retry_failed:
                updates[image.image_id] = replace(image, state=ImageState.PENDING, slice_id=None)
                self.changes.fresh.add(image.image_id)
                self.changes.counts["retried"] += 1
            else:
                self.changes.counts["unchanged"] += 1
        self._readable += len(batch) - len(to_hash)
        hashed: list[tuple[str, FoundFile, str]] = []
        failed = 0
        within = enclosure_of(scope.root, self.boundaries)
        files = [found for _, found in to_hash]
        hashes = self.reader.identify(files, threads=self.threads, within=within) if to_hash else iter(())
        for (uri, found), result in zip(to_hash, hashes, strict=True):
            if isinstance(result, ImageError):
                failed += 1
                self._denied += result.details.get("reason") == "denied"
                self.changes.counts["unreadable"] += 1
                self._writer.fail(
                    scope.root, uri, str(result.details.get("reason", result.code)), result.message, known.get(uri)
                )
            else:
                self._readable += 1
                hashed.append((uri, found, result))
        waited = len(self._exchanges.waiting)
        new = self._decide(scope, hashed, known, updates)
        before = {image.image_id: image.hash for image in known.values()}
        edited = [i for i, new in updates.items() if before.get(i, new.hash) != new.hash]
        refused = self._writer.store(scope.root, updates, new, edited)
        failed += len(refused)
        living = {image.uri: image for image in (*known.values(), *updates.values(), *new) if image.image_id not in refused}
        waiting = {altered.uri for altered in self._exchanges.waiting[waited:]}
        self._writer.recaption(
            self.recaptioner,
            scope.root,
            [(living[uri], found) for uri, found in zip(uris, batch, strict=True) if uri in living and uri not in waiting],
        )
        return failed

    def _decide(
        self,
        scope: ScanScope,
        hashed: Sequence[tuple[str, FoundFile, str]],
        known: dict[str, ImageRecord],
        updates: dict[str, ImageRecord],
    ) -> list[ImageRecord]:
        """Write the new rows of known pictures to `updates`; return the rows of new pictures."""
        root, counts = scope.root, self.changes.counts
        unknown = [h for uri, _, h in hashed if uri not in known or known[uri].state is ImageState.GONE]
        movable = self.catalog.gone_by_hash(root.corpus_id, unknown) if unknown else {}
        just_gone = self._exchanges.just_gone(root.corpus_id, movable) if movable else {}
        fresh: list[tuple[str, FoundFile, str]] = []
        for uri, found, content in hashed:
            image = known.get(uri)
            if image is not None and image.hash == content:
                if image.image_id in updates:  # this run moved it elsewhere, and a copy is in its old place
                    fresh.append((uri, found, content))
                    continue
                updated = touched(image, found)
                candidate = moved_over(image, just_gone.get(content, ()), updates, found)
                if candidate is not None:
                    counts["moved"] += 1
                    updates[candidate.image_id] = put(candidate, root.root_id, uri, found)
                    continue
                if image.state is ImageState.GONE:
                    counts["back"] += 1
                    updated = revived(updated)
                else:
                    counts["touched"] += 1
                updates[image.image_id] = updated
                continue
            if image is not None and image.state is not ImageState.GONE:
                self._queue_altered(ChangedFile(root, uri, found, content, image), updates)
                continue
            candidates = [c for c in movable.get(content, ()) if c.image_id not in updates]
            if (candidate := likeliest(candidates, uri, found)) is not None:
                counts["moved"] += 1
                updates[candidate.image_id] = put(candidate, root.root_id, uri, found)
            elif image is not None and image.image_id not in updates:  # other content at a vanished picture's place
                self._queue_altered(ChangedFile(root, uri, found, content, image), updates)
            else:
                fresh.append((uri, found, content))
        return self._mint(root, fresh)

    def _queue_altered(self, altered: ChangedFile, updates: dict[str, ImageRecord]) -> None:
        """Queue a file whose content differs from its picture's; when the queue is full, treat the picture as edited."""
        if not self._exchanges.take(altered):
            self.changes.counts["changed"] += 1
            self.changes.left.add(altered.image.hash)
            updates[altered.image.image_id] = edited_picture(altered.image, altered.found, altered.content)

    def _mint(self, root: Root, fresh: Sequence[tuple[str, FoundFile, str]]) -> list[ImageRecord]:
        """Return rows for files that have no picture yet."""
        self.changes.counts["new"] += len(fresh)
        minted = self.catalog.mint_image_ids(root.corpus_id, root.name, [uri for uri, _, _ in fresh])
        self._exchanges.entered(minted.values())
        return [
            ImageRecord(
                image_id=minted[uri],
                corpus_id=root.corpus_id,
                root_id=root.root_id,
                uri=uri,
                hash=content,
                size=found.size,
                mtime_ns=found.mtime_ns,
                state=ImageState.PENDING,
                position=found.position,
            )
            for uri, found, content in fresh
        ]

    def _exchange(self, corpus_id: str) -> None:
        """Decide about the queued files, whose content differs from their pictures', and write the result."""
        outcome = self._exchanges.settle(corpus_id)
        counts = self.changes.counts
        self.catalog.update_images(outcome.updates, gone=[image.image_id for image in outcome.lost], edited=outcome.edited)
        files = list(outcome.files)
        for root in {file.root.root_id: file.root for file in outcome.fresh}.values():
            fresh = {
                file.uri: (file.uri, file.found, file.content) for file in outcome.fresh if file.root.root_id == root.root_id
            }
            minted = self._mint(root, list(fresh.values()))
            refused = self._writer.store(root, {}, minted, ())
            files += [(image, fresh[image.uri][1]) for image in minted if image.image_id not in refused]
        for start in range(0, len(files), BATCH):
            part = files[start : start + BATCH]
            for root_id in dict.fromkeys(image.root_id for image, _ in part):
                self._writer.recaption(
                    self.recaptioner, self.catalog.root(root_id), [pair for pair in part if pair[0].root_id == root_id]
                )
        counts["moved"] += outcome.moved
        counts["changed"] += len(outcome.edited)
        counts["new"] -= outcome.unmade
        counts["unchanged"] -= outcome.recognised
        counts["gone"] += len(outcome.lost) - outcome.unmade - outcome.recognised
        self.changes.left.update(outcome.left)


def _same_stat(image: ImageRecord, found: FoundFile) -> bool:
    return image.size == found.size and image.mtime_ns == found.mtime_ns
