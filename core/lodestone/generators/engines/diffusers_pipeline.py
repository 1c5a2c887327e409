"""Opening of diffusers pipelines, from a local directory or the hub's cache, or of loaded ones for another task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import ModelUnavailableError
from lodestone.models.checkpoints import CANNOT_LOAD, is_directory

if TYPE_CHECKING:
    from PIL import Image


def open_pipeline(
    model: str,
    *,
    device: str,
    variant: str | None,
    bfloat16: bool,
    from_picture: bool,
    engine: str,
) -> Any:  # noqa: ANN401 - diffusers is untyped
    """Return the pipeline of a model, on the CPU; a local copy wins.

    Args:
        model: A directory, or a repository of the hub.
        device: Type of the device that it will run on; decides the precision.
        variant: Variant of the weights; the plain ones where a copy does not have it.
        bfloat16: True for bfloat16 where half precision would be float16.
        from_picture: Whether pictures start from another picture.
        engine: Name of the engine, for the error.

    Raises:
        ModelUnavailableError: the model cannot be had or loaded.
    """
    import diffusers
    import torch
    import transformers

    from lodestone.models.torch_device import half_precision

    for library in (diffusers, transformers):  # their progress bars would fill the service's log
        library.utils.logging.disable_progress_bar()
    dtype = torch.bfloat16 if bfloat16 else half_precision(torch.device(device))
    kind = diffusers.AutoPipelineForImage2Image if from_picture else diffusers.AutoPipelineForText2Image
    problem: Exception | None = None
    for local in (True,) if is_directory(model) else (True, False):
        for wanted in dict.fromkeys((variant, None)):  # not every copy has the variant
            try:
                return _from_pretrained(kind, model, dtype=dtype, variant=wanted, local=local)
            except CANNOT_LOAD as error:
                problem = error
    raise ModelUnavailableError(
        f"diffusers cannot load {model!r}: {(str(problem).strip() or type(problem).__name__).splitlines()[0]}",
        hint="fetch it once with network access (and an account, where its licence asks for one), or set "
        f"generators.{engine}.model to a local directory; see docs/models.md",
        model=model,
    ) from problem


def editing_pipeline(pipe: Any, *, engine: str) -> Any:  # noqa: ANN401
    """Return the image-to-image pipeline with the weights of a loaded pipeline; nothing is loaded again.

    Args:
        pipe: A text-to-image pipeline, on its device.
        engine: Name of the engine, for the error.

    Raises:
        ModelUnavailableError: diffusers knows no such pipeline for the model.
    """
    import diffusers

    try:
        editor = diffusers.AutoPipelineForImage2Image.from_pipe(pipe)
    except ValueError as error:
        raise ModelUnavailableError(
            f"the model of the engine {engine!r} ({type(pipe).__name__}) edits no pictures",
            hint=f"set generators.{engine}.model to one with an image-to-image pipeline, e.g. sd-turbo",
        ) from error
    editor.set_progress_bar_config(disable=True)
    return editor


def fitted(pixels: NDArray[np.uint8], size: int, multiple: int) -> Image.Image:
    """Return a picture with a longer side of about `size` pixels, in its shape as far as the multiple allows.

    Args:
        pixels: (h, w, 3) uint8 RGB.
        size: Pixels of the longer side at most, but for `multiple` itself.
        multiple: What both sides are multiples of, pixels.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    sides = [max(multiple, int(side * scale) // multiple * multiple) for side in (width, height)]
    return Image.fromarray(pixels).resize((sides[0], sides[1]), Image.Resampling.LANCZOS, reducing_gap=3.0)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a GPU's memory was too small; memory that torch keeps for later is released then."""
    import torch

    if not isinstance(error, torch.OutOfMemoryError):
        return False
    torch.cuda.empty_cache()
    return True


def _from_pretrained(kind: Any, model: str, *, dtype: Any, variant: str | None, local: bool) -> Any:  # noqa: ANN401
    """Load the pipeline for its task; if diffusers knows no such task for it, as the class that the model names."""
    import diffusers

    where = str(Path(model).expanduser()) if is_directory(model) else model
    load: list[Callable[..., Any]] = [kind.from_pretrained]
    if kind is diffusers.AutoPipelineForText2Image:
        load.append(diffusers.DiffusionPipeline.from_pretrained)
    for attempt, loader in enumerate(load, 1):
        try:
            return loader(where, dtype=dtype, variant=variant, local_files_only=local)
        except ValueError as error:
            if attempt == len(load) or "AutoPipeline" not in str(error):
                raise
    raise AssertionError(model)
