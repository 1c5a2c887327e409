"""Recognition of a directory whose folder was moved or renamed as a whole, or restored elsewhere: its pictures stay themselves.

A new folder is a moved directory when the directory's own folder is gone, nearly all of its pictures are in the new one (same
relative uri, same size), and a sample of those has the same content. Then the directory gets the new path, and nothing else
changes: ids, vectors, tags and captions stay, and the run that follows looks at each file as it always does. Where only some of
that holds, the run says so and names the command by which a user decides.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, ImageRecord, ImageState, Root
from lodestone.errors import ImageError
from lodestone.files.beneath import Boundaries, Enclosure, status_of
from lodestone.indexing.scan.mounts import Mounts, vanished
from lodestone.indexing.scan.move_detection import put
from lodestone.indexing.scan.scan_scopes import Candidate
from lodestone.sources.base import FoundFile
from lodestone.sources.content import content_of
from lodestone.sources.locators import FOLDER
from lodestone.sources.uris import path_of, relative_path_of, uri_of

CERTAIN: Final = 0.9
"""Share of a directory's pictures that must be in a folder, for the folder to be the directory without a doubt."""

LIKELY: Final = 0.3
"""Share from which a run says that the folder may be the directory."""

_SAMPLE: Final = 64  # pictures whose content is compared
_BATCH: Final = 1000
_FEW: Final = 0.02  # a folder that has so few of the first batch's pictures is another one


@dataclass(frozen=True, slots=True)
class Overlap:
    """Comparison of a directory's pictures with the files of a folder.

    Attributes:
        known: Pictures of the directory that were compared.
        same: Those that are in the folder under the same uri and with the same size.
        same_content: Share of a sample of these that has the same content, too.
    """

    known: int
    same: int
    same_content: float

    @property
    def share(self) -> float:
        """Return the estimated share of the directory's pictures that are in the folder with the same content."""
        return self.same / self.known * self.same_content if self.known else 0.0


@dataclass(frozen=True, slots=True)
class MovedRoot:
    """A directory that a folder was recognised as.

    Attributes:
        root: The directory, at its new path.
        former: Its path before.
        images: Number of its pictures.
    """

    root: Root
    former: str
    images: int

    def __str__(self) -> str:
        return (
            f"the directory {self.root.name!r} has moved from {self.former!r} to {self.root.path!r}: its {self.images:,} "
            "pictures keep their ids, tags and captions, and what has not changed is not embedded again"
        )


def overlap(catalog: Catalog, root: Root, folder: Path, within: Enclosure | None) -> Overlap:
    """Compare a directory's pictures with the files of a folder. Reads their status, and the content of at most 64."""
    draw = random.Random(root.root_id)  # noqa: S311 - a sample, not a secret
    known = same = 0
    sample: list[ImageRecord] = []
    for image in _living(catalog, root.root_id):
        known += 1
        if _has(folder, image, within):
            same += 1
            if len(sample) < _SAMPLE:
                sample.append(image)
            elif (place := draw.randrange(same)) < _SAMPLE:
                sample[place] = image
        if known == _BATCH and same < known * _FEW:
            break
    return Overlap(known, same, sum(_is_content(folder, image, within) for image in sample) / max(len(sample), 1))


def follow_moved_root(
    catalog: Catalog, corpus: Corpus, folder: Path, *, boundaries: Boundaries, mounts: Mounts
) -> tuple[MovedRoot | None, list[str]]:
    """Give a vanished directory its new path if `folder` is the directory; return it, and else what a user should know.

    Args:
        catalog: Read and written.
        corpus: Corpus that the folder is to be indexed for.
        folder: A folder that is in no directory of the corpus.
        boundaries: What may be opened.
        mounts: Disks that were seen; a directory on one that is not mounted has not moved.
    """
    certain: list[tuple[Root, Overlap]] = []
    likely: list[tuple[Root, Overlap]] = []
    for root in catalog.roots(corpus.corpus_id):
        if root.kind != FOLDER or not vanished(Path(root.path)) or mounts.missing(Path(root.path)) is not None:
            continue
        found = overlap(catalog, root, folder, boundaries.around(str(folder)))
        if found.share >= LIKELY:
            (certain if found.share >= CERTAIN else likely).append((root, found))
    moved: MovedRoot | None = None
    if len(certain) == 1:
        former, found = certain.pop()
        moved = MovedRoot(put_root(catalog, former, folder), former.path, found.known)
        mounts.forget(Path(former.path), others=[Path(root.path) for root in catalog.roots() if root.kind == FOLDER])
    return moved, [
        f"{str(folder)!r} may be the directory {root.name!r}, whose folder {root.path!r} is gone: {found.same:,} of its "
        f"{found.known:,} pictures are in both. If it has moved, `lodestone directory relocate {root.path!r} {str(folder)!r}` "
        "gives its pictures their ids, tags and captions back"
        for root, found in (*certain, *likely)
    ]


def follow_candidate(
    candidate: Candidate, catalog: Catalog, corpus: Corpus, *, boundaries: Boundaries, mounts: Mounts
) -> tuple[MovedRoot | None, list[str]]:
    """Do what `follow_moved_root` does for a folder that a run is to index, if it would become a directory of its own."""
    if candidate.is_file or candidate.place(catalog, corpus) is not None:
        return None, []
    return follow_moved_root(catalog, corpus, candidate.folder, boundaries=boundaries, mounts=mounts)


def put_root(catalog: Catalog, root: Root, folder: Path) -> Root:
    """Give a directory another path and return it; vanished directories inside it move with it."""
    former = Path(root.path)
    for inner in catalog.roots(root.corpus_id):
        path = Path(inner.path)
        if inner.kind == FOLDER and former in path.parents and vanished(path):
            now = folder / path.relative_to(former)
            if now.is_dir():
                catalog.relocate_root(inner.root_id, str(now))
    return catalog.relocate_root(root.root_id, str(folder))


def merge_root(catalog: Catalog, root: Root, target: Root, prefix: str) -> int:
    """Put a directory's pictures in the place of those that were indexed anew, and return how many were put there.

    They keep ids, vectors, captions and tags, and get the tags of those that they replace. Pictures that are not there, or have
    other content there, count as gone: content that turns up again is recognised. The directory itself is removed if it has no
    picture left.

    Args:
        catalog: Read and written.
        root: The directory that has moved.
        target: The directory that holds the folder where it is now.
        prefix: This folder inside `target`, "" for all of it.
    """
    kept = 0
    images = _living(catalog, root.root_id)
    while batch := list(islice(images, _BATCH)):
        places = {image.image_id: _uri_below(prefix, image.uri) for image in batch}
        there = catalog.images_by_uri(target.root_id, places.values())
        updates, replaced = list[ImageRecord](), dict[str, str]()
        for image in batch:
            other = there.get(places[image.image_id])
            if other is None or other.state is ImageState.GONE or other.hash != image.hash:
                continue
            found = FoundFile(other.uri, "", other.size, other.mtime_ns)
            updates.append(put(image, target.root_id, other.uri, found))
            replaced[other.image_id] = image.image_id
        tags = [tag for several in catalog.tags(replaced).values() for tag in several]
        catalog.add_tags([tag.moved_to(replaced[tag.image_id]) for tag in tags])
        catalog.update_images(updates, gone=list(replaced))
        moved = {image.image_id for image in updates}
        catalog.mark_gone([image.image_id for image in batch if image.image_id not in moved])
        kept += len(updates)
    if not catalog.count_of_root(root.root_id):
        catalog.remove_root(root.root_id)
    return kept


def holds_any(catalog: Catalog, root: Root, folder: Path, boundaries: Boundaries) -> bool:
    """Return whether a picture of a directory is in a folder, or the directory has none."""
    images = list(islice(_living(catalog, root.root_id), 1))
    within = boundaries.around(str(folder))
    return not images or any(_has(folder, image, within) for image in _living(catalog, root.root_id))


def _living(catalog: Catalog, root_id: str) -> Iterator[ImageRecord]:
    return (image for image in catalog.images_of_root(root_id) if image.state is not ImageState.GONE)


def _has(folder: Path, image: ImageRecord, within: Enclosure | None) -> bool:
    try:
        return status_of(path_of(folder, image.uri), within).st_size == image.size
    except OSError:
        return False


def _is_content(folder: Path, image: ImageRecord, within: Enclosure | None) -> bool:
    try:
        return content_of(path_of(folder, image.uri), within) == image.hash
    except ImageError:
        return False


def _uri_below(prefix: str, uri: str) -> str:
    return uri_of(os.path.join(prefix, relative_path_of(uri))) if prefix else uri  # noqa: PTH118 - many files
