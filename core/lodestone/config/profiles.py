"""Which models, spaces, generators and fusion does a profile stand for?"""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.errors import UnknownNameError


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
    """

    name: str
    backbones: tuple[str, ...]
    text_encoder: str
    spaces: tuple[str, ...]
    generators: tuple[str, ...]
    guides: int
    fusion: str


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
}


def find_profile(name: str) -> Profile:
    """The profile called `name`; `UnknownNameError` lists the known ones."""
    if name not in PROFILES:
        raise UnknownNameError.among("profile", name, list(PROFILES))
    return PROFILES[name]
