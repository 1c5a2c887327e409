"""Look at whether the file of a picture still exists: cheap, and for files in folders of this machine alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lodestone.files.beneath import OUTSIDE, Boundaries, Enclosure, status_of
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.locators import FOLDER
from lodestone.sources.uris import relative_path_of

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, Root

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, OUTSIDE})


def missing_files(images: Iterable[ImageRecord], roots: dict[str, Root], boundaries: Boundaries) -> set[str]:
    """Return the ids of those pictures whose files do not exist any more.

    A file that cannot be looked at (permissions, a disk that fails) may exist. So may whatever is no file in a folder. A file
    that a link has put out of its allowed folder does not count as there: nothing is told about other places.

    Args:
        images: Pictures.
        roots: Their roots by id; pictures of other roots are left out.
        boundaries: What may be opened.
    """
    enclosures = {root_id: enclosure_of(root, boundaries) for root_id, root in roots.items() if root.kind == FOLDER}
    return {
        image.image_id
        for image in images
        if image.root_id in enclosures and _is_gone(roots[image.root_id].path, image.uri, enclosures[image.root_id])
    }


def _is_gone(root: str, uri: str, within: Enclosure | None) -> bool:
    path = os.path.join(root, relative_path_of(uri))  # noqa: PTH118 - a page has dozens of them
    try:
        status_of(path, within)
    except OSError as error:
        return error.errno in _GONE
    return False
