"""Settings section `serve`: address, authentication, load limits, streams, deployments and telemetry of the service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from lodestone.config.section import SettingsSection

_RATE = re.compile(r"\d+ ?/ ?(second|minute|hour|day)")


class AuthSettings(SettingsSection):
    """Settings that say how callers authenticate.

    With neither keys nor an issuer, every caller is admitted, and the service binds to loopback alone.
    """

    keys: bool = Field(False, description="Ask for API keys (`lodestone keys create`).")
    oidc_issuer: str | None = Field(None, description="Issuer of OpenID Connect bearer tokens, an https URL.")
    oidc_audience: str | None = Field(None, description="What a token's `aud` must name.")
    oidc_jwks_url: str | None = Field(None, description="Where the issuer's keys are; default: as its discovery document says.")
    oidc_scopes_claim: str = Field("scope", description="Claim with the token's scopes, spaces between them or a list.")
    oidc_corpora_claim: str = Field(
        "lodestone_corpora", description="Claim with the corpora that the token sees; without it: all."
    )

    open_metrics: bool = Field(False, description="Let /metrics be read without a key; else it needs the scope admin.")

    @property
    def asks(self) -> bool:
        """Return True if callers must identify themselves."""
        return self.keys or self.oidc_issuer is not None


class LoadSettings(SettingsSection):
    """Settings that say which requests are refused or reduced under load."""

    adaptive: bool = Field(
        True, description="Work on as many queries at once as do not slow each other down, up to max_ongoing."
    )
    text_only_from: float = Field(0.5, ge=0, le=1, description="Share of the queue from which queries get no guides.")
    batch_ongoing: int = Field(2, ge=1, le=1_000, description="Queries of batch searches worked on at once.")
    batch_lines: int = Field(10_000, ge=1, le=1_000_000, description="Questions of one batch search.")
    batch_mb: int = Field(16, ge=1, le=1_024, description="Largest body of a batch search.")
    rate: str | None = Field(None, description="Requests of one key (or one address), e.g. `600/minute`; default: any number.")
    connections: int = Field(512, ge=1, le=1_000_000, description="Connections of one address that may be open at once.")
    retry_after_s: float = Field(1.0, gt=0, le=3_600, description="What refused clients are told to wait, at least.")

    @field_validator("rate")
    @classmethod
    def _readable(cls, rate: str | None) -> str | None:
        if rate is not None and not _RATE.fullmatch(rate):
            raise ValueError("expected N/second, N/minute, N/hour or N/day")
        return rate


class StreamSettings(SettingsSection):
    """Settings that apply to streams of server-sent events."""

    heartbeat_s: float = Field(15.0, gt=0, le=300, description="Seconds between comments that keep a quiet stream open.")
    grace_s: float = Field(2.0, ge=0, le=60, description="Seconds that a query goes on after its reader went away.")
    keep_s: float = Field(60.0, ge=0, le=3_600, description="Seconds for which a finished stream can be taken up again.")


class StageSettings(SettingsSection):
    """Settings of one deployment of the query graph; limits hold for one replica."""

    min_replicas: int = Field(1, ge=0, le=10_000, description="Replicas at least; 0 lets a generator go when nobody asks.")
    max_replicas: int = Field(1, ge=1, le=10_000, description="Replicas at most; equal to the least: no autoscaling.")
    max_per_node: int | None = Field(None, ge=1, le=100, description="Replicas on one node at most; default: no limit.")
    target_ongoing: float = Field(4.0, gt=0, description="Calls a replica should have; more bring more replicas.")
    target_occupancy: float = Field(
        0.7, gt=0, le=1, description="How full the passes of a replica of the encoders should be; fuller ones bring more."
    )
    max_ongoing: int = Field(16, ge=1, description="Calls a replica works on at once.")
    max_queued: int = Field(64, ge=0, description="Calls that may wait for this stage, of all callers together.")
    cpus: float = Field(1.0, ge=0, le=256, description="CPUs of a replica.")
    gpus: float = Field(0.0, ge=0, le=64, description="GPUs of a replica; .5 puts two on one GPU.")
    batch: int = Field(16, ge=1, le=1_024, description="Items of one model pass at most.")
    upscale_delay_s: float = Field(10.0, ge=0, description="Seconds of load before replicas are added.")
    downscale_delay_s: float = Field(300.0, ge=0, description="Seconds of quiet before replicas are taken away.")
    resources: dict[str, float] = Field(default_factory=dict, description="Custom Ray resources of a replica.")


class OptionalStageSettings(StageSettings):
    """Settings of a stage that runs in the ingress unless it is made a deployment of its own."""

    enabled: bool = Field(False, description="Make it a deployment of its own; needs the shape graph.")


class LanguageModelSettings(SettingsSection):
    """Settings of a language model that vLLM serves inside the graph (`ray.serve.llm`)."""

    model: str = Field(description="Name on a hub, or a folder.")
    gpus: float = Field(1.0, ge=0, le=64, description="GPUs of a replica.")
    min_replicas: int = Field(1, ge=0, le=1_000, description="Replicas at least.")
    max_replicas: int = Field(1, ge=1, le=1_000, description="Replicas at most.")
    max_model_len: int | None = Field(None, ge=1, description="Longest context, tokens; default: the model's.")


class GraphSettings(SettingsSection):
    """Settings that say which stages are deployments of their own.

    The shape `app` has none of them and is the best on one machine.
    """

    shape: Literal["app", "graph"] = Field("app", description="app: one process; graph: encoders and generators apart.")
    ingress: StageSettings = Field(default_factory=StageSettings, description="HTTP and engine; several need a server store.")
    encoders: StageSettings = Field(default_factory=StageSettings, description="All models of words and pictures.")
    generators: dict[str, StageSettings] = Field(
        default_factory=dict, description="Engine to its deployment; one without a section gets the defaults."
    )
    fusion: OptionalStageSettings = Field(
        default_factory=OptionalStageSettings, description="Fusion of the lists of queries; docs/graph.md says why it is off."
    )
    tagging: OptionalStageSettings = Field(
        default_factory=OptionalStageSettings, description="Tagging of single pictures; docs/graph.md says why it is off."
    )
    llm: LanguageModelSettings | None = Field(None, description="A language model beside them; default: none.")


class TelemetrySettings(SettingsSection):
    """Settings that configure OpenTelemetry traces and JSON logs."""

    otlp_endpoint: str | None = Field(None, description="Collector, e.g. http://collector:4318; default: no traces.")
    sample: float = Field(1.0, ge=0, le=1, description="Share of queries that are traced.")
    json_logs: bool = Field(False, description="Log lines as JSON on standard error, instead of files in the home.")


class ServeSettings(SettingsSection):
    """Settings that configure the HTTP service, with one subsection for each part of it."""

    host: str = "127.0.0.1"
    port: int = Field(7860, ge=0, le=65535, description="0 picks a free port.")
    engine: Literal["auto", "process", "ray"] = Field(
        "auto", description="process: all in one, without Ray; ray: on a Ray of its own; auto: ray where the graph needs it."
    )
    processes: int = Field(
        1, ge=0, le=64, description="Processes that answer searches, where the service runs without Ray; 0: one for each core."
    )
    max_ongoing: int = Field(64, ge=1, description="Queries worked on at once.")
    max_queued: int = Field(256, ge=0, description="Queries waiting before the service sheds load.")
    patience_s: float = Field(60.0, ge=1, le=3_600, description="Seconds until an answer must begin where no deadline counts.")
    max_upload_mb: int = Field(32, ge=1, description="Largest uploaded picture.")
    upkeep: bool = Field(True, description="Check at the start that everything fits, and repair it; watch directories.")
    public_hosts: list[str] = Field(default_factory=list, description="Names the service answers for, besides loopback.")
    cors_origins: list[str] = Field(default_factory=list, description="Origins whose pages may ask; none by default.")
    index_folders: dict[str, Path] = Field(
        default_factory=dict,
        description="Corpus to the folder in which keys with the scope index may add directories; `*`: keys that see all.",
    )
    fetch_urls: bool = Field(False, description="Search by pictures at public URLs, fetched by the service.")
    tls_certificate: Path | None = Field(None, description="PEM file, for TLS without a proxy in front.")
    tls_key: Path | None = Field(None, description="PEM file of its key.")
    auth: AuthSettings = Field(default_factory=AuthSettings)
    load: LoadSettings = Field(default_factory=LoadSettings)
    streams: StreamSettings = Field(default_factory=StreamSettings)
    graph: GraphSettings = Field(default_factory=GraphSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
