"""Division of a directory: a folder inside it becomes a directory of its own, to be disabled, watched or removed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.directories.naming import corpus_names
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.indexing.locking import corpus_lock
from lodestone.sources.exclusion import Exclusion
from lodestone.sources.locators import FOLDER
from lodestone.sources.uris import relative_path_of, spellings, uri_of

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import ImageRecord, Root
    from lodestone.indexing.sync.collections import SyncResources

_BATCH: Final = 1000
_SPECIAL: Final = re.compile(r"([\\*?\[\]!# ])")


def split_directory(resources: SyncResources, root_id: str, folder: str) -> tuple[Root, int]:
    """Make a folder inside a directory a directory of its own, and return it with the number of pictures that went over.

    The pictures keep ids, vectors, captions and tags. The new directory is as enabled and watched as the one around it, and
    what was left out there stays left out. A sync must follow if any picture went over. A folder that is a directory already
    stays as it is.

    Args:
        resources: The opened home.
        root_id: The directory.
        folder: The folder's path inside it.

    Raises:
        NotFoundError: there is no such directory, or it knows no picture in such a folder.
        InvalidRequestError: the directory is no folder, or the path leaves it.
        StoreLockedError: an index run of the corpus is in progress.
    """
    catalog = resources.catalog
    root = catalog.root(root_id)
    if root.kind != FOLDER:
        raise InvalidRequestError(
            f"the directory {root.name!r} ({root.kind}) has no folders of its own", hint="index the prefix as a directory"
        )
    wanted = _checked(folder)
    corpus = catalog.corpus(corpus_names(catalog)[root.corpus_id])
    with corpus_lock(resources.home, corpus, catalog=catalog):
        inside = next((way for way in spellings(wanted) if _first(catalog, root_id, way)), None)
        known = {other.path: other for other in catalog.roots(root.corpus_id)}
        paths = (os.path.join(root.path, way) for way in spellings(inside or wanted))  # noqa: PTH118
        part = next((known[path] for path in paths if path in known), None)
        if part is not None:  # pictures are left over where an earlier call was killed
            return part, 0 if inside is None else _hand_over(catalog, root_id, part, inside)
        if inside is None:
            raise NotFoundError(
                f"the directory {root.name!r} has no pictures in {folder!r}",
                hint="name a folder inside it, such as 2018/summer",
            )
        patterns = Exclusion(root.path, patterns=root.patterns).inherited(inside)
        part = catalog.ensure_root(root.corpus_id, os.path.join(root.path, inside))  # noqa: PTH118
        part = catalog.set_root(part.root_id, enabled=root.enabled, watched=root.watched, exclude=patterns)
        return part, _hand_over(catalog, root_id, part, inside)


def leave_out_around(catalog: Catalog, removed: Root) -> list[Root]:
    """Leave the folder of a removed directory out of the directories around it, and return these.

    Otherwise their next run would index its pictures again.
    """
    if removed.kind != FOLDER:
        return []
    around = [
        root
        for root in catalog.roots(removed.corpus_id)
        if root.kind == FOLDER and Path(root.path) in Path(removed.path).parents
    ]
    return [catalog.set_root(root.root_id, exclude=(*root.patterns, _pattern(removed.path, root.path))) for root in around]


def _pattern(path: str, around: str) -> str:
    """Return the pattern that matches one folder, whatever characters its name has."""
    escaped = _SPECIAL.sub(r"\\\1", Path(path).relative_to(around).as_posix())
    return f"/{escaped}/".replace("\n", "?").replace("\r", "?")


def _checked(folder: str) -> str:
    parts = [part for part in folder.replace(os.sep, "/").split("/") if part not in {"", "."}]
    if not parts or ".." in parts or "\0" in folder:
        raise InvalidRequestError(f"{folder!r} is no folder inside a directory", hint="name one, e.g. 2018/summer")
    return "/".join(parts)


def _first(catalog: Catalog, root_id: str, folder: str) -> bool:
    """Return whether a directory knows a picture in a folder of exactly this spelling."""
    return catalog.folders_called([uri_of(folder)], [root_id], most=1) == [uri_of(folder)]


def _hand_over(catalog: Catalog, root_id: str, part: Root, folder: str) -> int:
    """Give a directory the pictures of a folder of another one, batch by batch; a killed call is finished by the next."""
    count = 0
    images = _of_folder(catalog, root_id, folder)
    while batch := list(islice(images, _BATCH)):
        moved = [replace(image, root_id=part.root_id, uri=_below(image.uri, folder)) for image in batch]
        catalog.update_images(moved, columns=("root_id", "uri"))
        count += len(batch)
    failed = [
        failure
        for failure in catalog.failures(corpus_id=part.corpus_id)
        if failure.root_id == root_id and _is_below(failure.uri, folder)
    ]
    catalog.add_failures([replace(f, root_id=part.root_id, uri=_below(f.uri, folder)) for f in failed])
    catalog.clear_failures(root_id, [failure.uri for failure in failed])
    return count


def _of_folder(catalog: Catalog, root_id: str, folder: str) -> Iterator[ImageRecord]:
    return (image for image in catalog.images_of_root(root_id) if _is_below(image.uri, folder))


def _is_below(uri: str, folder: str) -> bool:
    return relative_path_of(uri).startswith(folder + os.sep)


def _below(uri: str, folder: str) -> str:
    return uri_of(relative_path_of(uri)[len(folder) + 1 :])
