"""Which pictures changed places? Two names swapped, a series numbered anew, one file moved over another: ids follow contents.

A file with other content than its picture had was edited, unless the content is one that another picture lost in the same run:
then that picture lies here now. This can only be told once all files were looked at, so such files wait here until then.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Root
from lodestone.indexing.uris import name_of
from lodestone.sources.base import FoundFile

MOST: Final = 50_000  # files that may wait at once, a kilobyte each; more are taken for edited


@dataclass(frozen=True, slots=True)
class Altered:
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
    """

    lost: tuple[ImageRecord, ...] = ()
    updates: tuple[ImageRecord, ...] = ()
    fresh: tuple[Altered, ...] = ()
    files: tuple[tuple[ImageRecord, FoundFile], ...] = ()
    left: frozenset[str] = frozenset()
    edited: tuple[str, ...] = ()
    moved: int = 0
    unmade: int = 0


@dataclass(slots=True)
class Exchanges:
    """The files of one run that wait, and what it entered as new."""

    catalog: Catalog
    waiting: list[Altered] = field(default_factory=list)
    _new: array[int] = field(default_factory=lambda: array("q"))  # eight bytes an id

    def take(self, altered: Altered) -> bool:
        """Let a file wait; false: there are too many already."""
        if len(self.waiting) >= MOST:
            return False
        self.waiting.append(altered)
        return True

    def entered(self, image_ids: Iterable[str]) -> None:
        """Remember pictures that are new in this run."""
        self._new.extend(hash(image_id) for image_id in image_ids)

    def settle(self, corpus_id: str) -> Exchanged:
        """Decide about all that wait; changes nothing. To be called once everything was looked at."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return Exchanged()
        moves, edited = self._moves(corpus_id, waiting)
        taken = {picture.image_id for _, picture in moves}
        overwritten = [here.image for here, _ in moves if here.image.image_id not in taken]
        elsewhere = self._elsewhere(corpus_id, overwritten)
        updates = [(_put(picture, here.root.root_id, here.uri, here.found), here.found) for here, picture in moves]
        changed = [here for here in edited if here.image.image_id not in taken]
        updates += [(edited_picture(here.image, here.found, here.content), here.found) for here in changed]
        for picture in overwritten:
            if (place := elsewhere.get(picture.image_id)) is not None:
                found = FoundFile(place.uri, "", place.size, place.mtime_ns, position=place.position, captions=())
                updates.append((_put(picture, place.root_id, place.uri, found), found))
        lost = [picture for picture in overwritten if picture.image_id not in elsewhere]
        return Exchanged(
            lost=(*lost, *elsewhere.values()),
            updates=tuple(picture for picture, _ in updates),
            fresh=tuple(here for here in edited if here.image.image_id in taken),
            files=tuple((picture, found) for picture, found in updates if found.locator),
            left=frozenset([*(picture.hash for picture in lost), *(here.image.hash for here in changed)]),
            moved=len(moves) + len(elsewhere),
            edited=tuple(here.image.image_id for here in changed),
            unmade=len(elsewhere),
        )

    def _moves(self, corpus_id: str, waiting: Sequence[Altered]) -> tuple[list[tuple[Altered, ImageRecord]], list[Altered]]:
        """Files with the pictures that moved there, and those that no other picture's content is in."""
        lost: dict[str, list[ImageRecord]] = defaultdict(list)
        for content, pictures in self.catalog.gone_by_hash(corpus_id, {here.content for here in waiting}).items():
            lost[content] += pictures
        for here in waiting:
            if here.image.state is not ImageState.FAILED:
                lost[here.image.hash].append(here.image)
        moves: list[tuple[Altered, ImageRecord]] = []
        rest: list[Altered] = []
        for here in waiting:
            picture = likeliest(lost[here.content], here.uri, here.found)
            if picture is None:
                rest.append(here)
            else:
                lost[here.content].remove(picture)
                moves.append((here, picture))
        return moves, rest

    def _elsewhere(self, corpus_id: str, overwritten: Sequence[ImageRecord]) -> dict[str, ImageRecord]:
        """Overwritten pictures whose content lies at a new place: id -> the picture that was made for it there."""
        wanted: dict[str, list[ImageRecord]] = defaultdict(list)
        for picture in overwritten:
            wanted[picture.hash].append(picture)
        if not wanted or not self._new:
            return {}
        new = frozenset(self._new)
        found: dict[str, ImageRecord] = {}
        for place in self.catalog.images_without_slice(corpus_id):
            if hash(place.image_id) in new and (pictures := wanted.get(place.hash)):
                found[pictures.pop(0).image_id] = place
        return found


def likeliest(candidates: Sequence[ImageRecord], uri: str, found: FoundFile) -> ImageRecord | None:
    """Which of several lost pictures of equal content a file is: one of its name first, then one of its time."""
    if not candidates:
        return None
    return min(candidates, key=lambda one: (name_of(one.uri) != name_of(uri), one.mtime_ns != found.mtime_ns))


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


def _put(picture: ImageRecord, root_id: str, uri: str, found: FoundFile) -> ImageRecord:
    """The picture at another place."""
    put = replace(picture, root_id=root_id, uri=uri, size=found.size, mtime_ns=found.mtime_ns, position=found.position)
    return revived(put) if picture.state is ImageState.GONE else put
