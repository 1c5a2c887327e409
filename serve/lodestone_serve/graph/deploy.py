"""Deployment of a configuration to a running cluster, through the cluster's dashboard as `serve deploy` does."""

from __future__ import annotations

import time
from typing import Any, Final

from lodestone.errors import ServiceUnavailableError
from lodestone.models.packages import import_library

_POLL_S: Final = 1.0
_INSTALL: Final = "pip install 'ray[default]'"


def deploy(config: dict[str, Any], *, address: str, wait_s: float = 600.0) -> dict[str, str]:
    """Send the configuration to a cluster, and wait until everything in it runs.

    Args:
        config: serveConfigV2.
        address: Address of the cluster's dashboard, http://HOST:8265. Its token is found where Ray finds it.
        wait_s: Seconds to wait; 0 does not wait.

    Returns:
        Application -> its status.

    Raises:
        ServiceUnavailableError: the cluster does not answer, refuses the configuration, or an application fails or is late.
    """
    sdk = import_library("ray.dashboard.modules.serve.sdk", install=_INSTALL, needed_by="deploying to a cluster")
    wanted = [application["name"] for application in config["applications"]]
    try:
        client = sdk.ServeSubmissionClient(address)
        client.deploy_applications(config)
    except Exception as error:  # the client raises ConnectionError, RuntimeError and ValueError alike
        raise ServiceUnavailableError(
            f"the cluster at {address} did not take the configuration: {error}",
            hint="give the address of its dashboard, http://HOST:8265; a cluster with a token needs RAY_AUTH_MODE=token",
        ) from error
    until = time.monotonic() + wait_s
    while True:
        applications = client.get_serve_details().get("applications", {})
        states = {name: str(applications.get(name, {}).get("status", "NOT_STARTED")) for name in wanted}
        broken = next((name for name, state in states.items() if state in {"DEPLOY_FAILED", "UNHEALTHY"}), None)
        if broken is not None:
            raise ServiceUnavailableError(
                f"the application {broken!r} is {states[broken]}: {applications[broken].get('message', '')[:2000]}",
                hint="`serve status` shows each deployment; the replicas' logs have the reason",
            )
        if set(states.values()) <= {"RUNNING"} or wait_s == 0:
            return states
        if time.monotonic() > until:
            raise ServiceUnavailableError(
                f"not everything runs after {wait_s:g} s: {states}", hint="`serve status` shows what is waited for"
            )
        time.sleep(_POLL_S)
