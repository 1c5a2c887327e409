"""The Serve application: `build` binds the stages in the shape that the settings name.

`app`: one deployment, everything in one process. `graph`: the ingress with the engine, `Encoders`, a deployment for every guide
engine that loads a model or calls another service, and the stages that the settings enable. serveConfigV2 names
`from_arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from ray import serve

from lodestone.config.settings import Settings, load_settings
from lodestone_serve.graph.encoders import Encoders
from lodestone_serve.graph.fusion import Fusion
from lodestone_serve.graph.generators import GeneratorReplica
from lodestone_serve.graph.ingress import App
from lodestone_serve.graph.replicas import Host, known, read_anew
from lodestone_serve.graph.stages import (
    APP,
    ENCODERS,
    FUSION,
    INGRESS,
    OPTIONAL,
    TAGGING,
    as_served,
    deployment_options,
    generator_deployment,
    remote_engines,
)
from lodestone_serve.graph.tagging import Tagging

_OPTIONAL: Final[Mapping[str, type[Any]]] = {FUSION: Fusion, TAGGING: Tagging}  # deployment -> its class


class ApplicationArguments(BaseModel):
    """`args` of the application in serveConfigV2.

    Attributes:
        settings: Nested as in `lodestone.toml`, without secrets: every replica adds those of its own environment.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: dict[str, Any] = {}


def from_arguments(arguments: dict[str, Any]) -> serve.Application:
    """Build the application for a cluster from `ApplicationArguments`; deployments' options come from the same file.

    Raises:
        ConfigurationError: a setting is wrong; the application's status shows it.
    """
    flags = ApplicationArguments.model_validate(arguments).settings
    settings = load_settings(flags).settings
    return _bound(settings, Host(read_anew(flags)), token="", options=deployment_options(settings))


def build(
    settings: Settings,
    *,
    token: str = "",
    failure_file: Path | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> serve.Application:
    """Build the application for this machine alone.

    Args:
        settings: The home's settings; sent to the replicas.
        token: Secret of the internal routes; a random one by default, so that nobody can use them.
        failure_file: File in which a replica that cannot start leaves the reason, as problem details.
        options: Deployment -> its options; those of `deployment_options` by default.

    Raises:
        ConfigurationError: the graph cannot be built as the settings ask.
    """
    host = Host(known(as_served(settings)), on_loopback=True, failure_file=failure_file)
    return _bound(settings, host, token=token, options={**deployment_options(settings), **(options or {})})


def _bound(settings: Settings, host: Host, *, token: str, options: Mapping[str, Mapping[str, Any]]) -> serve.Application:
    ingress = serve.ingress()(App)
    if APP in options:
        return serve.deployment(name=APP, max_constructor_retry_count=1, **options[APP])(ingress).bind(host, token=token)
    encoders = serve.deployment(name=ENCODERS, max_constructor_retry_count=3, **options[ENCODERS])(Encoders)
    generators = {}
    for engine in remote_engines(settings):
        name = generator_deployment(engine)
        replica = serve.deployment(name=name, max_constructor_retry_count=3, **options[name])(GeneratorReplica)
        generators[engine] = replica.bind(host, engine)
    optional = {
        setting: serve.deployment(name=name, max_constructor_retry_count=3, **options[name])(_OPTIONAL[name]).bind(host)
        for setting, name in OPTIONAL.items()
        if name in options
    }
    deployed = serve.deployment(name=INGRESS, max_constructor_retry_count=3, **options[INGRESS])(ingress)
    return deployed.bind(host, token=token, encoders=encoders.bind(host), generators=generators, **optional)
