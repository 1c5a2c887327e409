"""Access to the original of a picture, a file, an object or a part of a container, and the look at whether it exists."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lodestone.errors import ImageError, ImageTooLargeError, InvalidRequestError, ManifestChangedError, NotFoundError
from lodestone.files.beneath import OUTSIDE, Boundaries, Enclosure, status_of
from lodestone.files.urls import is_url
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.locators import FOLDER, inside, locator_of_image
from lodestone.sources.reading import Reader
from lodestone.sources.uris import relative_path_of
from lodestone.sources.verified import VerifiedFile, open_verified

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, Root


def open_original(root: Root, image: ImageRecord, reader: Reader, within: Enclosure | None) -> bytes | VerifiedFile:
    """Return the picture's bytes, or the open file when it is a large local one; only while its content is what was indexed.

    Args:
        root: Root of the picture.
        image: The picture.
        reader: Reads objects, archives and tables, and keeps connections open.
        within: The folder that local files must lie in; None for none.

    Raises:
        NotFoundError: it is gone, denied, has other content now, or lies outside the folder.
        ImageTooLargeError: it is too large to be read.
        SourceError: its store refuses everything, or does not answer.
    """
    hint = "run `lodestone index` again for its source"
    try:
        locator = locator_of_image(root, image)
        if inside(locator) is None and not is_url(locator):
            return open_verified(locator, content=image.hash, size=image.size, within=within)
        source = reader.read(locator, content=image.hash, size=image.size, mtime_ns=image.mtime_ns, within=within)
    except ImageTooLargeError:
        raise
    except (ImageError, InvalidRequestError) as error:
        raise NotFoundError(f"the picture {image.image_id!r} cannot be read: {error.message}", hint=hint) from error
    except ManifestChangedError as error:
        raise NotFoundError(f"the picture {image.image_id!r}: {error.message}", hint=hint) from error
    assert isinstance(source, bytes)  # noqa: S101 - only local files are given back open
    return source


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
