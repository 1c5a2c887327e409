"""Settings section `cluster`: how an index run uses a Ray cluster.

It names the cluster, the shape of the pipeline and the resources that each actor asks for.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Shape = Literal["fat", "split"]

_ADDRESS = re.compile(r"auto|(ray://)?[^\s/:]+:\d{1,5}|(ray://)?\[[0-9a-fA-F:]+\]:\d{1,5}")


class ClusterSettings(BaseModel):
    """Settings of the Ray cluster that embeds pictures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str | None = Field(
        None, description="Ray cluster: HOST:PORT, ray://HOST:PORT, or auto inside a Ray job; default: this machine alone."
    )
    shape: Shape = Field(
        "fat", description="fat: an actor reads, decodes and embeds; split: decoding on CPUs apart from the models."
    )
    actors: int = Field(0, ge=0, le=10_000, description="Actors that hold models; 0 for as many as fit.")
    cpus_per_actor: float = Field(1.0, gt=0, le=256, description="CPUs that an actor with models asks for.")
    gpus_per_actor: float = Field(0.0, ge=0, le=64, description="GPUs that it asks for; .5 puts two on one GPU.")
    decoders: int = Field(0, ge=0, le=10_000, description="Actors that decode (shape = split); 0 for as many as fit.")
    cpus_per_decoder: float = Field(1.0, gt=0, le=256, description="CPUs, and decoding threads, of each of them.")
    load: bool = Field(
        True,
        description="Load vectors by tasks on the cluster's nodes, which must reach store.url; false: by the driver alone.",
    )
    model_cache: str | None = Field(
        None, description="Folder on each node for converted models; default: models.cache, as the node sees it."
    )

    @field_validator("address")
    @classmethod
    def _readable(cls, address: str | None) -> str | None:
        if address is not None and not _ADDRESS.fullmatch(address):
            raise ValueError("expected HOST:PORT, ray://HOST:PORT or auto")
        return address

    @field_validator("gpus_per_actor")
    @classmethod
    def _whole_or_shared(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("expected a share below 1, or whole GPUs")
        return gpus
