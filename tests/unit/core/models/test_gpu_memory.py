"""Batches that do not fit a GPU's memory are halved. No GPU is here: fakes raise what torch and ONNX Runtime raise."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from lodestone.backbones.base import Outputs, Pixels
from lodestone.errors import ModelUnavailableError
from lodestone.models.gpu_memory import MemoryFit, out_of_gpu_memory

OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})  # the name of torch's own

ERRORS = [
    OutOfMemoryError("Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity)"),
    RuntimeError(
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer of size 1073741824"
    ),
    RuntimeError("[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0"),
]


class SmallGpu:
    """A fake model on a GPU with memory for so many pictures."""

    name = "model"

    def __init__(self, room: int, error: Exception) -> None:
        self.room = room
        self.error = error
        self.passes: list[int] = []

    def upload(self, pixels: Pixels) -> Pixels:
        return pixels

    def embed(self, pixels: Pixels) -> Outputs:
        self.passes.append(len(pixels))
        if len(pixels) > self.room:
            raise self.error
        return {"first": pixels.mean(axis=(1, 2)).astype(np.float16)}


def pixels(count: int) -> Pixels:
    return np.random.default_rng(3).integers(0, 255, (count, 4, 4, 3), dtype=np.uint8)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: str(error)[:40])
def test_a_batch_that_does_not_fit_is_halved_and_the_size_is_remembered(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    model, fit = SmallGpu(70, error), MemoryFit()
    with caplog.at_level(logging.WARNING):
        outputs = fit.embed(model, pixels(256))
    assert model.passes == [256, 128, 64, 64, 64, 64]
    assert fit.most == 64
    assert np.array_equal(outputs["first"], pixels(256).mean(axis=(1, 2)).astype(np.float16))
    assert "no room for 256 pictures at once in model: trying 128" in caplog.text
    fit.embed(model, pixels(100))
    assert model.passes[6:] == [64, 36]


def test_memory_may_run_out_in_a_later_batch_too() -> None:
    model, fit = SmallGpu(256, ERRORS[0]), MemoryFit()
    fit.embed(model, pixels(256))
    model.room = 100  # another process has taken some of it
    assert len(fit.embed(model, pixels(256))["first"]) == 256
    assert model.passes == [256, 256, 128, 64, 64, 64, 64]


def test_a_gpu_without_room_for_one_picture_is_an_error_with_a_hint() -> None:
    with pytest.raises(ModelUnavailableError, match="no room for model") as raised:
        MemoryFit().embed(SmallGpu(0, ERRORS[0]), pixels(3))
    assert "cluster.gpus_per_actor" in raised.value.hint


def test_other_errors_are_raised_as_they_are() -> None:
    model = SmallGpu(0, ValueError("wrong shape"))
    with pytest.raises(ValueError, match="wrong shape"):
        MemoryFit().embed(model, pixels(4))
    assert model.passes == [4]
    assert not out_of_gpu_memory(MemoryError("the machine's memory"))


def test_a_batch_that_is_uploaded_already_goes_through_in_one_pass_or_in_halves() -> None:
    model, fit = SmallGpu(70, ERRORS[0]), MemoryFit()
    batch = pixels(64)
    assert len(fit.embed(model, batch, fit.upload(model, batch))["first"]) == 64
    batch = pixels(128)
    assert len(fit.embed(model, batch, fit.upload(model, batch))["first"]) == 128
    assert model.passes == [64, 128, 64, 64]
    assert fit.upload(model, batch) is None  # known not to fit
