"""Settings section `cluster`: how an index run uses a Ray cluster.

It names the cluster, the number of actors and the resources that each of them asks for.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import Field, field_validator, model_validator

from lodestone.config.section import SettingsSection

_MOST_ACTORS: Final = 10_000
_GONE: Final = {
    "shape": "every actor reads, decodes and embeds: remove it",
    "decoders": "every actor decodes by itself: remove it, and give each one the CPUs for it (cluster.cpus_per_actor)",
    "cpus_per_decoder": "every actor decodes by itself: remove it, and use cluster.cpus_per_actor",
}
_ADDRESS = re.compile(r"auto|(ray://)?[^\s/:]+:\d{1,5}|(ray://)?\[[0-9a-fA-F:]+\]:\d{1,5}")


class ClusterSettings(SettingsSection):
    """Settings of the Ray cluster that embeds pictures."""

    address: str | None = Field(
        None, description="Ray cluster: HOST:PORT on one of its nodes, or auto inside a Ray job; default: this machine alone."
    )
    actors: int | tuple[int, int] = Field(
        0, description="Actors that embed: a number, [least, most], or 0 for as many as fit at any time."
    )
    cpus_per_actor: float = Field(1.0, gt=0, le=256, description="CPUs that an actor asks for, and its threads that decode.")
    gpus_per_actor: float = Field(0.0, ge=0, le=64, description="GPUs that it asks for; .5 puts two on one GPU.")
    wait_s: float = Field(
        1800.0, ge=0, le=86_400, description="Longest wait for room for the first actor, while nodes are started."
    )
    load: bool = Field(
        True,
        description="Load vectors by tasks on the cluster's nodes, which must reach store.url; false: by the driver alone.",
    )
    model_cache: str | None = Field(
        None, description="Folder on each node for converted models; default: models.cache, as the node sees it."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_decoders(cls, given: Any) -> Any:  # noqa: ANN401 - whatever a file has
        gone = [name for name in _GONE if isinstance(given, dict) and given.get(name) is not None]
        if gone:
            raise ValueError(f"cluster.{gone[0]} is no setting any more: {_GONE[gone[0]]}")
        return {key: each for key, each in given.items() if key not in _GONE} if isinstance(given, dict) else given

    @field_validator("actors")
    @classmethod
    def _from_least_to_most(cls, actors: int | tuple[int, int]) -> int | tuple[int, int]:
        least, most = actors if isinstance(actors, tuple) else (actors, actors)
        if not (0 <= least <= most <= _MOST_ACTORS) or (isinstance(actors, tuple) and not least):
            raise ValueError(f"expected a number up to {_MOST_ACTORS:,}, or [least, most] with 1 <= least <= most")
        return actors

    @field_validator("address")
    @classmethod
    def _readable(cls, address: str | None) -> str | None:
        if address is not None and not _ADDRESS.fullmatch(address):
            raise ValueError("expected HOST:PORT or auto")
        return address

    @field_validator("gpus_per_actor")
    @classmethod
    def _whole_or_shared(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("expected a share below 1, or whole GPUs")
        return gpus
