"""How does a CronJob start an index run? It reads the suspended RayJob that is the template, and creates a copy that runs.

Runs in a pod whose service account may do these two things and nothing else. The label of a Kueue queue is put on the copy
alone: on the template, Kueue would start it.
"""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx

TEMPLATE = "lodestone-index"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S = 30.0
# What `kubectl apply` leaves, and what would make the copy look like the template to it.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run_of(template: dict[str, Any], *, queue: str = "") -> dict[str, Any]:
    """The RayJob to create: the template's spec, not suspended, with a name of its own.

    Args:
        template: As the Kubernetes API gives it.
        queue: Kueue's local queue; empty for none.
    """
    metadata = template["metadata"]
    labels = {**metadata.get("labels", {}), **({QUEUE_LABEL: queue} if queue else {})}
    annotations = {name: value for name, value in metadata.get("annotations", {}).items() if name != _APPLIED}
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "metadata": {"generateName": f"{metadata['name']}-", "labels": labels, "annotations": annotations},
        "spec": {**template["spec"], "suspend": bool(queue)},  # Kueue takes a queued one up when there is room
    }


def create(api: httpx.Client, *, namespace: str, queue: str = "") -> str:
    """Create a run. Returns its name.

    Args:
        api: Asks the Kubernetes API, as the pod's service account.
        namespace: Of the template and the run.
        queue: Kueue's local queue; empty for none.

    Raises:
        httpx.HTTPStatusError: the API refused; its answer says why.
    """
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs"
    template = api.get(f"{path}/{TEMPLATE}").raise_for_status().json()
    created = api.post(path, json=run_of(template, queue=queue)).raise_for_status().json()
    return str(created["metadata"]["name"])


def main() -> None:
    """Entry point of the CronJob."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    headers = {"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text(encoding='utf-8').strip()}"}
    namespace = (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    certificates = ssl.create_default_context(cafile=_ACCOUNT / "ca.crt")
    with httpx.Client(base_url=url, headers=headers, verify=certificates, timeout=_TIMEOUT_S, trust_env=False) as api:
        try:
            name = create(api, namespace=namespace, queue=os.environ.get("KUEUE_QUEUE", ""))
        except httpx.HTTPStatusError as error:
            sys.exit(f"the Kubernetes API refused ({error.response.status_code}): {error.response.text}")
    sys.stdout.write(f"created {name}\n")


if __name__ == "__main__":
    main()
