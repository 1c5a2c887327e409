"""Models with random weights, in their real shapes or at toy size: CLIP checkpoints of open_clip and the U-Net of SD-Turbo.

Speed does not depend on what weights were learnt, so nothing is downloaded. A CLIP checkpoint is a directory that the product
loads as any other. Its text tower is left small, because pictures alone are embedded here.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch
    from torch import nn

_TOY_VISION: Final = {"image_size": 64, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16}
_TEXT: Final = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1}
_SD_TURBO: Final[dict[str, Any]] = {
    "sample_size": 64,
    "block_out_channels": (320, 640, 1280, 1280),
    "attention_head_dim": (5, 10, 20, 20),
    "cross_attention_dim": 1024,
    "use_linear_projection": True,
}
_TOY_UNET: Final[dict[str, Any]] = {
    "sample_size": 16,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": 4,
    "cross_attention_dim": 16,
}
_TOKENS: Final = 77


@dataclass(frozen=True, slots=True)
class ClipShape:
    """Shape of a CLIP image tower.

    Attributes:
        name: Name of the model in open_clip.
        published: Pictures a second that clip-retrieval states for it on an A100.
    """

    name: str
    published: float


CLIP_SHAPES: Final = (ClipShape("ViT-B-32", 2500.0), ClipShape("ViT-L-14", 312.0))


def write_random_clip(folder: Path, name: str, *, toy: bool, seed: int = 0) -> Path:
    """Write a CLIP checkpoint with random weights in open_clip's layout, and return its folder.

    Args:
        folder: The folder to make.
        name: Name of the model in open_clip, such as `ViT-B-32`.
        toy: Whether the image tower is cut down to two narrow layers for pictures of 64 pixels.
        seed: Seed of the weights.
    """
    import open_clip
    import torch
    from safetensors.torch import save_file

    published = open_clip.get_model_config(name)
    if published is None:
        raise ValueError(f"open_clip knows no model {name!r}")
    model = {"embed_dim": published["embed_dim"], "vision_cfg": published["vision_cfg"], "text_cfg": _TEXT}
    if toy:
        model |= {"embed_dim": 32, "vision_cfg": _TOY_VISION}
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    save_file(open_clip.CLIP(**model).state_dict(), folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": {}}), encoding="utf-8")
    return folder


def has_diffusers() -> bool:
    """Return whether diffusers is installed."""
    return importlib.util.find_spec("diffusers") is not None


def random_unet(device: torch.device, *, toy: bool, seed: int = 0) -> nn.Module:
    """Return the U-Net of SD-Turbo with random weights on a device, in the precision in which the product loads it."""
    import torch
    from diffusers import UNet2DConditionModel

    from lodestone.models.torch_device import half_precision

    torch.manual_seed(seed)
    with torch.device(device):
        unet: Any = UNet2DConditionModel(**(_TOY_UNET if toy else _SD_TURBO))  # type: ignore[no-untyped-call]
    unet.eval().requires_grad_(requires_grad=False)
    placed: nn.Module = unet.to(half_precision(device))
    return placed


def unet_inputs(unet: Any, pictures: int, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # noqa: ANN401
    """Return the arguments of one denoising step of several pictures.

    Args:
        unet: A U-Net of diffusers.
        pictures: Pictures of the step (n).
        seed: Seed of the noise.

    Returns:
        Latents (n, 4, side, side), the step's number () and texts (n, 77, dim), in the precision of the U-Net, on its device.
    """
    import torch

    draw = torch.Generator().manual_seed(seed)
    config, place = unet.config, {"device": unet.device, "dtype": unet.dtype}
    latents = torch.randn((pictures, config.in_channels, config.sample_size, config.sample_size), generator=draw)
    texts = torch.randn((pictures, _TOKENS, config.cross_attention_dim), generator=draw)
    return latents.to(**place), torch.tensor(500, device=unet.device), texts.to(**place)
