"""What models do on a GPU, as far as a machine without one runs it: half precision on the CPU, copies over faked streams.

The models are tiny and random, and CUDA's streams, events and pinned memory are stand-ins that record their use. So this shows
that the arithmetic and the order of calls are right, and nothing about speed.
"""

from contextlib import contextmanager

import numpy as np
import pytest
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.tiny_models import TIMM_DIM, tiny_models

from lodestone.backbones.registry import make_backbone


def _pixels(backbone):
    return np.stack([backbone.prepare(photo(each)) for each in (CAT, COFFEE, PERSON, ROCKET)])


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("kind", ["timm", "clip"])
def test_halved_weights_in_the_gpus_layout_change_a_vector_by_rounding_alone(kind):
    import torch

    from lodestone.models.torch_device import halve_weights

    prefix = {"timm": "timm", "clip": "open_clip"}[kind]
    backbone = make_backbone(f"{prefix}:{getattr(tiny_models(), kind)}", model_context())
    backbone.warm_up(threads=1)
    pixels = _pixels(backbone)
    module, model = backbone._load()
    module.eval().requires_grad_(requires_grad=False)
    mean, std = backbone._scale
    planes = (backbone.upload(pixels).planes.float() - mean) / std
    with torch.inference_mode():
        single = model(planes).numpy()
        halve_weights(module)
        module.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", dtype=torch.float16):
            half = model(planes).float().numpy()
    dtypes = {parameter.dtype for parameter in module.parameters()}

    assert dtypes == {torch.float16, torch.float32}  # norms stay as they are
    assert planes.is_contiguous(memory_format=torch.channels_last)
    assert not np.array_equal(single, half)
    cosines = (single * half).sum(1) / np.linalg.norm(single, axis=1) / np.linalg.norm(half, axis=1)
    assert cosines.min() > 0.999


def test_a_batch_that_was_uploaded_has_the_vectors_of_its_pixels():
    backbone = make_backbone(f"timm:{tiny_models().timm}", model_context())
    with pytest.raises(RuntimeError, match="warm_up"):
        backbone.upload(np.zeros((1, backbone.input_size, backbone.input_size, 3), np.uint8))
    backbone.warm_up(threads=1)
    pixels = _pixels(backbone)
    np.testing.assert_array_equal(backbone.embed(backbone.upload(pixels))["features"], backbone.embed(pixels)["features"])
    assert backbone.embed(backbone.upload(pixels[:0]))["features"].shape == (0, TIMM_DIM)
    with pytest.raises(ValueError, match="takes"):
        backbone.upload(pixels[0])


class _Stream:
    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def wait_event(self, event):
        self.calls.append((self.name, "wait", event.recorded))


def test_a_copy_starts_from_pinned_memory_on_a_stream_of_its_own_and_the_model_waits_for_it(monkeypatch):
    import torch

    from lodestone.models.device_pixels import DeviceCopies

    calls = []

    class Event:
        recorded = None

        def record(self, stream):
            self.recorded = stream.name
            calls.append((stream.name, "record"))

    @contextmanager
    def on(stream):
        calls.append((stream.name, "enter"))
        yield
        calls.append((stream.name, "leave"))

    def pinned(tensor):
        calls.append(("host", "pin"))
        return tensor.clone()

    def moved(tensor, device, *, non_blocking):
        calls.append(("copy", "to", device.type, non_blocking))
        return tensor

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: _Stream(calls, "copies"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: _Stream(calls, "models"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.Tensor, "to", moved)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: calls.append((stream.name, "hold")))
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    copies = DeviceCopies(torch.device("cuda"))
    planes = copies.arrived(copies.upload(pixels))

    np.testing.assert_array_equal(planes.permute(0, 2, 3, 1).numpy(), pixels)
    assert calls == [
        ("host", "pin"),
        ("copies", "enter"),
        ("copy", "to", "cuda", True),
        ("copies", "record"),
        ("copies", "leave"),
        ("models", "wait", "copies"),
        ("models", "hold"),
    ]
