"""The script of the CronJob makes runs of the template, and nothing else."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import util
from typing import Any

import httpx
import pytest
from scripts.manifests import schemas
from scripts.manifests.overlays import K8S, Object
from tests.support.manifests import one


class _KubernetesApi(BaseHTTPRequestHandler):
    """The two calls that the script makes; keeps what was created in `created`."""

    template: Object
    created: list[Object]

    def do_GET(self) -> None:
        known = self.path == "/apis/ray.io/v1/namespaces/here/rayjobs/lodestone-index"
        self._answer(200 if known else 404, self.template if known else {"message": "not found"})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.created.append(sent)
        self._answer(201, {**sent, "metadata": {**sent["metadata"], "name": sent["metadata"]["generateName"] + "x7k2p"}})

    def _answer(self, status: int, body: Object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubernetes_api() -> Iterator[tuple[httpx.Client, list[Object]]]:
    applied = copy.deepcopy(one("gpu", "RayJob"))
    applied["metadata"] |= {"uid": "1", "resourceVersion": "2", "annotations": dict.fromkeys((_APPLIED, "mine"), "x")}
    applied["status"] = {"jobDeploymentStatus": "Suspended"}
    handler = type("Api", (_KubernetesApi,), {"template": applied, "created": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
        yield client, handler.created
    server.shutdown()
    server.server_close()
    thread.join()


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _script() -> Any:
    spec = util.spec_from_file_location("create_index_job", K8S / "base" / "create_index_job.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_is_a_copy_of_the_template_that_is_not_suspended(kubernetes_api: tuple[httpx.Client, list[Object]]) -> None:
    client, created = kubernetes_api

    name = _script().create(client, namespace="here")

    template = one("gpu", "RayJob")
    assert name == "lodestone-index-x7k2p"
    assert created[0]["spec"] == {**template["spec"], "suspend": False}
    assert created[0]["metadata"] == {
        "generateName": "lodestone-index-",
        "namespace": "lodestone",
        "labels": template["metadata"]["labels"],
        "annotations": {"mine": "x"},
    }
    assert schemas.faults({**created[0], "metadata": {"name": name}}) == []


def test_a_queued_run_waits_for_kueue_and_the_template_never_stands_in_the_queue(
    kubernetes_api: tuple[httpx.Client, list[Object]],
) -> None:
    client, created = kubernetes_api
    script = _script()

    script.create(client, namespace="here", queue="lodestone-index")

    assert created[0]["spec"]["suspend"] is True
    assert created[0]["metadata"]["labels"][script.QUEUE_LABEL] == one("gpu", "LocalQueue")["metadata"]["name"]
    assert script.QUEUE_LABEL not in one("gpu", "RayJob")["metadata"]["labels"]


def test_people_may_give_a_run_another_command_line() -> None:
    template = one("gpu", "RayJob")
    command = [sys.executable, str(K8S / "base" / "create_index_job.py"), "--print", "--entrypoint", "lodestone verify --all"]

    printed = json.loads(subprocess.run(command, input=json.dumps(template), capture_output=True, text=True, check=True).stdout)

    assert printed["spec"] == {**template["spec"], "suspend": False, "entrypoint": "lodestone verify --all"}


def test_a_refusal_of_the_api_is_passed_on(kubernetes_api: tuple[httpx.Client, list[Object]]) -> None:
    client, created = kubernetes_api

    with pytest.raises(httpx.HTTPStatusError, match="404"):
        _script().create(client, namespace="elsewhere")
    assert created == []
