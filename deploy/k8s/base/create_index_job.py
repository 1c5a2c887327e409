"""How does a CronJob start an index run? It reads the suspended RayJob that is the template, and creates a copy that runs.

Runs in a pod whose service account may do these two things and nothing else. The label of a Kueue queue is put on the copy
alone: on the template, Kueue would start it. People give it the template on standard input instead, and another command line:

    kubectl -n lodestone get rayjob lodestone-index -o json |
        python3 deploy/k8s/base/create_index_job.py --print --entrypoint 'lodestone verify --all' | kubectl create -f -
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

TEMPLATE = "lodestone-index"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S = 30.0
# What `kubectl apply` leaves, and what would make the copy look like the template to it.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run_of(template: dict[str, Any], *, queue: str = "", entrypoint: str = "") -> dict[str, Any]:
    """The RayJob to create: the template's spec, not suspended, with a name of its own.

    Args:
        template: As the Kubernetes API gives it.
        queue: Kueue's local queue; empty for none.
        entrypoint: Command line; empty for the template's.
    """
    metadata, spec = template["metadata"], template["spec"]
    labels = {**metadata.get("labels", {}), **({QUEUE_LABEL: queue} if queue else {})}
    annotations = {name: value for name, value in metadata.get("annotations", {}).items() if name != _APPLIED}
    return {
        "apiVersion": template["apiVersion"],
        "kind": template["kind"],
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": annotations,
        },
        # Kueue takes a queued one up when there is room.
        "spec": {**spec, "suspend": bool(queue), "entrypoint": entrypoint or spec["entrypoint"]},
    }


def create(api: httpx.Client, *, namespace: str, queue: str = "", entrypoint: str = "") -> str:
    """Create a run. Returns its name.

    Args:
        api: Asks the Kubernetes API, as the pod's service account.
        namespace: Of the template and the run.
        queue: Kueue's local queue; empty for none.
        entrypoint: Command line; empty for the template's.

    Raises:
        httpx.HTTPStatusError: the API refused; its answer says why.
    """
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayjobs"
    template = api.get(f"{path}/{TEMPLATE}").raise_for_status().json()
    run = run_of(template, queue=queue, entrypoint=entrypoint)
    created = api.post(path, json=run).raise_for_status().json()
    return str(created["metadata"]["name"])


def main() -> None:
    """Entry point of the CronJob."""
    parser = argparse.ArgumentParser(description="Start an index run.")
    parser.add_argument("--entrypoint", default="", help="command line of the run; default: the template's")
    parser.add_argument("--queue", default=os.environ.get("KUEUE_QUEUE", ""), help="Kueue's local queue; default: none")
    parser.add_argument("--print", action="store_true", help="read the template from standard input, and only print the run")
    chosen = parser.parse_args()
    if chosen.print:
        json.dump(run_of(json.load(sys.stdin), queue=chosen.queue, entrypoint=chosen.entrypoint), sys.stdout)
        return
    import httpx

    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    headers = {"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text(encoding='utf-8').strip()}"}
    namespace = (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    certificates = ssl.create_default_context(cafile=_ACCOUNT / "ca.crt")
    with httpx.Client(base_url=url, headers=headers, verify=certificates, timeout=_TIMEOUT_S, trust_env=False) as api:
        try:
            name = create(api, namespace=namespace, queue=chosen.queue, entrypoint=chosen.entrypoint)
        except httpx.HTTPStatusError as error:
            sys.exit(f"the Kubernetes API refused ({error.response.status_code}): {error.response.text}")
    sys.stdout.write(f"created {name}\n")


if __name__ == "__main__":
    main()
