"""Base class of backbones that run a torch model, shared by the adapters of open_clip and timm.

A checkpoint is a directory (a hub's copy is one too) with a JSON config and weights. Everything that must be known before the
model is loaded (version, dimension, input size) is read from the config and from the weights' hash; torch is imported by
`warm_up`. A source is written `PREFIX:/directory`, `PREFIX:hf-hub:owner/name` or as the library's own short name of a hub
model.

Models of timm as backbones: any pretrained model, without its classification head. `timm:NAME` is the model that timm's hub
organisation publishes under that name (`timm/NAME`), `timm:hf-hub:owner/name` any repository in timm's layout,
`timm:/directory` a copy of one (`config.json` and `model.safetensors`, as written by `timm.models.save_for_hf`). All three are
loaded by the same call. The output, `features`, is the input of the removed head.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from PIL import Image

from lodestone.backbones.base import Backbone, Outputs, OutputSpec, Pixels
from lodestone.backbones.preprocess import IMAGENET_MEAN, IMAGENET_STD, Fit, Preprocessing, resampling, square_side, three
from lodestone.errors import ModelUnavailableError
from lodestone.models.cache import fingerprint
from lodestone.models.checkpoints import CANNOT_LOAD, HUB_PREFIX, Checkpoint, Layout, find_checkpoint, is_directory
from lodestone.models.context import ModelContext
from lodestone.models.hardware import gpus
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    import torch

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


_CROP_SHARE: Final = 0.875  # timm's default for a config without a value
_FITS: Final[dict[str, Fit]] = {"center": "crop", "squash": "squash", "border": "pad"}


class TimmBackbone(TorchBackbone):
    """Backbone `timm:…` with one output, `features`. It takes no text, so its space is searched by pictures and guides.

    Example:
        >>> backbone = TimmBackbone("timm:vit_large_patch14_reg4_dinov2.lvd142m", context)
        >>> backbone.outputs
        (OutputSpec(name='features', dim=1024),)
    """

    prefix = "timm:"
    package = "timm"
    output = "features"
    adapter_version: ClassVar[str] = "1"
    layout = Layout(config="config.json", weights=("model.safetensors", "pytorch_model.bin"))

    def _repository(self) -> str:
        return self.source if "/" in self.source else f"timm/{self.source}"

    @property
    def _pretrained(self) -> dict[str, Any]:
        config = self.checkpoint.config
        pretrained = config.get("pretrained_cfg", config)  # older files have one level less
        return dict(pretrained) if isinstance(pretrained, dict) else {}

    def _read_preprocessing(self) -> Preprocessing:
        config = self._pretrained
        mean = three(config.get("mean"), IMAGENET_MEAN)
        return Preprocessing(
            size=square_side(config.get("input_size") or (3, 224, 224), self.name),
            fit=_FITS.get(str(config.get("crop_mode")), "crop"),
            keep=min(1.0, float(config.get("crop_pct") or _CROP_SHARE)),
            interpolation=resampling(config, self.name),
            mean=mean,
            std=three(config.get("std"), IMAGENET_STD),
            fill=round(255 * sum(mean) / 3),
        )

    def _read_dim(self) -> int:
        dim = self.checkpoint.config.get("num_features")
        if not isinstance(dim, int) or dim < 1:
            raise ModelUnavailableError(
                f"the config of {self.name} does not say how many features the model has",
                hint="write the directory with timm.models.save_for_hf, or add num_features to config.json",
                model=self.name,
            )
        return dim

    def _load(self) -> tuple[torch.nn.Module, Model]:
        import timm

        module = timm.create_model(f"local-dir:{self.checkpoint.folder}", pretrained=True, num_classes=0)
        return module, module
