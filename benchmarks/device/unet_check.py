"""Check of the U-Net of SD-Turbo on a device: denoising steps a second, and its output beside the CPU's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from benchmarks.device.cases import Case
from benchmarks.device.meters import counted_flops, passes_a_second, relative_difference
from benchmarks.device.random_models import random_unet, unet_inputs

if TYPE_CHECKING:
    import torch

UNET: Final = "U-Net of SD-Turbo"
UNET_TOLERANCE: Final = 0.05
"""Greatest difference of the output from the CPU's in single precision, as a share of its length."""
_GUIDES: Final = 4  # pictures of one call of the product's guide engine on a GPU
_TOY_GUIDES: Final = 2


def unet_cases(device: torch.device, *, toy: bool, compiled: Callable[[], bool]) -> Iterator[Case]:
    """Yield the U-Net's cases: as the product loads it, in `channels_last`, and compiled.

    Args:
        device: The device.
        toy: Whether the U-Net is tiny.
        compiled: Says, when the others are done, whether it is compiled.
    """
    import torch

    unet: Any = random_unet(device, toy=toy)
    difference = _difference(unet)
    fault = f"the output differs by {difference:.3f} of its length" if not difference <= UNET_TOLERANCE else ""
    one = unet_inputs(unet, 1)
    flops = counted_flops(lambda: unet(*one))
    pictures = _TOY_GUIDES if toy else _GUIDES
    inputs = unet_inputs(unet, pictures)

    def case(way: str, model: Callable[..., Any], **more: Any) -> Case:  # noqa: ANN401 - fields of a case
        rate = pictures * passes_a_second(lambda: _step(model, inputs), device)
        return Case(UNET, f"steps, {way}", rate, flops, is_steps=True, **more)

    yield case("as the product loads it", unet, fault=fault, facts={"relative difference": difference})
    unet.to(memory_format=torch.channels_last)
    inputs = (inputs[0].to(memory_format=torch.channels_last), *inputs[1:])
    yield case("channels_last", unet)
    if compiled():
        model, way = _compiled(unet, inputs)
        yield case(f"channels_last, {way}", model)


def _compiled(unet: Any, inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], str]:  # noqa: ANN401 - diffusers is untyped
    """Return the U-Net compiled, or as it is where that fails, as the product does with its models; and which of both."""
    import torch

    model = torch.compile(unet)
    try:
        _step(model, inputs)
    except Exception as error:  # noqa: BLE001 - compilers raise anything
        return unet, f"not compiled: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
    return model, "compiled"


def _difference(unet: Any) -> float:  # noqa: ANN401 - diffusers is untyped
    """Return the relative difference of one step from that of a copy on the CPU, in single precision."""
    inputs = unet_inputs(unet, 1)
    on_cpu = copy.deepcopy(unet).float().cpu()
    expected = _step(on_cpu, tuple(part.cpu().float() if part.is_floating_point() else part.cpu() for part in inputs))
    return relative_difference(_step(unet, inputs).float().cpu().numpy(), expected.numpy())


def _step(model: Callable[..., Any], inputs: tuple[Any, ...]) -> torch.Tensor:
    import torch

    with torch.inference_mode():
        output: torch.Tensor = model(*inputs).sample
    return output
