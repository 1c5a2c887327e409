"""Base class of backbones that run a torch model, shared by the adapters of open_clip and timm.

A checkpoint is a directory (a hub's copy is one too) with a JSON config and weights. Everything that must be known before the
model is loaded (version, dimension, input size) is read from the config and from the weights' hash; torch is imported by
`warm_up`. A source is written `PREFIX:/directory`, `PREFIX:hf-hub:owner/name` or as the library's own short name of a hub
model.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PIL import Image

from lodestone.backbones.base import Backbone, Outputs, OutputSpec, Pixels
from lodestone.backbones.preprocess import Preprocessing
from lodestone.errors import ModelUnavailableError
from lodestone.models.cache import fingerprint
from lodestone.models.checkpoints import CANNOT_LOAD, HUB_PREFIX, Checkpoint, Layout, find_checkpoint, is_directory
from lodestone.models.context import ModelContext
from lodestone.models.hardware import gpus
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    import torch

    from lodestone.models.device_pixels import DeviceCopies, DevicePixels

    Model = Callable[[torch.Tensor], torch.Tensor]  # (n, 3, size, size), normalised -> (n, dim)


_log = logging.getLogger(__name__)


class TorchBackbone(Backbone):
    """Backbone with one output that is computed by a torch model.

    Args:
        name: `PREFIX:SOURCE`, as it is registered.
        context: Model cache and number of threads.
    """

    prefix: ClassVar[str]  # with its colon
    package: ClassVar[str]  # name of the package to import
    output: ClassVar[str]  # name of the output
    layout: ClassVar[Layout]
    adapter_version: ClassVar[str]  # raise it when the same weights and pixels would give other outputs

    def __init__(self, name: str, context: ModelContext) -> None:
        self.name = name
        self.source = name.removeprefix(self.prefix)
        self._context = context
        self._model: Model | None = None
        self._device: torch.device | None = None
        self._scale: tuple[torch.Tensor, torch.Tensor] | None = None
        self._copies: DeviceCopies | None = None
        self._lock = threading.Lock()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Return the model's files, which are downloaded from the hub at the first use if the machine has none.

        Raises:
            ModelUnavailableError: The files cannot be obtained.
        """
        source = self.source
        if not is_directory(source) and not source.startswith(HUB_PREFIX):
            source = self._repository()
        return find_checkpoint(source, self.layout, cache=self._context.cache, fetch=self._context.fetch)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """Return the preprocessing that the model was trained with."""
        return self._read_preprocessing()

    @property
    def input_size(self) -> int:  # type: ignore[override]  # known only once the config is read
        """Return the side of the model's input, in pixels."""
        return self.preprocessing.size

    @cached_property
    def outputs(self) -> tuple[OutputSpec, ...]:  # type: ignore[override]  # known only once the config is read
        """Return the only output; its length is read from the config."""
        return (OutputSpec(self.output, self._read_dim()),)

    @cached_property
    def version(self) -> str:
        """Return the hash of the weights, the config, the adapter and the preprocessing; loads no model."""
        return fingerprint(self.prefix, self.adapter_version, self.checkpoint.identity, self.preprocessing.key())[:12]

    @abstractmethod
    def _repository(self) -> str:
        """Return the hub's repository (`owner/name`) of a short name."""

    @abstractmethod
    def _read_preprocessing(self) -> Preprocessing: ...

    @abstractmethod
    def _read_dim(self) -> int: ...

    @abstractmethod
    def _load(self) -> tuple[torch.nn.Module, Model]:
        """Return the model on the CPU, in evaluation mode, and the function that embeds with it."""

    def on_gpu(self) -> bool:
        """Return whether there is a GPU, and a torch that uses it."""
        if not gpus():
            return False
        from lodestone.models.torch_device import choose_device

        return choose_device().type == "cuda"

    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model, onto the GPU if there is one; imports the library (seconds).

        Raises:
            ModelUnavailableError: The library is not installed, or the files hold no model that it can load.
        """
        with self._lock:
            if self._model is not None:
                return
            import_library(self.package, install=self.layout.install, needed_by=self.name)
            expected = self.outputs[0].dim
            import torch

            from lodestone.models.device_pixels import DeviceCopies
            from lodestone.models.torch_device import choose_device, limit_threads, place_module

            limit_threads(threads or self._context.threads)
            try:
                module, model = self._load()
            except CANNOT_LOAD as error:
                raise ModelUnavailableError(
                    f"{self.package} cannot load {self.name}: {_first_line(error)}",
                    hint="its files are damaged, or need another release of the library; see docs/models.md",
                    model=self.name,
                ) from error
            self._device = choose_device()
            place_module(module, self._device)
            self._copies = copies = DeviceCopies(self._device)
            mean, std = (torch.tensor(v, device=self._device) for v in (self.preprocessing.mean, self.preprocessing.std))
            self._scale = ((255 * mean).view(3, 1, 1), (255 * std).view(3, 1, 1))
            blank = np.zeros((1, self.input_size, self.input_size, 3), np.uint8)
            dim = self._run(model, copies.upload(blank)).shape[1]
            if dim != expected:
                raise ModelUnavailableError(
                    f"{self.name} gives {dim} values a picture, but its config says {expected}",
                    hint="its head cannot be taken off as usual; use another model",
                    model=self.name,
                )
            self._model = self._compiled(model, copies) if self._context.compiled else model

    def _compiled(self, model: Model, copies: DeviceCopies) -> Model:
        """Return the model compiled for batches of any size, or as it is where that fails."""
        import torch

        compiled: Model = torch.compile(model, dynamic=True)
        pair = np.zeros((2, self.input_size, self.input_size, 3), np.uint8)  # sizes 0 and 1 are compiled apart
        try:
            self._run(compiled, copies.upload(pair))
        except Exception as error:  # noqa: BLE001 - compilers raise anything: no C++ compiler, an operator that is not known
            _log.warning("%s is not compiled: %s", self.name, _first_line(error))
            return model
        return compiled

    def prepare(self, image: Image.Image) -> Pixels:
        """Convert one picture to (size, size, 3) uint8, as the model was trained."""
        return self.preprocessing.prepare(image)

    def upload(self, pixels: Pixels) -> Pixels | DevicePixels:
        """Start the copy of a batch for `embed` to the model's device."""
        if self.check(pixels, warm=self._model is not None) is not None or self._copies is None:
            return pixels
        return self._copies.upload(pixels)

    def embed(self, pixels: Pixels | DevicePixels) -> Outputs:
        """Embed (n, size, size, 3) uint8, or a batch from `upload`, into {output: (n, dim) float16}.

        Raises:
            ValueError: The pixels have another shape or type.
            RuntimeError: `warm_up` was not called.
        """
        if isinstance(pixels, np.ndarray):
            empty = self.check(pixels, warm=self._model is not None)
            if empty is not None or self._copies is None:
                return empty or {}
            pixels = self._copies.upload(pixels)
        assert self._model is not None  # noqa: S101 - `upload` needs it
        return {self.output: self._run(self._model, pixels).astype(np.float16)}

    def _run(self, model: Model, pixels: DevicePixels) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        from lodestone.models.torch_device import inference

        assert self._device is not None  # noqa: S101 - set before the model is
        assert self._copies is not None  # noqa: S101
        assert self._scale is not None  # noqa: S101
        mean, std = self._scale
        with inference(self._device):
            planes = self._copies.arrived(pixels)
            rows: np.ndarray[tuple[int, int], np.dtype[np.float32]] = model((planes.float() - mean) / std).float().cpu().numpy()
        return rows


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
