"""The check of a GPU at toy size: it goes all the way on a CPU, and a vector that is not the CPU's ends it with status 1."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.device import gpu, unet_check
from benchmarks.device.clip_check import BARE, ON_GPU, OTHER_DECODER, PIPELINE, reference_vectors
from benchmarks.device.gpu import BENCHMARK
from numpy.typing import NDArray
from tests.support.fake_gpu import FakeGpu

from lodestone.imaging.gpu_jpeg import GpuJpegs

MODELS = ("ViT-B-32", "ViT-L-14")

pytestmark = pytest.mark.slow  # models of four sizes are made and run


class References:
    """The CPU's vectors, made once: seeds of weights and pictures do not change."""

    def __init__(self) -> None:
        self.made: list[NDArray[np.float16]] | None = None

    def __call__(
        self, checkpoints: Sequence[Path], files: Sequence[Sequence[Path]], scratch: Path
    ) -> list[NDArray[np.float16]]:
        if self.made is None:
            self.made = reference_vectors(checkpoints, files, scratch)
        return [vectors.copy() for vectors in self.made]


@pytest.fixture(scope="module")
def references() -> References:
    return References()


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[None]:
    """Give torch back the threads that a toy run takes from it."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def run(references: References, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("gpu") / "figures.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "reference_vectors", references)
        patch.setattr(gpu, "_jpegs", lambda _: GpuJpegs(FakeGpu()))
        code = BENCHMARK.main(["--json", "--figures", str(file)])
    return {"code": code, **json.loads(file.read_text(encoding="utf-8"))}


def _figures(run: dict[str, Any], name: str) -> dict[str, float]:
    return {figure["case"]: figure["median"] for figure in run["figures"] if figure["figure"] == name}


def test_a_toy_run_measures_every_way_and_finds_the_vectors_equal(run: dict[str, Any]) -> None:
    assert run["code"] == 0
    rates, shares = _figures(run, "pictures a second"), _figures(run, "share of the peak")
    for model in MODELS:
        for way in (PIPELINE, BARE, "product's model alone", "model alone, not channels_last"):
            assert rates[f"{model}, {way}"] > 0
            assert 0 < shares[f"{model}, {way}"] < 1
        assert _figures(run, "least cosine")[f"{model}, {PIPELINE}"] > 0.9999
        assert 0 < _figures(run, "GPU busy")[f"{model}, {PIPELINE}"] <= 1
        ratio = rates[f"{model}, {PIPELINE}"] / rates[f"{model}, {BARE}"]
        assert _figures(run, "product / bare loop")[model] == pytest.approx(ratio)
    assert len(_figures(run, "steps a second")) == 2
    assert run["details"][f"{MODELS[0]}, {PIPELINE}"]["strays"] == 0


def test_pictures_that_a_gpu_decodes_go_through_the_products_setting_and_have_a_tolerance_of_their_own(
    run: dict[str, Any],
) -> None:
    for model in MODELS:
        facts = run["details"][f"{model}, {ON_GPU}"]
        assert (facts["decoded on the GPU"], facts["left to the CPU"], facts["fault"]) == (28, 0, "")
        assert facts["decoders"] == "32 threads"
        assert OTHER_DECODER <= _figures(run, "least cosine")[f"{model}, {ON_GPU}"] < 1


def test_a_toy_run_compares_nothing_with_published_figures(run: dict[str, Any]) -> None:
    assert not _figures(run, "of clip-retrieval's A100")


def test_a_vector_that_differs_ends_the_run_with_status_1(
    run: dict[str, Any], references: References, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run["code"] == 0

    def perturbed(*arguments: Any) -> list[NDArray[np.float16]]:
        vectors = references(*arguments)
        vectors[1][3, :8] *= -1
        return vectors

    monkeypatch.setattr(gpu, "reference_vectors", perturbed)
    monkeypatch.setattr(gpu, "has_diffusers", lambda: False)
    assert BENCHMARK.main([]) == 1
    text = capsys.readouterr().out
    assert "TOY SIZE" in text
    assert f"OUTPUTS DIFFER: {MODELS[1]}, {PIPELINE}: the least cosine is" in text
    assert f"OUTPUTS DIFFER: {MODELS[0]}" not in text
    assert "All outputs" not in text


def test_a_unet_that_differs_from_the_cpus_has_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(unet_check, "passes_a_second", lambda *_: 1.0)
    cases = list(unet_check.unet_cases(torch.device("cpu"), toy=True, compiled=lambda: False))
    assert [case.fault for case in cases] == ["", ""]
    monkeypatch.setattr(unet_check, "relative_difference", lambda *_: 0.0501)
    faults = [case.fault for case in unet_check.unet_cases(torch.device("cpu"), toy=True, compiled=lambda: False)]
    assert faults == ["the output differs by 0.050 of its length", ""]


def test_the_share_of_clip_retrieval_is_the_rate_by_what_it_states() -> None:
    case = gpu.Case("ViT-L-14", "way", 624.0, 162e9, published=312.0)
    row = gpu._row(case, gpu.Peak(989e12, "H200"))
    assert row == ("ViT-L-14", "way", "624", "", "0.1022", "", "2")
