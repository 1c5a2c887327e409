"""Pixels of indexed pictures: of the original where it can be read, and else of the thumbnail."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.records import ImageState
from lodestone.errors import LodestoneError
from lodestone.imaging.regions import cropped
from lodestone.sources.boundaries import boundaries_of, enclosure_of
from lodestone.sources.originals import open_original
from lodestone.sources.reading import Reader

if TYPE_CHECKING:
    from PIL import Image

    from lodestone.catalog.records import ImageRecord
    from lodestone.home.resources import HomeResources

_LARGEST_SIDE = 4_096  # pixels of a shorter side that a small region is worth
_log = logging.getLogger(__name__)


class Decode(Protocol):
    """Decodes pictures; `Runtime.decode` does."""

    def __call__(self, data: bytes, *, min_side: int = 0) -> Image.Image:
        """Return the picture, or raise an `ImageError`."""


class IndexedPictures:
    """Reads the pictures of one home, as what was embedded: an original that has changed since is not read.

    It implements `query.stages.PictureSource`. Its methods block and are thread-safe.

    Args:
        resources: Catalog, thumbnails and settings of the home.
        decode: Decodes a file's content to an upright picture whose shorter side is not reduced below `min_side` pixels.
    """

    def __init__(self, resources: HomeResources, decode: Decode) -> None:
        self._resources = resources
        self._decode = decode
        self._reader = Reader()

    def pixels(
        self, image_id: str, *, side: int, region: tuple[float, float, float, float] | None = None
    ) -> NDArray[np.uint8] | None:
        """Return (h, w, 3) uint8 RGB pixels; None for a picture that is unknown, not embedded, or of which nothing is left."""
        image = self._resources.catalog.images([image_id]).get(image_id)
        if image is None or image.state is not ImageState.ACTIVE:
            return None
        shown = 1.0 if region is None else min(region[2], region[3])
        picture = self._original(image, math.ceil(min(_LARGEST_SIDE, side / shown))) or self._thumbnail(image)
        if picture is None:
            return None
        return np.asarray(picture.convert("RGB")) if region is None else cropped(picture, region)

    def _original(self, image: ImageRecord, side: int) -> Image.Image | None:
        root = self._resources.catalog.root(image.root_id)
        try:
            original = open_original(root, image, self._reader, enclosure_of(root, boundaries_of(self._resources.settings)))
            content = original if isinstance(original, bytes) else b"".join(original.parts())
            return self._decode(content, min_side=side)
        except (LodestoneError, OSError) as error:
            _log.warning("the picture %s cannot be read, its thumbnail is used: %s", image.image_id, error)
            return None

    def _thumbnail(self, image: ImageRecord) -> Image.Image | None:
        try:
            data = self._resources.thumbnails.good(image.hash)
            return None if data is None else self._decode(data)
        except (LodestoneError, OSError, ValueError) as error:
            _log.warning("the thumbnail of the picture %s cannot be read: %s", image.image_id, error)
            return None
