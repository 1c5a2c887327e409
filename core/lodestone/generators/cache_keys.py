"""What makes two guides the same? Prompt, engine, version, model and options, seed, number and size; nothing else."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, dataclass

from blake3 import blake3

from lodestone.generators.base import GuideRequest
from lodestone.generators.engine_call import Engine


@dataclass(frozen=True, slots=True)
class GuideKey:
    """A sequence of guides; with a number, one of them.

    Attributes:
        prompt: Normalised: case and spaces do not count.
        engine: Its name.
        version: Of its generator.
        model: What draws: kind, address, model name and options.
        seed: Of the sequence.
        size: Side asked for, pixels.
        tenant: Who shares it; "" for all who see every corpus.
    """

    prompt: str
    engine: str
    version: str
    model: str
    seed: int
    size: int
    tenant: str = ""

    def digest(self, *, picture_px: int) -> str:
        """32 hexadecimal digits; other for pictures kept in another size."""
        facts = json.dumps([*(value for name, value in asdict(self).items() if name != "tenant" or value), picture_px])
        return blake3(facts.encode()).hexdigest(length=16)


def key_of(engine: Engine, request: GuideRequest) -> GuideKey:
    """The sequence that `engine` draws for `request`."""
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
    )


def normalised_prompt(prompt: str) -> str:
    """The same for prompts that differ in case, spaces or Unicode form only."""
    return " ".join(unicodedata.normalize("NFKC", prompt).casefold().split())
