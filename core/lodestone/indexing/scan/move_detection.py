"""Which pictures changed places? Two names swapped, a series numbered anew, one file moved over another: ids follow contents.

A file with other content than its picture had was edited, unless the content is one that another picture lost in the same run:
then that picture lies here now. This can only be told once all files were looked at, so such files wait here until then. Files
where a vanished picture was wait too: a series may be numbered anew over a gap.

Nothing of this is written before all of it is decided, so a run that is killed leaves what the next one decides alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Root
from lodestone.indexing.scan.digests import Digests
from lodestone.sources.base import FoundFile
from lodestone.sources.uris import name_of

MOST: Final = 50_000  # files that may wait at once, a kilobyte each; more are taken for edited


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with other content than its picture has in the catalog."""

    root: Root
    uri: str
    found: FoundFile
    content: str
    image: ImageRecord


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What became of the files that waited, in the order in which it has to be written.

    Attributes:
        lost: Pictures whose files were overwritten, and new ones that turned out to be moved.
        updates: Moved and edited pictures.
        fresh: Files that need a picture of their own: theirs moved away.
        files: Files with the pictures that they have now, but for those of `fresh`.
        left: Content hashes that overwritten and edited pictures had.
        edited: Ids of pictures with other content.
        moved: How many pictures changed places.
        unmade: How many pictures that counted as new are moved ones.
        recognised: Likewise of those that counted as unchanged: a run that was cut short had entered them.
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
    """The files of one run that wait, and what it entered as new and found gone.

    Attributes:
        catalog: Asked for other pictures of the same contents.
        since: When the first of the runs began that were cut short before this one; None: the last one was not.
    """

    catalog: Catalog
    since: datetime | None = None
    waiting: list[ChangedFile] = field(default_factory=list)
    _new: Digests = field(default_factory=Digests)
    _gone: Digests = field(default_factory=Digests)

    def take(self, altered: ChangedFile) -> bool:
        """Let a file wait; false: there are too many already."""
        if len(self.waiting) >= MOST:
            return False
        self.waiting.append(altered)
        return True

    def entered(self, image_ids: Iterable[str]) -> None:
        """Remember pictures that are new in this run."""
        self._new.add(image_ids)

    def vanished(self, image_ids: Iterable[str]) -> None:
        """Remember pictures that were found gone in this run: an altered file may be one of them."""
        self._gone.add(image_ids)

    def settle(self, corpus_id: str) -> Exchanged:
        """Decide about all that wait; changes nothing. To be called once everything was looked at."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return Exchanged()
        away = self._revived(waiting)
        moves, edited = self._moves(corpus_id, waiting)
        taken = away | {picture.image_id for _, picture in moves}
        overwritten = [here.image for here, _ in moves if here.image.image_id not in taken]
        remote_stages = self._remote_stages(corpus_id, overwritten, except_for={here.image.image_id for here in waiting})
        made = self._new.hold([place.image_id for place in remote_stages.values()]).sum()
        updates = [(put(picture, here.root.root_id, here.uri, here.found), here.found) for here, picture in moves]
        changed = [here for here in edited if here.image.image_id not in taken]
        updates += [(edited_picture(here.image, here.found, here.content), here.found) for here in changed]
        for picture in overwritten:
            if (place := remote_stages.get(picture.image_id)) is not None:
                found = FoundFile(place.uri, "", place.size, place.mtime_ns, position=place.position, captions=())
                updates.append((put(picture, place.root_id, place.uri, found), found))
        lost = [picture for picture in overwritten if picture.image_id not in remote_stages]
        return Exchanged(
            lost=(*(picture for picture in lost if picture.state is not ImageState.GONE), *remote_stages.values()),
            updates=tuple(picture for picture, _ in updates),
            fresh=tuple(here for here in edited if here.image.image_id in taken),
            files=tuple((picture, found) for picture, found in updates if found.locator),
            left=frozenset([*(picture.hash for picture in lost), *(here.image.hash for here in changed)]),
            moved=len(moves) + len(remote_stages),
            edited=tuple(here.image.image_id for here in changed),
            unmade=int(made),
            recognised=len(remote_stages) - int(made),
        )

    def _revived(self, waiting: Sequence[ChangedFile]) -> set[str]:
        """Vanished pictures in whose places files wait, and that were found elsewhere meanwhile."""
        places = {here.image.image_id: here for here in waiting if here.image.state is ImageState.GONE}
        now = self.catalog.images(places)
        return {image_id for image_id in places if image_id not in now or now[image_id].state is not ImageState.GONE}

    def _moves(
        self, corpus_id: str, waiting: Sequence[ChangedFile]
    ) -> tuple[list[tuple[ChangedFile, ImageRecord]], list[ChangedFile]]:
        """Files with the pictures that moved there, and those that no other picture's content is in."""
        lost: dict[str, list[ImageRecord]] = defaultdict(list)
        gone = self.catalog.gone_by_hash(corpus_id, {here.content for here in waiting})
        for content, pictures in self.just_gone(corpus_id, gone).items():
            lost[content] += pictures
        for here in waiting:
            if here.image.state not in (ImageState.FAILED, ImageState.GONE):
                lost[here.image.hash].append(here.image)
        moves: list[tuple[ChangedFile, ImageRecord]] = []
        rest: list[ChangedFile] = []
        for here in waiting:
            picture = likeliest(lost[here.content], here.uri, here.found)
            if picture is None:
                rest.append(here)
            else:
                lost[here.content].remove(picture)
                moves.append((here, picture))
        return moves, rest

    def just_gone(self, corpus_id: str, found: Mapping[str, Sequence[ImageRecord]]) -> dict[str, list[ImageRecord]]:
        """Of gone pictures by content (`gone_by_hash`), those that vanished in this run, or in one that was cut short.

        One that had been gone for long has not moved: that its content is there again is an edit.
        """
        gone = [picture for pictures in found.values() for picture in pictures]
        recent = {
            picture.image_id for picture, now in zip(gone, self._gone.hold([p.image_id for p in gone]), strict=True) if now
        }
        if self.since is not None:
            cut_short = self.catalog.gone_by_hash(corpus_id, found, since=self.since)
            recent.update(picture.image_id for pictures in cut_short.values() for picture in pictures)
        return {content: [p for p in pictures if p.image_id in recent] for content, pictures in found.items()}

    def _remote_stages(
        self, corpus_id: str, overwritten: Sequence[ImageRecord], *, except_for: Collection[str]
    ) -> dict[str, ImageRecord]:
        """Overwritten pictures whose content lies at a new place: id -> the picture that was made for it there.

        By this run, or by one that was cut short: only these have entered pictures that are in no slice.
        """
        wanted: dict[str, list[ImageRecord]] = defaultdict(list)
        for picture in overwritten:
            wanted[picture.hash].append(picture)
        found: dict[str, ImageRecord] = {}
        for content, places in self.catalog.entered_by_hash(corpus_id, wanted).items():
            free = [place for place in places if place.image_id not in except_for]
            found.update((picture.image_id, place) for picture, place in zip(wanted[content], free, strict=False))
        return found


def likeliest(candidates: Sequence[ImageRecord], uri: str, found: FoundFile) -> ImageRecord | None:
    """Which of several lost pictures of equal content a file is: one of its name first, then one of its time."""
    if not candidates:
        return None
    return min(candidates, key=lambda one: (name_of(one.uri) != name_of(uri), one.mtime_ns != found.mtime_ns))


def moved_over(
    image: ImageRecord, just_gone: Sequence[ImageRecord], taken: Collection[str], found: FoundFile
) -> ImageRecord | None:
    """Where a picture was deleted long ago and its content lies again: the one of that content that moved there now, if any."""
    if image.state is not ImageState.GONE or any(one.image_id == image.image_id for one in just_gone):
        return None
    return likeliest([one for one in just_gone if one.image_id not in taken], image.uri, found)


def edited_picture(image: ImageRecord, found: FoundFile, content: str) -> ImageRecord:
    """A picture with other content than before: to be looked at again."""
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
    )


def revived(image: ImageRecord) -> ImageRecord:
    """A vanished picture that is there again: embedded as it was, where that was finished."""
    finished = image.slice_id is not None and image.width > 0
    return replace(image, state=ImageState.ACTIVE) if finished else replace(image, state=ImageState.PENDING, slice_id=None)


def put(picture: ImageRecord, root_id: str, uri: str, found: FoundFile) -> ImageRecord:
    """The picture at another place."""
    put = replace(picture, root_id=root_id, uri=uri, size=found.size, mtime_ns=found.mtime_ns, position=found.position)
    return revived(put) if picture.state is ImageState.GONE else put
