"""Access to the original of a picture: a file, an object, or a part of an archive or table, while it is what was indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodestone.errors import ImageError, ImageTooLargeError, InvalidRequestError, ManifestChangedError, NotFoundError
from lodestone.files.beneath import Enclosure
from lodestone.files.urls import is_url
from lodestone.sources.locators import inside, locator_of_image
from lodestone.sources.reading import Reader
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
