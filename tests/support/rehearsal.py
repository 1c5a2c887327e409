"""Pods of an overlay without a cluster: they run as processes, with all that the manifests give them.

Each gets the command, variables and user of its container, no capability, and the pod's root: read-only but for its volumes.
They share namespaces of their own (mounts, network, processes) with real PostgreSQL, Qdrant and Ray, and leave nothing behind.
What a cluster adds (images, scheduling, KubeRay's own work) is not rehearsed: `ray start` and the Serve config are given as
KubeRay gives them. Needs root, `unshare` and Debian's PostgreSQL. `python -m tests.support.rehearsal STAGE` is the part inside.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from scripts.fetch_qdrant import fetch
from scripts.manifests.overlays import K8S, ROOT, build, component_objects

POSTGRES = Path("/usr/lib/postgresql/15/bin")
_SECRETS = {
    "lodestone-catalog": {"username": "lodestone", "password": "catalog-secret"},
    "lodestone-qdrant": {"api_key": "qdrant-secret"},
    "lodestone-ray": {"auth_token": "r" * 32},
}
_NAMES = "lodestone-catalog lodestone-qdrant lodestone-qdrant-0.lodestone-qdrant lodestone-serve-svc"
_VOLUMES = {"home": "/var/lib/lodestone", "models": "/models", "pictures": "/pictures", "config": "/etc/lodestone"}
_READ_ONLY = ("pictures", "config")
_BACKUP, _BESIDE = "/volumes/storage/backup", "postgresql+psycopg://lodestone@lodestone-catalog:5432/beside"
_CONFIG = {"lodestone-installation": {"BACKUP_TO": _BACKUP, "BACKUP_KEEP": "2"}}
_UID = 1000  # the image's
METRIC = "ray_lodestone_http_request_seconds_count"
_NEW_ROOT = Path("/mnt")
_SERVE_SECONDS, _COMMAND_SECONDS = 300.0, 400.0


def missing() -> str:
    """Why nothing can be rehearsed here; empty when it can."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return "namespaces need root on Linux"
    tools = [name for name in ("unshare", "setpriv", "ip") if shutil.which(name) is None]
    if tools or not POSTGRES.is_dir():
        return f"not installed: {', '.join(tools) or POSTGRES}"
    return ""


def rehearse(stage: Path, pictures: Path) -> dict[str, Any]:
    """Run the dev overlay over `pictures`. Returns what was seen, by step; logs of all processes stay in `stage`."""
    for name in ("home", "models", "config", "pictures", "qdrant", "storage", "postgres", "logs"):
        (stage / name).mkdir(parents=True)
    shutil.copytree(pictures, stage / "pictures", dirs_exist_ok=True)
    shutil.copy(K8S / "overlays" / "dev" / "lodestone.toml", stage / "config")
    shutil.copy(fetch(), stage / "qdrant" / "qdrant")
    (stage / "hosts").write_text(f"127.0.0.1 localhost {_NAMES}\n", encoding="utf-8")
    (stage / "overlay.json").write_text(json.dumps(build("dev")), encoding="utf-8")
    (stage / "backup.json").write_text(json.dumps(component_objects("backup")), encoding="utf-8")
    (stage / "scripts").mkdir()
    shutil.copy(K8S / "components" / "backup" / "qdrant_snapshots.py", stage / "scripts")
    for name, owner in (("home", _UID), ("models", _UID), ("storage", _UID), ("postgres", _postgres_user()), ("logs", _UID)):
        os.chown(stage / name, owner, owner)
    stage.chmod(0o755)
    inside = [sys.executable, "-m", "tests.support.rehearsal", str(stage)]
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run([*own, *inside], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the rehearsal broke off: {done.stderr[-3000:]}\n{done.stdout[-3000:]}")
    return json.loads((stage / "report.json").read_text(encoding="utf-8"))


def _postgres_user() -> int:
    return pwd.getpwnam("postgres").pw_uid


# ---- inside the namespaces ---------------------------------------------------------------------------------------------------


def _shell(command: str) -> None:
    subprocess.run(command, shell=True, check=True)


def _change_root(stage: Path) -> None:
    """A root of one's own over the machine's: what is made here never reaches it. Read-only but for volumes."""
    top = _NEW_ROOT / "root"
    _shell(f"ip link set lo up; mount -t tmpfs tmpfs {_NEW_ROOT}; mkdir {_NEW_ROOT}/upper {_NEW_ROOT}/work {top}")
    _shell(f"mount -t overlay overlay -o lowerdir=/,upperdir={_NEW_ROOT}/upper,workdir={_NEW_ROOT}/work {top}")
    places = (*_VOLUMES.values(), "/qdrant", "/volumes/storage", "/volumes/postgres")
    _shell(f"mkdir -p {' '.join(f'{top}{path}' for path in places)}")
    for folder in Path(sys.base_prefix).parents:  # the interpreter may lie in somebody's own folder
        (top / folder.relative_to("/")).chmod(0o755)
    for name in ("dev", "proc", "sys"):
        _shell(f"mount --rbind /{name} {top}/{name}")
    if ROOT.stat().st_dev != Path("/").stat().st_dev:
        _shell(f"mkdir -p {top}{ROOT}; mount --bind {ROOT} {top}{ROOT}")
    binds = {
        **_VOLUMES,
        "qdrant": "/qdrant",
        "storage": "/volumes/storage",
        "postgres": "/volumes/postgres",
        "hosts": "/etc/hosts",
    }
    for name, path in binds.items():
        _shell(f"mount --bind {stage}/{name} {top}{path}")
    _shell(f"mkdir -p {top}/stage; mount --bind {stage} {top}/stage; mount -t tmpfs -o mode=1777 tmpfs {top}/tmp")
    _shell(f"mkdir {top}/tmp/ray; chown {_UID} {top}/tmp/ray; mount -t tmpfs -o size=512m,mode=1777 tmpfs {top}/dev/shm")
    for name in (*_READ_ONLY, "qdrant"):
        _shell(f"mount -o remount,ro,bind {top}{binds[name]}")
    _shell(f"mount -o remount,ro {top}")
    os.chroot(top)
    os.chdir("/tmp")


@dataclass
class _Stage:
    """The pods' processes."""

    objects: list[dict[str, Any]]

    def find(self, kind: str, name: str) -> dict[str, Any]:
        """The spec of an object."""
        return next(one for one in self.objects if (one["kind"], one["metadata"]["name"]) == (kind, name))["spec"]

    def environment(self, container: dict[str, Any], **more: str) -> dict[str, str]:
        """A container's variables, over those of the image."""
        tools = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        given = {
            "PATH": tools,
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": "/tmp/cache",
        }
        given |= {"NUMBA_CACHE_DIR": "/tmp/numba", "OMP_NUM_THREADS": "1"}
        for one in container.get("env", []):
            source = one.get("valueFrom", {})
            reference = source.get("secretKeyRef") or source.get("configMapKeyRef") or {}
            known = _SECRETS if "secretKeyRef" in source else _CONFIG
            value = one["value"] if "value" in one else known.get(reference["name"], {}).get(reference["key"])
            if value is None and not reference.get("optional"):
                raise RuntimeError(f"{one['name']} is in no secret or configuration")
            given |= {one["name"]: value} if value is not None else {}
        return given | more

    def start(self, name: str, command: list[str], environment: dict[str, str], *, uid: int = _UID, cwd: str = "/tmp") -> Any:
        """A process of a pod, without capabilities."""
        user = [
            f"--reuid={uid}",
            f"--regid={uid}",
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ]
        with Path(f"/stage/logs/{name}.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                ["setpriv", *user, *command],
                env=environment,
                cwd=cwd,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def run(self, name: str, command: list[str], environment: dict[str, str], *, uid: int = _UID) -> tuple[int, str]:
        """A command to its end: exit code and what it said."""
        code = self.start(name, command, environment, uid=uid).wait(_COMMAND_SECONDS)
        return code, Path(f"/stage/logs/{name}.log").read_text(encoding="utf-8")


def _ask(url: str, *, data: dict[str, Any] | None = None, method: str | None = None, **headers: str) -> tuple[int, str]:
    body = None if data is None else json.dumps(data).encode()
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=sent, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, repr(error)


def _until(what: str, holds: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not after {seconds:g} s")
        time.sleep(0.5)


def _kept(start: Callable[[], Any]) -> Callable[[], bool]:
    """Start a process, and start it again when it has ended, as Kubernetes does, whenever the result is called."""
    process = [start()]

    def keep() -> bool:
        if process[0].poll() is not None:
            process[0] = start()
        return True

    return keep


def _healthy(port: int, probe: dict[str, Any]) -> bool:
    return _ask(f"http://127.0.0.1:{port}{probe['httpGet']['path']}")[0] == 200


def _flags(parameters: dict[str, str]) -> list[str]:
    """`rayStartParams` as KubeRay's shell hands them over."""
    unquoted = {name: json.loads(value.strip("'")) if name == "resources" else value for name, value in parameters.items()}
    return [f"--{name}" if value == "true" else f"--{name}={value}" for name, value in unquoted.items()]


def _inside(stage: _Stage) -> dict[str, Any]:
    service = stage.find("RayService", "lodestone")
    cluster, job = service["rayClusterConfig"], stage.find("RayJob", "lodestone-index")
    head, group = cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]
    worker = group["template"]["spec"]["containers"][0]
    admin = stage.environment(stage.find("Deployment", "lodestone-admin")["template"]["spec"]["containers"][0])
    token = _SECRETS["lodestone-ray"]["auth_token"]
    ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    seen: dict[str, Any] = {"root": stage.run("root", ["touch", "/written"], admin)[1]}
    seen["capabilities"] = stage.run("capabilities", ["grep", "CapEff", "/proc/self/status"], admin)[1].split()[-1]

    _start_data(stage)
    own = head["template"]["spec"]["containers"][0]
    ports = ["--block", "--metrics-export-port=8080", "--node-ip-address=127.0.0.1"]
    command = ["ray", "start", "--head", *ports, *_flags(head["rayStartParams"])]
    keep_head = _kept(partial(stage.start, "head", command, stage.environment(own, **ray)))
    _until("the head's probe", lambda: keep_head() and _healthy(52365, own["readinessProbe"]), 300)
    ports = ["--block", "--address=127.0.0.1:6379", "--node-ip-address=127.0.0.1", "--num-cpus=2", "--metrics-export-port=8081"]
    ports += ["--dashboard-agent-listen-port=52366"]  # one machine here, two nodes in a cluster
    command = ["ray", "start", *ports, *_flags(group["rayStartParams"])]
    keep_worker = _kept(partial(stage.start, "worker", command, stage.environment(worker, **ray)))
    _until("the worker's probe", lambda: keep_head() and keep_worker() and _healthy(52366, worker["livenessProbe"]), 300)

    applications = "http://127.0.0.1:8265/api/serve/applications/"
    seen["dashboard without its token"] = _ask(applications)[0]
    config = yaml.safe_load(service["serveConfigV2"])
    seen["deployed"] = _ask(applications, data=config, method="PUT", Authorization=f"Bearer {token}")[0]

    def status() -> str:
        answer = json.loads(_ask(applications, Authorization=f"Bearer {token}")[1])
        return str(answer["applications"].get("lodestone", {}).get("status"))

    _until("the service", lambda: status() in {"RUNNING", "DEPLOY_FAILED"}, _SERVE_SECONDS)
    seen["service"] = status()
    probe = [part.replace("52365", "52366") for part in worker["readinessProbe"]["exec"]["command"]]
    seen["worker ready"] = stage.run("probe", probe, stage.environment(worker))[0]

    code, said = stage.run("index", ["bash", "-c", job["entrypoint"]], _of_job(stage, job) | ray)
    seen["index"] = {"code": code, "said": said[-2000:]}
    code, said = stage.run("keys", ["lodestone", "keys", "create", "me", "--output", "json"], admin)
    made = json.loads(said)
    search, query = "http://lodestone-serve-svc:8000/v1/search", {"query": "a cat"}
    seen["without a key"] = _ask(search, data=query)[0]
    _until("the pictures", lambda: "hits" in _ask(search, data=query, X_API_Key=made["secret"])[1], 30)
    seen["found"] = len(json.loads(_ask(search, data=query, X_API_Key=made["secret"])[1])["hits"])
    _until("the metrics of a request", lambda: METRIC in _metrics(), 60)  # Ray's processes hand theirs over every ten seconds
    seen["metrics"] = _metrics()

    seen |= _back_up(stage, admin)
    seen["emptied"] = _lose_collections()
    seen["verify, emptied"] = stage.run("verify", ["lodestone", "verify", "--output", "json"], admin)[0]
    seen["repair"] = stage.run("repair", ["lodestone", "verify", "--repair", "--output", "json"], admin)[0]
    seen["verify, repaired"] = stage.run("verified", ["lodestone", "verify", "--all", "--output", "json"], admin)[0]
    seen["found again"] = len(json.loads(_ask(search, data=query, X_API_Key=made["secret"])[1]).get("hits", []))
    stage.run("revoke", ["lodestone", "keys", "revoke", made["key"]["key_id"]], admin)
    time.sleep(5.5)
    seen["with a revoked key"] = _ask(search, data=query, X_API_Key=made["secret"])[0]
    return seen | _leave(stage, worker, stage.environment(worker, **ray), token)


def _back_up(stage: _Stage, admin: dict[str, str]) -> dict[str, Any]:
    """The commands of the two CronJobs and of the runbook: back up, restore beside the living home, lose and restore Qdrant."""
    jobs = {
        job["metadata"]["name"]: job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        for job in json.loads(Path("/stage/backup.json").read_text(encoding="utf-8"))
        if job["kind"] == "CronJob"
    }
    seen: dict[str, Any] = {}
    for name in ("lodestone-backup", "lodestone-qdrant-snapshots"):
        command = [part.replace("/scripts/", "/stage/scripts/") for part in (*jobs[name]["command"], *jobs[name]["args"])]
        seen[name] = stage.run(name, command, stage.environment(jobs[name]))
    login = stage.environment(stage.find("StatefulSet", "lodestone-catalog")["template"]["spec"]["containers"][0])
    login |= {"PGPASSWORD": login["POSTGRES_PASSWORD"], "PGHOST": "127.0.0.1", "PGUSER": login["POSTGRES_USER"]}
    stage.run("createdb-beside", [str(POSTGRES / "createdb"), "beside"], login)
    beside = admin | {"LODESTONE_HOME": "/tmp/beside", "LODESTONE_CATALOG_URL": _BESIDE}
    restore = ["lodestone", "backup", "restore", f"{_BACKUP}/lodestone", "--new-id", "--output", "json"]
    seen["restored beside"] = stage.run("restore", restore, beside)
    seen["verified beside"] = stage.run("verify-beside", ["lodestone", "verify", "--all", "--output", "json"], beside)
    _lose_collections()
    script = ["python", "/stage/scripts/qdrant_snapshots.py", "restore", f"{_BACKUP}/qdrant"]
    seen["restored Qdrant"] = stage.run("restore-qdrant", script, admin)
    seen["verified Qdrant"] = stage.run("verify-qdrant", ["lodestone", "verify", "--output", "json"], admin)
    return seen


def _leave(stage: _Stage, worker: dict[str, Any], given: dict[str, str], token: str) -> dict[str, Any]:
    """What Kubernetes runs before it stops the worker's pod. Here it sees both nodes' processes, and is told its own."""
    command = list(worker["lifecycle"]["preStop"]["exec"]["command"])
    cmdlines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
    own = next(path for path, line in cmdlines.items() if b"/raylet\0" in line and b"raylet.1" in line)
    command[-1] = command[-1].replace("/proc/[0-9]*/cmdline", str(own)).replace("sleep 45", "true")
    code, said = stage.run("leave", command, given | {"RAY_ADDRESS": "127.0.0.1:6379"})

    def states() -> list[str]:
        answer = json.loads(_ask("http://127.0.0.1:8265/api/serve/applications/", Authorization=f"Bearer {token}")[1])
        deployments = answer["applications"]["lodestone"]["deployments"].values()
        return [str(replica["state"]) for deployment in deployments for replica in deployment["replicas"]]

    _until("Serve to move the replica", lambda: "PENDING_MIGRATION" in states(), 60)  # there is no other node to take it
    return {"left": code, "said on leaving": said}


def _metrics() -> str:
    return "".join(_ask(f"http://127.0.0.1:{port}/metrics")[1] for port in (8080, 8081))


def _of_job(stage: _Stage, job: dict[str, Any]) -> dict[str, str]:
    return stage.environment(job["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0])


def _start_data(stage: _Stage) -> None:
    """PostgreSQL, made as its image makes it, and Qdrant by the command of its pod."""
    postgres = stage.find("StatefulSet", "lodestone-catalog")["template"]["spec"]["containers"][0]
    qdrant = stage.find("StatefulSet", "lodestone-qdrant")["template"]["spec"]["containers"][0]
    given = stage.environment(postgres)
    options = [*given["POSTGRES_INITDB_ARGS"].split(), "--username", given["POSTGRES_USER"]]
    Path("/tmp/password").write_text(given["POSTGRES_PASSWORD"], encoding="utf-8")
    data, mine = "/volumes/postgres/data", _postgres_user()
    stage.run("initdb", [str(POSTGRES / "initdb"), "--pgdata", data, "--pwfile=/tmp/password", *options], given, uid=mine)
    Path("/tmp/password").unlink()
    server = [str(POSTGRES / "postgres"), "-D", data, "-k", "/tmp", "-h", "127.0.0.1", *postgres["args"]]
    stage.start("postgres", server, given, uid=mine)
    _until("PostgreSQL", lambda: stage.run("ready", [*_probe(postgres)], given)[0] == 0)
    login = given | {"PGPASSWORD": given["POSTGRES_PASSWORD"], "PGHOST": "127.0.0.1", "PGUSER": given["POSTGRES_USER"]}
    stage.run("createdb", [str(POSTGRES / "createdb"), given["POSTGRES_DB"]], login)
    own = {"HOSTNAME": "lodestone-qdrant-0", "QDRANT__STORAGE__STORAGE_PATH": "/volumes/storage/data"}
    own |= {"QDRANT__STORAGE__SNAPSHOTS_PATH": "/volumes/storage/snapshots"}
    stage.start("qdrant", [*qdrant["command"], *qdrant["args"]], stage.environment(qdrant, **own), cwd="/qdrant")
    _until("Qdrant", lambda: _ask(f"http://127.0.0.1:6333{qdrant['readinessProbe']['httpGet']['path']}")[0] == 200)


def _probe(container: dict[str, Any]) -> list[str]:
    return [part.replace("pg_isready", str(POSTGRES / "pg_isready")) for part in container["readinessProbe"]["exec"]["command"]]


def _lose_collections() -> int:
    """Drop every collection of Qdrant, as a lost volume does. Returns how many there were."""
    key = _SECRETS["lodestone-qdrant"]["api_key"]
    found = json.loads(_ask("http://127.0.0.1:6333/collections", api_key=key)[1])["result"]["collections"]
    for one in found:
        _ask(f"http://127.0.0.1:6333/collections/{one['name']}", method="DELETE", api_key=key)
    return len(found)


def main() -> None:
    """Inside: change the root, run everything, write the report."""
    _change_root(Path(sys.argv[1]))
    stage = _Stage(json.loads(Path("/stage/overlay.json").read_text(encoding="utf-8")))
    Path("/stage/report.json").write_text(json.dumps(_inside(stage)), encoding="utf-8")


if __name__ == "__main__":
    main()
