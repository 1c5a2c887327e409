"""Pictures of generators that end early: refused, though a person's own file would be indexed."""

from __future__ import annotations

import pytest
from tests.support import pictures

from lodestone.errors import ImageError
from lodestone.generators.pictures import read_picture
from lodestone.imaging.decode import decode


@pytest.mark.parametrize("missing", [2, 400])
def test_a_cut_picture_of_a_generator_is_refused(missing: int) -> None:
    whole = pictures.encoded(pictures.photo((256, 256)), "JPEG", quality=95)
    assert read_picture(whole, size=256) is not None
    cut = whole[:-missing]
    assert decode(cut, min_side=256).decoded_share is not None
    with pytest.raises(ImageError, match="ends early"):
        read_picture(cut, size=256)
