"""Rules about running an installation: drains, name look-ups, secrets, connections, deadlines and labels.

No schema has them, and each one is about a fault that only shows in a live cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scripts.manifests.overlays import Object, Pod, name_of, of_kind, pods, ray_clusters

RELEASE: Final = "release"
"""Label by which a Prometheus operator, as its chart installs it, chooses monitors and rules."""
NODE_LOCAL_DNS: Final = "169.254.20.10/32"
"""Address of NodeLocal DNSCache, the same on every node."""
_DNS_PORT: Final = 53
_COMPONENT, _RAY = "app.kubernetes.io/component", "lodestone/ray"
_CATALOG, _QDRANT, _BUCKET = "lodestone-catalog", "lodestone-qdrant", "lodestone-bucket"

SECRETS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("head", "service"): frozenset(),  # controller and proxy: they open neither catalog nor store
    ("worker", "service"): frozenset({_CATALOG, _QDRANT, _BUCKET}),
    ("head", "index"): frozenset({_CATALOG, _QDRANT, _BUCKET}),  # the driver
    ("worker", "index"): frozenset({_BUCKET}),  # they read pictures, and write embeddings and thumbnails
    ("submitter", "index"): frozenset(),
    ("admin", ""): frozenset({_CATALOG, _QDRANT, _BUCKET}),
    ("scheduler", ""): frozenset(),
    ("qdrant", ""): frozenset({_QDRANT}),
    ("catalog", ""): frozenset({_CATALOG}),
    ("redis", ""): frozenset({"lodestone-redis"}),
    ("models", ""): frozenset({"lodestone-hub"}),
    ("backup", ""): frozenset({_CATALOG, _BUCKET}),
    ("snapshots", ""): frozenset({_QDRANT, _BUCKET}),
}
"""(component, Ray cluster) of a pod -> the secrets that it reads. KubeRay adds Ray's own token to the pods of Ray."""


def faults(objects: list[Object]) -> list[str]:
    """Return what would go wrong with the objects of an overlay in a live cluster."""
    rules = (budgets, name_lookups, deadlines, secrets, monitors, accounts)
    return [fault for rule in rules for fault in rule(objects)]


def chooses(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a label selector chooses these labels; an empty one chooses all."""
    if any(labels.get(name) != value for name, value in selector.get("matchLabels", {}).items()):
        return False
    tests = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
    expressions = selector.get("matchExpressions", [])
    return all(tests[one["operator"]](labels.get(one["key"]), one.get("values", [])) for one in expressions)


def budgets(objects: list[Object]) -> Iterator[str]:
    """Yield disruption budgets that block every drain.

    The disruption controller finds out how many pods there should be by the `scale` subresource of their controller. A
    RayCluster has none: `maxUnavailable` and percentages over its pods then allow no eviction at all. An integer
    `minAvailable` needs no such number, but must be less than the fewest pods.
    """
    fewest = [(labels, count) for item in objects for labels, count in _ray_pods(item)]
    for budget in of_kind(objects, "PodDisruptionBudget"):
        spec = budget["spec"]
        counts = [count for labels, count in fewest if chooses(spec["selector"], labels)]
        least = spec.get("minAvailable")
        if counts and not isinstance(least, int):
            yield f"{name_of(budget)}: pods of Ray have no scale subresource, so only an integer minAvailable lets a node drain"
        elif counts and least >= sum(counts):
            yield f"{name_of(budget)}: minAvailable is {least} of at fewest {sum(counts)} pods: no node could be drained"


def _ray_pods(item: Object) -> Iterator[tuple[dict[str, str], int]]:
    """Yield (labels, fewest) of the pods of each group of a Ray cluster."""
    for _, cluster in ray_clusters(item):
        yield cluster["headGroupSpec"]["template"]["metadata"].get("labels", {}), 1
        for group in cluster.get("workerGroupSpecs", []):
            yield group["template"]["metadata"].get("labels", {}), int(group["minReplicas"])


def name_lookups(objects: list[Object]) -> Iterator[str]:
    """Yield clusters' DNS rules that fail where a cache on each node answers.

    The cache's pods are in the network of their node, so that no pod selector chooses them. Pods ask its own address, or that
    of the service `kube-dns`, which the cache takes over on the node: neither is the address of a pod of `kube-dns`.
    """
    for policy in of_kind(objects, "NetworkPolicy"):
        rules = [rule for rule in policy["spec"].get("egress", []) if _asks_names(rule)]
        blocks = {peer["ipBlock"]["cidr"] for rule in rules for peer in rule["to"] if "ipBlock" in peer}
        if rules and NODE_LOCAL_DNS not in blocks:
            yield f"{name_of(policy)}: no look-ups with NodeLocal DNSCache: {NODE_LOCAL_DNS}, port 53, is not allowed"
        if rules and not blocks - {NODE_LOCAL_DNS}:
            yield f"{name_of(policy)}: no look-ups with NodeLocal DNSCache: the address of the service kube-dns is not allowed"


def _asks_names(rule: dict[str, Any]) -> bool:
    return any(port.get("port") == _DNS_PORT for port in rule.get("ports", []))


def deadlines(objects: list[Object]) -> Iterator[str]:
    """Yield jobs that Kubernetes would end while they work: a run over many pictures takes days."""
    for job in of_kind(objects, "RayJob"):
        if "activeDeadlineSeconds" in job["spec"]:
            limit = job["spec"]["activeDeadlineSeconds"]
            yield f"{name_of(job)}: activeDeadlineSeconds ends every run after {limit} s, also one that makes progress"
    for cron in of_kind(objects, "CronJob"):
        spec = cron["spec"]["jobTemplate"]["spec"]
        if "activeDeadlineSeconds" in spec and spec["template"]["metadata"]["labels"].get(_COMPONENT) != "scheduler":
            yield f"{name_of(cron)}: activeDeadlineSeconds ends a long backup every time"


def secrets(objects: list[Object]) -> Iterator[str]:
    """Yield pods that read a secret which they do not need, or lack one that they need."""
    for pod in pods(objects):
        role = (pod.labels.get(_COMPONENT, ""), pod.labels.get(_RAY, ""))
        if role not in SECRETS:
            yield f"{pod.where}: scripts/manifests/operation.py does not say which secrets a pod of {role} needs"
            continue
        given = secrets_of(pod)
        yield from (f"{pod.where}: reads the secret {name}, which it does not need" for name in sorted(given - SECRETS[role]))
        yield from (f"{pod.where}: lacks the secret {name}" for name in sorted(SECRETS[role] - given))


def secrets_of(pod: Pod) -> frozenset[str]:
    """Return the names of all secrets that a pod reads, by its environment or a volume."""
    names = set()
    for container in pod.containers:
        for variable in container.get("env", []):
            names.add(variable.get("valueFrom", {}).get("secretKeyRef", {}).get("name"))
        for source in container.get("envFrom", []):
            names.add(source.get("secretRef", {}).get("name"))
    for volume in pod.spec.get("volumes", []):
        names.add(volume.get("secret", {}).get("secretName"))
        for source in volume.get("projected", {}).get("sources", []):
            names.add(source.get("secret", {}).get("name"))
    return frozenset(name for name in names if name)


def accounts(objects: list[Object]) -> Iterator[str]:
    """Yield service accounts that pods with different secrets share: a cloud's role is given to an account."""
    users: dict[str, dict[bool, str]] = {}
    for pod in pods(objects):
        users.setdefault(pod.spec["serviceAccountName"], {}).setdefault(_BUCKET in secrets_of(pod), pod.where)
    for account, by_need in users.items():
        if len(by_need) > 1:
            yield f"ServiceAccount/{account}: {by_need[True]} needs buckets, {by_need[False]} does not: give it its own account"


def monitors(objects: list[Object]) -> Iterator[str]:
    """Yield monitors and rules that a Prometheus operator, as its chart installs it, would not see."""
    for item in of_kind(objects, "PodMonitor", "PrometheusRule"):
        if not item["metadata"].get("labels", {}).get(RELEASE):
            yield f"{name_of(item)}: has no label {RELEASE!r}, by which the Prometheus operator's chart chooses"
