"""Configuration of a cluster: serveConfigV2, Ray's own file format, made from Lodestone's settings.

`serve deploy` and a RayService take it. Its content is checked with Ray's own schema here, before any cluster sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from lodestone.config.section import refusal_of
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone_serve.auth.exposure import checked_exposure
from lodestone_serve.graph.llm import LLM_APPLICATION
from lodestone_serve.graph.secrets import public_settings
from lodestone_serve.graph.stages import APPLICATION, as_served, deployment_options
from lodestone_serve.graph.tls import tls_options
from lodestone_serve.inference.blas import BLAS_ENVIRONMENT
from lodestone_serve.traffic.proxy_middleware import PROXY_ENVIRONMENT

IMPORT_PATH: Final = "lodestone_serve.graph.application:from_arguments"
LLM_IMPORT_PATH: Final = "lodestone_serve.graph.llm:from_arguments"
# For Ray's own processes and for the replicas; docs/graph.md has the figures.
ENVIRONMENT: Final = {
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    # Part of the above, but it opens a second port on every replica, around the proxy.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
    # The autoscaler would learn of a load only after ten seconds.
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    # The controller checks three times before it restarts a crashed proxy: half a minute with Ray's default.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
    **BLAS_ENVIRONMENT,
    **PROXY_ENVIRONMENT,
}
"""Environment variables that every Ray container of a cluster should have: Ray reads them when it is imported."""


_HTTP: Final = {"host": "host", "port": "port", "ssl_certfile": "tls_certificate", "ssl_keyfile": "tls_key"}
_MAKE_ONE: Final = "make one with `lodestone serve build`"


def serve_config(settings: Settings) -> dict[str, Any]:
    """Return serveConfigV2 as plain JSON.

    Args:
        settings: Settings of the service. Secrets are left out: see `secrets.secret_variables`.

    Raises:
        ConfigurationError: the graph cannot be built as the settings ask, the service would listen on all interfaces without
            asking for
            a key, or Ray's schema refuses the result.
    """
    host = checked_exposure(settings.serve)
    http: dict[str, Any] = {"host": host, "port": settings.serve.port or 8000, **tls_options(settings.serve)}
    encoding = "JSON" if settings.serve.telemetry.json_logs else "TEXT"
    applications: list[dict[str, Any]] = [
        {
            "name": APPLICATION,
            "route_prefix": "/",
            "import_path": IMPORT_PATH,
            "runtime_env": {"env_vars": dict(ENVIRONMENT)},
            "args": {"settings": public_settings(as_served(settings))},
            "deployments": [{"name": name, **options} for name, options in deployment_options(settings).items()],
        }
    ]
    if settings.serve.graph.llm is not None:
        llm = settings.serve.graph.llm.model_dump(mode="json", exclude_none=True)
        applications.append(
            {"name": LLM_APPLICATION, "route_prefix": None, "import_path": LLM_IMPORT_PATH, "args": {"llm": llm}}
        )
    config = {
        "proxy_location": "EveryNode",
        "http_options": http,
        "logging_config": {"encoding": encoding, "log_level": "INFO", "enable_access_log": False},
        "applications": applications,
    }
    _check(config)
    return config


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """Content of a serveConfigV2 that concerns the service.

    Attributes:
        flags: Settings, nested as in `lodestone.toml`.
        options: Deployment -> its options.
    """

    flags: dict[str, Any]
    options: dict[str, dict[str, Any]]


def read_config(text: str) -> ReadConfig:
    """Return the service's part of a file that `as_yaml` wrote, edited or not; other applications in it are ignored.

    Raises:
        ConfigurationError: it is no serveConfigV2, or Lodestone is not in it.
    """
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"the configuration is not YAML: {error}", hint=_MAKE_ONE) from None
    if not isinstance(config, dict):
        raise ConfigurationError(f"the configuration is a {type(config).__name__}, not a mapping", hint=_MAKE_ONE)
    _check(config)
    application = next((candidate for candidate in config["applications"] if candidate["import_path"] == IMPORT_PATH), None)
    if application is None:
        raise ConfigurationError(f"no application of the configuration is {IMPORT_PATH}", hint=_MAKE_ONE)
    http = config.get("http_options", {})
    flags = dict(application.get("args", {}).get("settings", {}))
    flags["serve"] = {**flags.get("serve", {}), **{_HTTP[name]: value for name, value in http.items() if name in _HTTP}}
    options = {
        candidate["name"]: {key: value for key, value in candidate.items() if key != "name"}
        for candidate in application.get("deployments", [])
    }
    return ReadConfig(flags, options)


def as_yaml(config: dict[str, Any]) -> str:
    """Return the configuration as the text of a YAML file."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120)


def _check(config: dict[str, Any]) -> None:
    from pydantic import ValidationError
    from ray.serve.schema import ServeDeploySchema

    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        where, reason = refusal_of(error)
        raise ConfigurationError(
            f"Ray refuses {where} of the configuration: {reason}",
            hint="correct the section serve.graph; docs/graph.md explains it",
        ) from None  # the original quotes the settings
