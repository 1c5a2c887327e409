"""Options of a diffusers engine, and models under short names with the settings that their authors recommend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from lodestone.config.section import SettingsSection, refusal_of
from lodestone.errors import ConfigurationError

DEFAULT_MODEL: Final = "sd-turbo"


@dataclass(frozen=True, slots=True)
class Preset:
    """A model under a short name, with the settings that its authors recommend for few steps.

    Attributes:
        repository: Repository on the Hugging Face hub.
        steps: Denoising steps.
        guidance: Classifier-free guidance; distilled models were trained without.
        variant: Variant of the weights on a GPU.
        bfloat16: True when half precision must be bfloat16, because the model overflows in float16.
    """

    repository: str
    steps: int = 1
    guidance: float = 0.0
    variant: str | None = "fp16"
    bfloat16: bool = False


PRESETS: Final[Mapping[str, Preset]] = {
    "sd-turbo": Preset("stabilityai/sd-turbo"),
    "sdxl-turbo": Preset("stabilityai/sdxl-turbo"),
    "flux-schnell": Preset("black-forest-labs/FLUX.1-schnell", variant=None, bfloat16=True),
}


class DiffusersOptions(SettingsSection):
    """`options` of a diffusers engine; None stands for the preset's value, or the pipeline's own."""

    steps: int | None = Field(None, ge=1, le=200)
    guidance: float | None = Field(None, ge=0, le=50)
    variant: str | None = None
    device: str | None = None
    init_image: Path | None = None
    strength: float = Field(0.6, gt=0, le=1)
    batch: int | None = Field(None, ge=1, le=64)

    @classmethod
    def of(cls, options: Mapping[str, Any], *, engine: str) -> DiffusersOptions:
        """Return the checked options of an engine.

        Raises:
            ConfigurationError: an option is unknown or out of range.
        """
        try:
            return cls(**options)
        except ValidationError as error:
            option, reason = refusal_of(error, within=f"generators.{engine}.options")
            raise ConfigurationError(
                f"option {option!r} of the engine {engine!r} is wrong: {reason}",
                hint=f"a diffusers engine takes {', '.join(cls.model_fields)}; see docs/models.md",
            ) from None
