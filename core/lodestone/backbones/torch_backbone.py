"""How does any torch model become a backbone? What open_clip's and timm's adapters share.

A checkpoint is a directory (a hub's copy is one too) with a JSON config and weights. All that must be known before the model is
loaded (version, dimension, input size) is read from the config and from the weights' hash; torch is imported by `warm_up`.
Sources are taken as `PREFIX:/directory`, `PREFIX:hf-hub:owner/name` or the library's own short name for a hub model.
"""

from __future__ import annotations

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
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    import torch

    Model = Callable[[torch.Tensor], torch.Tensor]  # (n, 3, size, size), normalised -> (n, dim)


class TorchBackbone(Backbone):
    """One output from a torch model.

    Args:
        name: `PREFIX:SOURCE`, as it is registered.
        context: Cache and threads.
    """

    prefix: ClassVar[str]  # with its colon
    package: ClassVar[str]  # what is imported
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
        self._lock = threading.Lock()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The model's files; fetched from the hub at the first use where the machine has none.

        Raises:
            ModelUnavailableError: they are not to be had.
        """
        source = self.source
        if not is_directory(source) and not source.startswith(HUB_PREFIX):
            source = self._repository()
        return find_checkpoint(source, self.layout, cache=self._context.cache)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """What the model's makers did to pictures."""
        return self._read_preprocessing()

    @property
    def input_size(self) -> int:  # type: ignore[override]  # known only once the config is read
        """Pixels on a side."""
        return self.preprocessing.size

    @cached_property
    def outputs(self) -> tuple[OutputSpec, ...]:  # type: ignore[override]  # known only once the config is read
        """One output; its length is in the config."""
        return (OutputSpec(self.output, self._read_dim()),)

    @cached_property
    def version(self) -> str:
        """Hash of the weights, the config, the adapter and the preprocessing; loads no model."""
        return fingerprint(self.prefix, self.adapter_version, self.checkpoint.identity, self.preprocessing.key())[:12]

    @abstractmethod
    def _repository(self) -> str:
        """The hub's repository (`owner/name`) of a short name."""

    @abstractmethod
    def _read_preprocessing(self) -> Preprocessing: ...

    @abstractmethod
    def _read_dim(self) -> int: ...

    @abstractmethod
    def _load(self) -> tuple[torch.nn.Module, Model]:
        """The model on the CPU, in evaluation mode, and what to call."""

    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model onto the GPU where there is one; imports the library (seconds).

        Raises:
            ModelUnavailableError: the library is not installed, or the files hold no model that it can load.
        """
        with self._lock:
            if self._model is not None:
                return
            import_library(self.package, install=self.layout.install, needed_by=self.name)
            expected = self.outputs[0].dim
            import torch

            from lodestone.models.torch_device import choose_device, limit_threads

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
            module.eval().requires_grad_(False).to(self._device)
            mean, std = (torch.tensor(v, device=self._device) for v in (self.preprocessing.mean, self.preprocessing.std))
            self._scale = ((255 * mean).view(3, 1, 1), (255 * std).view(3, 1, 1))
            got = self._run(model, np.zeros((1, self.input_size, self.input_size, 3), np.uint8)).shape[1]
            if got != expected:
                raise ModelUnavailableError(
                    f"{self.name} gives {got} values a picture, but its config says {expected}",
                    hint="its head cannot be taken off as usual; use another model",
                    model=self.name,
                )
            self._model = model

    def prepare(self, image: Image.Image) -> Pixels:
        """See `Backbone.prepare`: as the model's makers did it."""
        return self.preprocessing.prepare(image)

    def embed(self, pixels: Pixels) -> Outputs:
        """(n, size, size, 3) uint8 -> {output: (n, dim) float16}.

        Raises:
            ValueError: the pixels have another shape or type.
            RuntimeError: `warm_up` was not called.
        """
        nothing = self.check(pixels, warm=self._model is not None)
        if nothing is not None or self._model is None:
            return nothing or {}
        return {self.output: self._run(self._model, pixels).astype(np.float16)}

    def _run(self, model: Model, pixels: Pixels) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        import torch

        from lodestone.models.torch_device import inference

        assert self._device is not None  # noqa: S101 - set before the model is
        assert self._scale is not None  # noqa: S101
        mean, std = self._scale
        with inference(self._device):
            planes = torch.from_numpy(np.require(pixels, requirements=("C", "W"))).to(self._device).permute(0, 3, 1, 2)
            rows: np.ndarray[tuple[int, int], np.dtype[np.float32]] = model((planes.float() - mean) / std).float().cpu().numpy()
        return rows


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
