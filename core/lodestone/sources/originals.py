"""Access to the original of a picture that is no file in an indexed folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.errors import ImageError, ManifestChangedError, NotFoundError
from lodestone.sources.locators import locator_of_image
from lodestone.sources.reading import Reader

if TYPE_CHECKING:
    from lodestone.catalog.records import ImageRecord, Root


def open_original(root: Root, image: ImageRecord, reader: Reader) -> Path | bytes:
    """Return the picture's bytes, or its path when it is a large local file; only while its content is what was indexed.

    Args:
        root: Root of the picture.
        image: The picture.
        reader: Reads the file and keeps connections open.

    Raises:
        NotFoundError: it is gone, denied, or has other content now.
        SourceError: its store refuses everything, or does not answer.
    """
    hint = "run `lodestone index` again for its source"
    try:
        return reader.read(locator_of_image(root, image), content=image.hash, size=image.size, mtime_ns=image.mtime_ns)
    except ImageError as error:
        raise NotFoundError(f"the picture {image.image_id!r} cannot be read: {error.message}", hint=hint) from error
    except ManifestChangedError as error:
        raise NotFoundError(f"the picture {image.image_id!r}: {error.message}", hint=hint) from error
