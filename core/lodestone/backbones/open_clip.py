"""CLIP image towers as backbones: any model that open_clip loads.

`open_clip:MODEL/PRETRAINED` is a pair of open_clip's own table (`ViT-B-32/laion2b_s34b_b79k`), `open_clip:hf-hub:owner/name`
any repository in its layout, `open_clip:/directory` a copy of one (`open_clip_config.json` and `open_clip_model.safetensors`).
All three are loaded by the same call. The output, `image`, lies in one space with the vectors of the model's own text tower
(text_encoders/open_clip.py), which is registered under the same name.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lodestone.backbones.preprocess import Fit, Preprocessing, resampling, square_side, three
from lodestone.backbones.torch_backbone import TorchBackbone
from lodestone.errors import ModelUnavailableError, UnknownNameError
from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.checkpoints import HUB_PREFIX, Checkpoint, Layout, find_checkpoint, is_directory
from lodestone.models.packages import import_library

if TYPE_CHECKING:
    import torch

    from lodestone.backbones.torch_backbone import Model
    from lodestone.models.context import ModelContext

PREFIX: Final = "open_clip:"
LAYOUT: Final = Layout(
    config="open_clip_config.json",
    weights=("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin"),
    beside=("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "spiece.model", "*.tiktoken"),
)
# open_clip's defaults for values that a config leaves out (Radford et al., 2021).
_CLIP_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD: Final = (0.26862954, 0.26130258, 0.27577711)
_FITS: Final[dict[str, Fit]] = {"shortest": "crop", "longest": "pad", "squash": "squash"}


class OpenClipBackbone(TorchBackbone):
    """Backbone `open_clip:…` whose one output, `image`, lies in the space of the model's text tower.

    Example:
        >>> backbone = OpenClipBackbone("open_clip:ViT-B-32/laion2b_s34b_b79k", context)
        >>> backbone.outputs
        (OutputSpec(name='image', dim=512),)
    """

    prefix = PREFIX
    package = "open_clip"
    output = "image"
    adapter_version: ClassVar[str] = "1"
    layout = LAYOUT

    @property
    def text_encoder(self) -> str | None:  # type: ignore[override]  # the model's own
        """Return the name of the model's own text tower."""
        return self.name

    def _repository(self) -> str:
        return repository_of(self.source, self._context.cache)

    def _read_preprocessing(self) -> Preprocessing:
        config = self.checkpoint.config.get("preprocess_cfg") or {}
        vision = model_config(self.checkpoint, self.name).get("vision_cfg") or {}
        return Preprocessing(
            size=square_side(config.get("size") or vision.get("image_size") or 224, self.name),
            fit=_FITS.get(str(config.get("resize_mode") or "shortest"), "crop"),
            interpolation=resampling(config, self.name),
            mean=three(config.get("mean"), _CLIP_MEAN),
            std=three(config.get("std"), _CLIP_STD),
            fill=int(config.get("fill_color") or 0),
        )

    def _read_dim(self) -> int:
        return embedding_dim(self.checkpoint, self.name)

    def _load(self) -> tuple[torch.nn.Module, Model]:
        module = load_model(self.checkpoint)
        return module.visual, module.visual  # the text tower is freed


def model_config(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    """Return the part of the config that describes both towers.

    Raises:
        ModelUnavailableError: The config has no such part.
    """
    config = checkpoint.config.get("model_cfg")
    if not isinstance(config, dict):
        raise ModelUnavailableError(f"the config of {name} has no model_cfg", hint="fetch the model's files again", model=name)
    return config


def embedding_dim(checkpoint: Checkpoint, name: str) -> int:
    """Return the length of the vectors of both towers.

    Raises:
        ModelUnavailableError: The config does not state it.
    """
    dim = model_config(checkpoint, name).get("embed_dim")
    if not isinstance(dim, int) or dim < 1:
        raise ModelUnavailableError(f"the config of {name} has no embed_dim", hint="fetch the model's files again", model=name)
    return dim


def clip_checkpoint(source: str, context: ModelContext) -> Checkpoint:
    """Return the model files that `open_clip:SOURCE` names."""
    if not is_directory(source) and not source.startswith(HUB_PREFIX):
        source = repository_of(source, context.cache)
    return find_checkpoint(source, LAYOUT, cache=context.cache, fetch=context.fetch)


def load_model(checkpoint: Checkpoint) -> Any:  # noqa: ANN401 - open_clip is untyped
    """Return the model with both towers, on the CPU; imports open_clip."""
    import open_clip

    return open_clip.create_model(f"local-dir:{checkpoint.folder}", require_pretrained=True)


def repository_of(source: str, cache: ModelCache) -> str:
    """Return the hub's repository of `MODEL/PRETRAINED`.

    open_clip's table is read once (it imports torch), and the answer is cached.

    Raises:
        ModelUnavailableError: open_clip is not installed, or the pair is published elsewhere than on the hub.
        UnknownNameError: open_clip has no such pair.
    """
    model, slash, pretrained = source.partition("/")
    if not (model and slash and pretrained):
        raise UnknownNameError(
            f"unknown model {PREFIX + source!r}",
            hint=f"write {PREFIX}MODEL/PRETRAINED, {PREFIX}{HUB_PREFIX}owner/name or {PREFIX}/directory",
        )
    try:
        key = fingerprint(source, installed_version("open_clip_torch"))
    except PackageNotFoundError as error:
        raise ModelUnavailableError(
            f"{PREFIX + source} needs the package open_clip, which is not installed", hint=LAYOUT.install, package="open_clip"
        ) from error
    path = cache.obtain("open-clip", key=key, suffix=".repository", build=lambda target: _look_up(model, pretrained, target))
    return path.read_text("utf8")


def _look_up(model: str, pretrained: str, target: Path) -> None:
    table = import_library("open_clip.pretrained", install=LAYOUT.install, needed_by=f"{PREFIX}{model}/{pretrained}")
    config = table.get_pretrained_cfg(model, pretrained)
    if not config:
        tags = [tag for name, tag in table.list_pretrained() if name == model]
        raise UnknownNameError.among("pretrained weights", f"{model}/{pretrained}", [f"{model}/{tag}" for tag in tags])
    repository, _, file = str(config.get("hf_hub") or "").rpartition("/")
    if not repository or file:
        raise ModelUnavailableError(
            f"{json.dumps(f'{model}/{pretrained}')} is not published as a repository of its own",
            hint=f"fetch it yourself and name its directory: {PREFIX}/directory; see docs/models.md",
        )
    target.write_text(repository, "utf8")
