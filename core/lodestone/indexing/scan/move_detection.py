"""Recognition of pictures that changed places: two names swapped, a series renumbered, one file moved over another.

A picture's id follows its content. A file whose content differs from its picture's was edited, unless another picture lost that
content in the same run: then that picture has moved here. This is only known once all files were scanned, so such files are
queued until then. Files where a vanished picture was are queued too: a series may be renumbered over a gap.

Nothing is written before everything is decided, so after a killed run the next run comes to the same decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Root
from lodestone.sources.base import FoundFile
from lodestone.sources.digests import Digests
from lodestone.sources.uris import name_of

MOST: Final = 50_000  # files that may be queued at once, a kilobyte each; further ones count as edited


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with other content than its picture has in the catalog.

    Attributes:
        root: Root that the file belongs to.
        uri: Name of the file inside the root.
        found: The file as it was listed.
        content: BLAKE3 hex of the file's content.
        image: The picture that the catalog has at this place.
    """

    root: Root
    uri: str
    found: FoundFile
    content: str
    image: ImageRecord


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Decisions about the queued files, in the order in which they have to be written.

    Attributes:
        lost: Pictures whose files were overwritten, and new pictures that turned out to be moved ones.
        updates: Moved and edited pictures.
        fresh: Files that need a new picture, because theirs moved away.
        files: Files with the pictures that they have now, except those of `fresh`.
        left: Content hashes that overwritten and edited pictures had.
        edited: Ids of pictures with other content.
        moved: Number of pictures that changed places.
        unmade: Number of pictures that were counted as new and are moved ones.
        recognised: Number of moved pictures that were counted as unchanged, because an interrupted run had entered them.
    """

    lost: tuple[ImageRecord, ...] = ()
    updates: tuple[ImageRecord, ...] = ()
    fresh: tuple[ChangedFile, ...] = ()
    files: tuple[tuple[ImageRecord, FoundFile], ...] = ()
    left: frozenset[str] = frozenset()
    edited: tuple[str, ...] = ()
    moved: int = 0
    unmade: int = 0
    recognised: int = 0


@dataclass(slots=True)
class Exchanges:
    """Queue of one run's files with other content, with the ids of pictures that the run entered as new or found gone.

    Attributes:
        catalog: Searched for other pictures with the same contents.
        since: Start of the first of the interrupted runs directly before this one; None when the previous run completed.
        waiting: The queued files.
    """

    catalog: Catalog
    since: datetime | None = None
    waiting: list[ChangedFile] = field(default_factory=list)
    _new: Digests = field(default_factory=Digests)
    _gone: Digests = field(default_factory=Digests)

    def take(self, altered: ChangedFile) -> bool:
        """Queue a file; return False when the queue is full."""
        if len(self.waiting) >= MOST:
            return False
        self.waiting.append(altered)
        return True

    def entered(self, image_ids: Iterable[str]) -> None:
        """Remember the ids of pictures that are new in this run."""
        self._new.add(image_ids)

    def vanished(self, image_ids: Iterable[str]) -> None:
        """Remember the ids of pictures that were found gone in this run: a queued file may be one of them."""
        self._gone.add(image_ids)

    def settle(self, corpus_id: str) -> Exchanged:
        """Decide about all queued files, once every file was scanned. Writes nothing to the catalog."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return Exchanged()
        away = self._revived(waiting)
        moves, edited = self._moves(corpus_id, waiting)
        taken = away | {image.image_id for _, image in moves}
        overwritten = [altered.image for altered, _ in moves if altered.image.image_id not in taken]
        elsewhere = self._entered_elsewhere(corpus_id, overwritten, except_for={altered.image.image_id for altered in waiting})
        entered_now = self._new.hold([place.image_id for place in elsewhere.values()]).sum()
        updates = [(put(image, altered.root.root_id, altered.uri, altered.found), altered.found) for altered, image in moves]
        changed = [altered for altered in edited if altered.image.image_id not in taken]
        updates += [(edited_picture(altered.image, altered.found, altered.content), altered.found) for altered in changed]
        for image in overwritten:
            if (place := elsewhere.get(image.image_id)) is not None:
                found = FoundFile(place.uri, "", place.size, place.mtime_ns, position=place.position, captions=())
                updates.append((put(image, place.root_id, place.uri, found), found))
        lost = [image for image in overwritten if image.image_id not in elsewhere]
        return Exchanged(
            lost=(*(image for image in lost if image.state is not ImageState.GONE), *elsewhere.values()),
            updates=tuple(image for image, _ in updates),
            fresh=tuple(altered for altered in edited if altered.image.image_id in taken),
            files=tuple((image, found) for image, found in updates if found.locator),
            left=frozenset([*(image.hash for image in lost), *(altered.image.hash for altered in changed)]),
            moved=len(moves) + len(elsewhere),
            edited=tuple(altered.image.image_id for altered in changed),
            unmade=int(entered_now),
            recognised=len(elsewhere) - int(entered_now),
        )

    def _revived(self, waiting: Sequence[ChangedFile]) -> set[str]:
        """Return the ids of vanished pictures whose places have queued files and that were found elsewhere in the meantime."""
        places = {altered.image.image_id: altered for altered in waiting if altered.image.state is ImageState.GONE}
        current = self.catalog.images(places)
        return {image_id for image_id in places if image_id not in current or current[image_id].state is not ImageState.GONE}

    def _moves(
        self, corpus_id: str, waiting: Sequence[ChangedFile]
    ) -> tuple[list[tuple[ChangedFile, ImageRecord]], list[ChangedFile]]:
        """Return queued files with the pictures that moved there, and the files whose content no other picture lost."""
        lost: dict[str, list[ImageRecord]] = defaultdict(list)
        gone = self.catalog.gone_by_hash(corpus_id, {altered.content for altered in waiting})
        for content, pictures in self.just_gone(corpus_id, gone).items():
            lost[content] += pictures
        for altered in waiting:
            if altered.image.state not in (ImageState.FAILED, ImageState.GONE):
                lost[altered.image.hash].append(altered.image)
        moves: list[tuple[ChangedFile, ImageRecord]] = []
        rest: list[ChangedFile] = []
        for altered in waiting:
            picture = likeliest(lost[altered.content], altered.uri, altered.found)
            if picture is None:
                rest.append(altered)
            else:
                lost[altered.content].remove(picture)
                moves.append((altered, picture))
        return moves, rest

    def just_gone(self, corpus_id: str, found: Mapping[str, Sequence[ImageRecord]]) -> dict[str, list[ImageRecord]]:
        """Return those gone pictures (by content, from `gone_by_hash`) that vanished in this run or in an interrupted one.

        A picture that has been gone for longer did not move: its content in another file is an edit of that file.
        """
        gone = [picture for pictures in found.values() for picture in pictures]
        recent = {
            picture.image_id
            for picture, is_recent in zip(gone, self._gone.hold([p.image_id for p in gone]), strict=True)
            if is_recent
        }
        if self.since is not None:
            cut_short = self.catalog.gone_by_hash(corpus_id, found, since=self.since)
            recent.update(picture.image_id for pictures in cut_short.values() for picture in pictures)
        return {content: [p for p in pictures if p.image_id in recent] for content, pictures in found.items()}

    def _entered_elsewhere(
        self, corpus_id: str, overwritten: Sequence[ImageRecord], *, except_for: Collection[str]
    ) -> dict[str, ImageRecord]:
        """Map the ids of overwritten pictures to the pictures that were entered for the same content at a new place.

        Only this run, or an interrupted one before it, can have entered pictures that are in no slice.
        """
        wanted: dict[str, list[ImageRecord]] = defaultdict(list)
        for picture in overwritten:
            wanted[picture.hash].append(picture)
        replacements: dict[str, ImageRecord] = {}
        for content, places in self.catalog.entered_by_hash(corpus_id, wanted).items():
            free = [place for place in places if place.image_id not in except_for]
            replacements.update((picture.image_id, place) for picture, place in zip(wanted[content], free, strict=False))
        return replacements


def likeliest(candidates: Sequence[ImageRecord], uri: str, found: FoundFile) -> ImageRecord | None:
    """Return the lost picture that a file most likely is, among those of equal content: same name first, then same time."""
    if not candidates:
        return None
    return min(candidates, key=lambda candidate: (name_of(candidate.uri) != name_of(uri), candidate.mtime_ns != found.mtime_ns))


def moved_over(
    image: ImageRecord, just_gone: Sequence[ImageRecord], taken: Collection[str], found: FoundFile
) -> ImageRecord | None:
    """Return the picture of the same content that moved in this run to where a picture was deleted long ago, if any."""
    if image.state is not ImageState.GONE or any(candidate.image_id == image.image_id for candidate in just_gone):
        return None
    return likeliest([candidate for candidate in just_gone if candidate.image_id not in taken], image.uri, found)


def edited_picture(image: ImageRecord, found: FoundFile, content: str) -> ImageRecord:
    """Return the picture's row with other content, to be embedded again."""
    return replace(
        image,
        hash=content,
        size=found.size,
        mtime_ns=found.mtime_ns,
        state=ImageState.PENDING,
        slice_id=None,
        width=0,
        height=0,
        position=found.position,
        metadata_version=0,
    )


def touched(image: ImageRecord, found: FoundFile) -> ImageRecord:
    """Return the row of a picture whose file has another time and the same content; an unreadable header is tried again."""
    return replace(
        image,
        size=found.size,
        mtime_ns=found.mtime_ns,
        position=found.position,
        metadata_version=max(image.metadata_version, 0),
    )


def revived(image: ImageRecord) -> ImageRecord:
    """Return the row of a vanished picture that exists again: active if it had been embedded, else pending."""
    finished = image.slice_id is not None and image.width > 0
    return replace(image, state=ImageState.ACTIVE) if finished else replace(image, state=ImageState.PENDING, slice_id=None)


def put(picture: ImageRecord, root_id: str, uri: str, found: FoundFile) -> ImageRecord:
    """Return the picture's row at another place."""
    moved = replace(touched(picture, found), root_id=root_id, uri=uri)
    return revived(moved) if picture.state is ImageState.GONE else moved
