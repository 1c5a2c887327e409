"""Decoding in child processes: the files of a run are those of decoding in threads, and a picture ends its child alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_bad_files, write_photos

from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.slices.limits import PipelineLimits


def _indexed(home: Path, photos: Path, **options: object):
    with open_runtime(home, **options) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        names = {image: name for name, image in image_ids(runtime).items()}
        vectors = {names[point]: vector for point, vector in vectors_of(runtime, "bridge").items()}
        failures = {(failure.uri, failure.code) for failure in runtime.catalog.failures()}
        thumbnails = {path.name: path.read_bytes() for path in runtime.home.thumbnails.glob("*/*.jpg")}
    return vectors, failures, thumbnails


def test_children_give_what_threads_give_and_end_with_the_run(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 12)
    write_bad_files(tmp_path / "photos")
    vectors, failures, thumbnails = _indexed(tmp_path / "threads", tmp_path / "photos", decode_processes=False)
    found = _indexed(tmp_path / "children", tmp_path / "photos", decode_processes=True)
    assert vectors and failures and thumbnails
    assert found[1:] == (failures, thumbnails)
    assert found[0].keys() == vectors.keys()
    for name, vector in vectors.items():
        np.testing.assert_allclose(found[0][name], vector, atol=1e-3)  # batches may have other neighbours
    assert not [child for child in psutil.Process().children() if "lodestone.indexing.slices.isolation" in child.cmdline()]


def test_a_picture_that_ends_its_child_becomes_a_failure_and_the_worker_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "photos", 6)
    monkeypatch.setenv(VARIABLE, "picture:000003.jpg")
    vectors, failures, _ = _indexed(tmp_path / "home", tmp_path / "photos", decode_processes=True)  # in this very process
    assert len(vectors) == 5
    assert [code for uri, code in failures if uri.endswith("000003.jpg")] == ["kills_worker"]


@pytest.mark.parametrize(
    ("gpu", "threads", "setting", "expected"),
    [(False, 8, None, False), (True, 2, None, False), (True, 3, None, True), (False, 1, True, True), (True, 8, False, False)],
)
def test_a_worker_that_decodes_for_a_gpu_has_children(gpu, threads, setting, expected, tmp_path: Path) -> None:
    from tests.support.pipelines import MeanBackbone

    from lodestone.files.opening import open_area
    from lodestone.indexing.parts.outputs import OutputsPart
    from lodestone.indexing.tasks import EmbedSettings

    class Backbone(MeanBackbone):
        def on_gpu(self) -> bool:
            return gpu

    area = open_area(tmp_path)
    settings = EmbedSettings(("mean",), "length", tmp_path, area, area, decode_threads=threads, decode_processes=setting)
    assert PipelineLimits.of(settings, [OutputsPart(Backbone())]).decode_processes is expected
