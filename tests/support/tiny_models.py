"""Tiny models with random weights, saved to disk as their libraries save them, to be loaded as real ones are.

They prove that models are found, loaded, run and told apart. They prove nothing about quality: what they see is noise.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CLIP_DIM, CLIP_PX = 32, 64
TIMM_DIM, TIMM_PX = 48, 64


@dataclass(frozen=True)
class TinyModels:
    """Directories of tiny models; shared by a test run, so not to be changed."""

    clip: Path
    timm: Path
    diffusion: Path


@cache
def tiny_models() -> TinyModels:
    """All three, made once a test run (about ten seconds, most of it the libraries' imports)."""
    folder = Path(tempfile.mkdtemp(prefix="lodestone-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return TinyModels(
        write_tiny_clip(folder / "clip"), write_tiny_timm(folder / "timm"), write_tiny_diffusion(folder / "diffusion")
    )


@cache
def declare_torchvision_operators() -> Any:
    """Make torchvision importable beside a torch that it was not built for (a CPU torch from another index).

    A real installation has a matching pair, and this does nothing there.
    """
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:  # "operator torchvision::nms does not exist"
        for module in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[module]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library  # what it declares is gone with it
    return None


def write_tiny_clip(folder: Path, *, seed: int = 0) -> Path:
    """A CLIP model in open_clip's layout: 64-pixel pictures, 32 values."""
    declare_torchvision_operators()
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    config = {
        "model_cfg": {
            "embed_dim": CLIP_DIM,
            "vision_cfg": {"image_size": CLIP_PX, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
            "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
        },
        "preprocess_cfg": {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28], "resize_mode": "shortest"},
    }
    torch.manual_seed(seed)
    save_file(open_clip.CLIP(**config["model_cfg"]).state_dict(), folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps(config), "utf8")
    return folder


def write_tiny_timm(folder: Path, *, seed: int = 0) -> Path:
    """A vision transformer as `timm.models.save_for_hf` writes it: 64-pixel pictures, 48 values, a head of five classes."""
    declare_torchvision_operators()
    import timm
    import torch
    from timm.models import save_for_hf

    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    shape = {"img_size": TIMM_PX, "embed_dim": TIMM_DIM, "depth": 2, "num_heads": 3}
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5, **shape)
    save_for_hf(model, folder, model_args=shape, safe_serialization=True)
    return folder


def write_tiny_diffusion(folder: Path, *, seed: int = 0) -> Path:
    """A Stable Diffusion pipeline of half a megabyte that draws 64 x 64 noise; the prompt matters a little."""
    declare_torchvision_operators()
    import torch
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from diffusers.utils import logging
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer
    from transformers.utils import logging as transformers_logging

    logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
    torch.manual_seed(seed)
    unet = UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=16,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            bos_token_id=0,
            eos_token_id=2,
            pad_token_id=1,
            hidden_size=16,
            intermediate_size=32,
            num_attention_heads=2,
            num_hidden_layers=1,
            vocab_size=1000,
            max_position_embeddings=16,
        )
    )
    schedule = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    StableDiffusionPipeline(
        unet=unet,
        vae=vae,
        text_encoder=text,
        tokenizer=_tiny_tokenizer(folder.with_name(f"{folder.name}-tokenizer"), CLIPTokenizer),
        scheduler=EulerDiscreteScheduler(**schedule, timestep_spacing="trailing", steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder


def _tiny_tokenizer(folder: Path, kind: Any) -> Any:
    """Letters alone."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["<|startoftext|>", "!", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}), "utf8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf8")
    return kind(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)


def as_hub_copy(hub: Path, repository: str, source: Path, *, commit: str = "c0ffee" + 34 * "0", weights: str) -> Path:
    """Lay a model's directory out as the Hugging Face hub's client keeps it; returns the snapshot's folder.

    Args:
        hub: The client's cache.
        repository: `owner/name`.
        source: The model's directory.
        commit: The snapshot's.
        weights: Name of the file that the hub calls by its SHA-256.
    """
    import hashlib

    root = hub / f"models--{repository.replace('/', '--')}"
    snapshot, blobs = root / "snapshots" / commit, root / "blobs"
    for folder in (snapshot, blobs, root / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "refs" / "main").write_text(commit, "ascii")
    for path in source.iterdir():
        content = path.read_bytes()
        name = (hashlib.sha256 if path.name == weights else hashlib.sha1)(content).hexdigest()
        (blobs / name).write_bytes(content)
        link = snapshot / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(blobs / name)
    return snapshot
