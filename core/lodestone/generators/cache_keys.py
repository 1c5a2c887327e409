"""Keys of cached guides: prompt, engine, version, model and options, seed, number and size identify a guide.

An edited picture's key also holds a digest of the picture that it was made of, and of how far it may go from that.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, dataclass

from blake3 import blake3

from lodestone.generators.base import GuideRequest
from lodestone.generators.engine_call import Engine


@dataclass(frozen=True, slots=True)
class GuideKey:
    """Key of a sequence of guides; with a number it identifies one of them.

    Attributes:
        prompt: Normalised prompt: case and spaces do not count.
        engine: Name of the engine.
        version: Version of its generator.
        model: Digest of kind, address, model name and options.
        seed: Seed of the sequence.
        size: Side asked for, pixels.
        tenant: Group of callers that share it; "" for all who see every corpus.
        edit: Digest of the picture to edit and of the strength; "" for pictures that are drawn.
    """

    prompt: str
    engine: str
    version: str
    model: str
    seed: int
    size: int
    tenant: str = ""
    edit: str = ""

    def digest(self, *, picture_px: int) -> str:
        """Return 32 hexadecimal digits, which differ for pictures stored in another size."""
        later = ("tenant", "edit")  # without them, keys are those of earlier versions
        facts: list[object] = [value for name, value in asdict(self).items() if name not in later]
        facts += [self.tenant] if self.tenant else []
        facts += [{"edit": self.edit}] if self.edit else []
        return blake3(json.dumps([*facts, picture_px]).encode()).hexdigest(length=16)


def key_of(engine: Engine, request: GuideRequest) -> GuideKey:
    """Return the key of the sequence that `engine` draws for `request`."""
    settings = engine.settings
    model = [settings.kind, settings.url, settings.model, settings.options]
    return GuideKey(
        prompt=normalised_prompt(request.prompt),
        engine=engine.name,
        version=engine.generator.version,
        model=blake3(json.dumps(model, sort_keys=True, default=str).encode()).hexdigest(length=16),
        seed=request.seed,
        size=settings.size,
        tenant=request.tenant,
        edit="" if request.edit is None else request.edit.digest(),
    )


def normalised_prompt(prompt: str) -> str:
    """Return a text that is equal for prompts that differ only in case, spaces or Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())
