"""Opener of TIFF files whose tags beside the pixels are broken: it reads none of them."""

from __future__ import annotations

from typing import Final

from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

_ORIENTATION: Final = 274
# Size, samples, compression, colours, strips and tiles, tables of JPEG, colour profile.
_NEEDED: Final = frozenset(
    {254, 256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 292, 293, 317, 320, 322, 323, 324, 325}
    | {332, 334, 338, 339, 347, 512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532, 34675, _ORIENTATION}
)


class LeanTiffImageFile(TiffImageFile):
    """A TIFF of which only the tags that its pixels need are read."""

    def _setup(self) -> None:
        for tag in tuple(self.tag_v2):
            if tag not in _NEEDED:
                del self.tag_v2[tag]
        super()._setup()

    def getexif(self) -> Image.Exif:
        """Return the orientation alone, which loading applies."""
        exif = Image.Exif()
        turn = self.tag_v2.get(_ORIENTATION)
        if turn is not None:
            exif[_ORIENTATION] = turn
        return exif
