"""Restores the replicas of shards after a Qdrant node was lost for good: shards with too few copies are copied to another node.

Runs in the admin pod, which knows the nodes and the key:

    kubectl --namespace lodestone exec --stdin deploy/lodestone-admin -- python - < deploy/replicate_shards.py

Copies one shard at a time, while searches and loads go on. Run it again at any time: it does what is left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

_POLL_S = 0.5
_TIMEOUT_S = 60.0
_PATIENCE_S = 3_600.0  # a shard of ten million vectors takes minutes


class Cluster:
    """A Qdrant cluster, asked through any of its nodes.

    Args:
        urls: Of the nodes.
        key: API key, if it asks for one.
    """

    def __init__(self, urls: Sequence[str], key: str = "") -> None:
        self._urls = urls
        self._http = httpx.Client(headers={"api-key": key} if key else {}, timeout=_TIMEOUT_S, trust_env=False)

    def get(self, path: str) -> dict[str, Any]:
        """The `result` of a GET at the first node that answers.

        Raises:
            httpx.HTTPError: none does, or it refuses.
        """
        found: dict[str, Any] = self._ask("GET", path, None)["result"]
        return found

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """POST to the first node that answers; errors as of `get`."""
        self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        for url in self._urls[:-1]:
            try:
                return self._answer(method, f"{url}{path}", body)
            except httpx.TransportError:
                continue  # the next node may answer
        return self._answer(method, f"{self._urls[-1]}{path}", body)

    def _answer(self, method: str, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.request(method, url, json=body).raise_for_status().json()
        return answer

    def copies(self, collection: str) -> tuple[dict[int, set[int]], bool]:
        """Shard -> nodes with an active copy of it, and whether anything is being copied."""
        found = self.get(f"/collections/{collection}/cluster")
        local = [{**shard, "peer_id": found["peer_id"]} for shard in found["local_shards"]]
        copies: dict[int, set[int]] = {}
        for shard in [*local, *found["remote_shards"]]:
            copies.setdefault(shard["shard_id"], set()).update({shard["peer_id"]} if shard["state"] == "Active" else ())
        return copies, bool(found["shard_transfers"])


def replicate(cluster: Cluster) -> Iterator[str]:
    """Copy what has too few copies; says what it does.

    Raises:
        TimeoutError: a copy does not come to an end.
    """
    peers = {int(peer) for peer in cluster.get("/cluster")["peers"]}
    for collection in (one["name"] for one in cluster.get("/collections")["collections"]):
        wanted = cluster.get(f"/collections/{collection}")["config"]["params"]["replication_factor"]
        copies, _ = cluster.copies(collection)
        for shard in sorted(copies):
            while len(copies[shard]) < min(wanted, len(peers)):
                if not copies[shard]:
                    yield f"{collection}: shard {shard} has no copy left: lodestone verify --repair"
                    break
                held = {peer: sum(peer in nodes for nodes in copies.values()) for peer in peers - copies[shard]}
                target = min(held, key=lambda peer: (held[peer], peer))
                yield f"{collection}: shard {shard} to node {target}"
                copy = {"shard_id": shard, "from_peer_id": min(copies[shard]), "to_peer_id": target}
                cluster.post(f"/collections/{collection}/cluster", {"replicate_shard": copy})
                copies = _when_copied(cluster, collection, shard, target)


def _when_copied(cluster: Cluster, collection: str, shard: int, target: int) -> dict[int, set[int]]:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        copies, busy = cluster.copies(collection)
        if target in copies[shard] and not busy:
            return copies
        time.sleep(_POLL_S)
    raise TimeoutError(f"{collection}: shard {shard} is not on node {target} after {_PATIENCE_S:g} s: look at its log")


def main() -> None:
    """Entry point in the admin pod."""
    from lodestone.config.settings import load_settings

    store = load_settings().settings.store
    key = store.api_key.get_secret_value() if store.api_key else ""
    done = 0
    for line in replicate(Cluster(store.urls, key)):
        done += 1
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("every shard has its copies\n" if not done else "done\n")


if __name__ == "__main__":
    main()
