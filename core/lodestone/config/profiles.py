"""Which models, spaces, generators and fusion does a profile stand for?

`embedded` needs nothing but the wheels. `fast`, `balanced` and `accurate` are NEEDLE's modes (Erfanian, Dehghankar and Asudeh,
2024, arXiv:2412.00639; UIC-InDeXLab/Needle, configs/{fast,balanced,accurate}): its embedders with their published weights, its
number of guides a query, its HNSW parameters (backend/initialize.py: M 48, efConstruction 200), one local engine with a
fall-back. `accurate` is its table of six embedders. Two things are added to each mode, for NEEDLE has no text pass of its own:
MiniLM for captions, tags and topics, and one CLIP space that takes words, with the mean of the mode's weights. In `balanced`
that space is NEEDLE's own fourth embedder, loaded with its text tower.

Their models are only named here: whoever chooses such a profile fetches them, under their own licences (docs/models.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lodestone.config.engines import EngineSettings
from lodestone.errors import UnknownNameError
from lodestone_schemas.collections import HnswSpec, Quantization


@dataclass(frozen=True, slots=True)
class Profile:
    """A named way to run Lodestone.

    Attributes:
        name: As in the setting `profile`.
        backbones: Image models whose outputs are stored.
        text_encoder: Text model of queries and captions.
        spaces: Spaces that are searched.
        generators: Guide engines asked by default.
        guides: Guides a query at most.
        fusion: Default fusion method.
        image_size: Side of a generated picture, pixels, where an engine's settings do not say.
        gate: Do simple queries stop after the text pass, where the settings do not say?
        adaptive: Are guides drawn until the first results are stable, where the settings do not say?
        depth: Candidates from each list, where the settings do not say.
        hnsw: Graph of each space's collection, where the settings do not say.
        quantization: Of each space's collection, where the settings do not say.
        on_disk: Are original vectors kept on disk, where the settings do not say?
        direct: Space -> the backbone (`NAME` or `NAME#OUTPUT`) whose output is the space as it is.
        labels: Classifiers of the space `labels`; empty for those that it is published with.
        space_priors: Space -> its trust before any feedback, 1 where it is not named; ratios count.
        engines: Engine -> its settings, where the user's have no section of that name.
    """

    name: str
    backbones: tuple[str, ...]
    text_encoder: str
    spaces: tuple[str, ...]
    generators: tuple[str, ...]
    guides: int
    fusion: str
    image_size: int = 256
    gate: bool = False
    adaptive: bool = False
    depth: int = 100
    hnsw: HnswSpec = field(default_factory=HnswSpec)
    quantization: Quantization = Quantization.NONE
    on_disk: bool = False
    direct: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    space_priors: Mapping[str, float] = field(default_factory=dict)
    engines: Mapping[str, EngineSettings] = field(default_factory=dict)


# NEEDLE's embedders, by the names that it gives them.
_EVA: Final = "timm:eva02_large_patch14_448.mim_m38m_ft_in22k_in1k"
_REGNET: Final = "timm:regnety_1280.swag_ft_in1k"
_DINO: Final = "timm:vit_large_patch14_reg4_dinov2.lvd142m"
_CLIP: Final = "timm:vit_large_patch14_clip_336.openai_ft_in12k_in1k"
_CONVNEXT: Final = "timm:convnextv2_large.fcmae_ft_in22k_in1k_384"
_BEIT: Final = "timm:beitv2_large_patch16_224.in1k_ft_in22k_in1k"
# CLIP models that take words too.
_CLIP_B32: Final = "open_clip:ViT-B-32/laion2b_s34b_b79k"
_CLIP_B16: Final = "open_clip:ViT-B-16/openai"
_CLIP_L14: Final = "open_clip:ViT-L-14/laion2b_s32b_b82k"

_NEEDLE_HNSW: Final = HnswSpec(m=48, ef_construct=200, ef=128)
_GUIDE_PX: Final = 512  # what the turbo models were trained on

_SD_TURBO: Final = EngineSettings(kind="diffusers", model="sd-turbo", size=_GUIDE_PX, concurrency=1)
_SDXL_TURBO: Final = EngineSettings(kind="diffusers", model="sdxl-turbo", size=_GUIDE_PX, concurrency=1)


def _after(engine: EngineSettings) -> EngineSettings:
    """The same engine as a fall-back: asked for what the first one did not give."""
    return engine.model_copy(update={"priority": 1})


def _mode(
    name: str,
    embedders: Mapping[str, tuple[str, float]],
    *,
    guides: int,
    engines: Mapping[str, EngineSettings],
    gate: bool,
    clip: str | None = None,
    quantization: Quantization = Quantization.NONE,
) -> Profile:
    """One of NEEDLE's modes.

    Args:
        name: The profile's.
        embedders: Space -> backbone, published weight.
        guides: A query's.
        engines: The first by priority is asked, the others fill what is missing.
        gate: Simple queries stop after the text pass.
        clip: Backbone of the space `words`, which takes text; None where an embedder does.
        quantization: Of its collections: NEEDLE has none.
    """
    direct = {space: backbone for space, (backbone, _) in embedders.items()}
    priors = {space: weight for space, (_, weight) in embedders.items()}
    if clip is not None:
        direct["words"], priors["words"] = clip, sum(priors.values()) / len(priors)
    return Profile(
        name=name,
        backbones=tuple(dict.fromkeys(direct.values())),
        text_encoder="minilm",
        spaces=tuple(direct),
        generators=tuple(engines),
        guides=guides,
        fusion="needle",
        image_size=_GUIDE_PX,
        gate=gate,
        hnsw=_NEEDLE_HNSW,
        quantization=quantization,
        direct=direct,
        space_priors=priors,
        engines=engines,
    )


PROFILES: dict[str, Profile] = {
    "embedded": Profile(
        name="embedded",
        backbones=("efficientnet-lite0", "efficientnet-lite2"),
        text_encoder="minilm",
        spaces=("bridge", "labels"),
        generators=("exemplar",),
        guides=10,
        fusion="mean_distance",
    ),
    "fast": _mode(
        "fast",
        {"regnet": (_REGNET, 0.33), "eva": (_EVA, 0.67)},
        guides=1,
        engines={"sd-turbo": _SD_TURBO},
        gate=True,
        clip=_CLIP_B32,
        quantization=Quantization.INT8,
    ),
    "balanced": _mode(
        "balanced",
        {"dino": (_DINO, 0.25), "convnextv2": (_CONVNEXT, 0.25), "clip": (_CLIP_B16, 0.25), "eva": (_EVA, 0.25)},
        guides=2,
        engines={"sd-turbo": _SD_TURBO},
        gate=True,
    ),
    "accurate": _mode(
        "accurate",
        {
            "eva": (_EVA, 0.8497),
            "regnet": (_REGNET, 0.8235),
            "dino": (_DINO, 0.8235),
            "clip": (_CLIP, 0.8146),
            "convnextv2": (_CONVNEXT, 0.8184),
            "beit": (_BEIT, 0.7660),
        },
        guides=2,
        engines={"sdxl-turbo": _SDXL_TURBO, "sd-turbo": _after(_SD_TURBO)},
        gate=False,
        clip=_CLIP_L14,
    ),
}


def find_profile(name: str) -> Profile:
    """The profile called `name`; `UnknownNameError` lists the known ones."""
    if name not in PROFILES:
        raise UnknownNameError.among("profile", name, list(PROFILES))
    return PROFILES[name]
