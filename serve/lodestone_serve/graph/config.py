"""What does a cluster need to run the service? serveConfigV2: one file of Ray's, made from Lodestone's settings.

`serve deploy` and a RayService take it. Whatever is in it is checked with Ray's own schema here, before any cluster sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone_serve.graph.llm import LLM_APPLICATION
from lodestone_serve.graph.secrets import public_settings
from lodestone_serve.graph.stages import APPLICATION, as_served, deployment_options
from lodestone_serve.hosting.tls import tls_options
from lodestone_serve.traffic.proxy_middleware import PROXY_ENVIRONMENT
from lodestone_serve.traffic.request_guards import checked_exposure

IMPORT_PATH: Final = "lodestone_serve.graph.application:from_arguments"
LLM_IMPORT_PATH: Final = "lodestone_serve.graph.llm:from_arguments"
# Of Ray's own processes and of the replicas; docs/graph.md has the figures.
ENVIRONMENT: Final = {
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    # Part of the above, but it opens a second port on every replica, around the proxy.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
    # Ten seconds otherwise, before the autoscaler hears of a load.
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    # Of the controller, which looks three times before it starts a dead proxy again: half a minute without it.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
    **PROXY_ENVIRONMENT,
}
"""Environment variables that every Ray container of a cluster should have: Ray reads them when it is imported."""


_HTTP: Final = {"host": "host", "port": "port", "ssl_certfile": "tls_certificate", "ssl_keyfile": "tls_key"}
_MAKE_ONE: Final = "make one with `lodestone serve build`"


def serve_config(settings: Settings) -> dict[str, Any]:
    """serveConfigV2 as plain JSON.

    Args:
        settings: Of the service. Secrets are left out: see `secrets.secret_variables`.

    Raises:
        ConfigurationError: the graph cannot be as the settings want it, the service would listen to everybody and ask nobody,
            or Ray's schema refuses the outcome.
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
    """What a serveConfigV2 says of the service.

    Attributes:
        flags: Settings, nested as in `lodestone.toml`.
        options: Deployment -> its options.
    """

    flags: dict[str, Any]
    options: dict[str, dict[str, Any]]


def read_config(text: str) -> ReadConfig:
    """The service out of a file that `as_yaml` wrote, edited or not; other applications in it are passed over.

    Raises:
        ConfigurationError: it is no serveConfigV2, or Lodestone is not in it.
    """
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"the configuration is not YAML: {error}", hint=_MAKE_ONE) from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"the configuration is a {type(config).__name__}, not a mapping", hint=_MAKE_ONE)
    _check(config)
    found = next((one for one in config["applications"] if one["import_path"] == IMPORT_PATH), None)
    if found is None:
        raise ConfigurationError(f"no application of the configuration is {IMPORT_PATH}", hint=_MAKE_ONE)
    http = config.get("http_options", {})
    flags = dict(found.get("args", {}).get("settings", {}))
    flags["serve"] = {**flags.get("serve", {}), **{_HTTP[name]: value for name, value in http.items() if name in _HTTP}}
    options = {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in found.get("deployments", [])}
    return ReadConfig(flags, options)


def as_yaml(config: dict[str, Any]) -> str:
    """The file."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120)


def _check(config: dict[str, Any]) -> None:
    from pydantic import ValidationError
    from ray.serve.schema import ServeDeploySchema

    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"Ray refuses {where} of the configuration: {first['msg']} (got {first.get('input')!r:.200})",
            hint="correct the section serve.graph; docs/graph.md explains it",
        ) from error
