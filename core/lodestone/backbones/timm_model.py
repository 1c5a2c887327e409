"""Models of timm as backbones: any pretrained model, without its classification head.

`timm:NAME` is the model that timm's hub organisation publishes under that name (`timm/NAME`), `timm:hf-hub:owner/name` any
repository in timm's layout, `timm:/directory` a copy of one (`config.json` and `model.safetensors`, as written by
`timm.models.save_for_hf`). All three are loaded by the same call. The output, `features`, is the input of the removed head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from lodestone.backbones.preprocess import IMAGENET_MEAN, IMAGENET_STD, Fit, Preprocessing, resampling, square_side, three
from lodestone.backbones.torch_backbone import TorchBackbone
from lodestone.errors import ModelUnavailableError
from lodestone.models.checkpoints import Layout

if TYPE_CHECKING:
    import torch

    from lodestone.backbones.torch_backbone import Model

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
