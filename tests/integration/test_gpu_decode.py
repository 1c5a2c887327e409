"""Index runs whose JPEGs a (fake) GPU decodes: the same pictures, failures and thumbnails as by the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.fake_gpu import FakeGpu
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_bad_files, write_photos
from tests.support.pipelines import MeanBackbone

from lodestone.config.settings import IndexSettings
from lodestone.errors import ConfigurationError, ModelUnavailableError
from lodestone.files.opening import open_area
from lodestone.imaging.gpu_jpeg import MOST_AT_ONCE, GpuJpegs
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.slices import work
from lodestone.indexing.slices.limits import PipelineLimits
from lodestone.indexing.tasks import EmbedSettings

_PHOTOS = 40


def _indexed(home: Path, photos: Path, **options: object) -> tuple[dict[str, Any], set[tuple[str, str]], set[str]]:
    with open_runtime(home, **options) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        names = {image: name for name, image in image_ids(runtime).items()}
        vectors = {names[point]: vector for point, vector in vectors_of(runtime, "bridge").items()}
        failures = {(failure.uri, failure.code) for failure in runtime.catalog.failures()}
        thumbnails = {path.name for path in runtime.home.thumbnails.glob("*/*.jpg")}
    return vectors, failures, thumbnails


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("room", [1_000, 2])
def test_a_run_finds_the_same_with_a_gpu_that_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    fake = FakeGpu(room=room)
    made: list[GpuJpegs] = []

    def gpu_jpegs() -> GpuJpegs:
        made.append(GpuJpegs(fake))
        return made[-1]

    monkeypatch.setattr(work, "gpu_jpegs", gpu_jpegs)
    write_photos(tmp_path / "photos", _PHOTOS)
    write_bad_files(tmp_path / "photos")
    vectors, failures, thumbnails = _indexed(tmp_path / "cpu", tmp_path / "photos")
    assert not made
    found = _indexed(tmp_path / "gpu", tmp_path / "photos", gpu_decode=True)
    assert len(made) == 1
    assert made[0].decoded + made[0].declined >= _PHOTOS
    assert made[0].decoded > 0
    assert found[1:] == (failures, thumbnails)
    assert found[0].keys() == vectors.keys()
    for name, vector in vectors.items():
        assert float(np.dot(found[0][name], vector)) > 0.99


def test_a_machine_without_a_gpu_refuses_the_setting(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 2)
    with pytest.raises((ConfigurationError, ModelUnavailableError), match=r"index\.gpu_decode"):  # whatever it lacks first
        _indexed(tmp_path / "home", tmp_path / "photos", gpu_decode=True)


def test_threads_gather_a_batch_and_no_children_are_started(tmp_path: Path) -> None:
    class Backbone(MeanBackbone):
        def on_gpu(self) -> bool:
            return True

    area = open_area(tmp_path)
    settings = EmbedSettings(("mean",), "length", tmp_path, area, area, decode_threads=8, gpu_decode=True)
    limits = PipelineLimits.of(settings, [OutputsPart(Backbone())])
    assert (limits.decoders, limits.decode_processes) == (MOST_AT_ONCE, False)
    with pytest.raises(ValidationError, match="exclude each other"):
        IndexSettings(gpu_decode=True, decode_processes=True)
