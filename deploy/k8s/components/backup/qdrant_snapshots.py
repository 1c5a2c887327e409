"""Snapshots of a Qdrant server's or cluster's collections, kept in a bucket or a folder, and their restore.

    python qdrant_snapshots.py create s3://bucket/qdrant --keep 7
    python qdrant_snapshots.py list s3://bucket/qdrant
    python qdrant_snapshots.py restore s3://bucket/qdrant [--name NAME]

A node's snapshot of a collection holds the shards of that node alone, so every node of `store.url` is asked, and a restore
needs as many nodes, in the same order. Each file is compared with the checksum that the server gives. A set of snapshots exists
once `complete.json` is written, as the last file of it; unfinished sets are deleted by the next `create`. Nothing is held in
memory, and the server's own copy is deleted once it is fetched. Run by a CronJob, with the settings of Lodestone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

COMPLETE = "complete.json"
_PART_BYTES = 1 << 20
_TIMEOUT = httpx.Timeout(3600.0, connect=30.0)  # the server answers when a snapshot of many gigabytes is written, or read
_STAMP = "%Y%m%dT%H%M%SZ"


class SnapshotError(RuntimeError):
    """A snapshot cannot be made or restored; the message says why and what helps."""


class Place:
    """A bucket or folder that holds sets of snapshots, one folder each.

    Args:
        system: File system of pyarrow.
        base: Path inside it.
    """

    def __init__(self, system: FileSystem, base: str) -> None:
        self._system = system
        self._base = base.rstrip("/")

    def names(self, *, complete: bool = True) -> list[str]:
        """Return the names of the complete sets, or of the others, oldest first."""
        from pyarrow.fs import FileSelector, FileType

        found = self._system.get_file_info(FileSelector(self._base, allow_not_found=True))
        folders = sorted(one.base_name for one in found if one.type is FileType.Directory)
        markers = self._system.get_file_info([self._path(name, COMPLETE) for name in folders])
        return [name for name, marker in zip(folders, markers, strict=True) if (marker.type is FileType.File) is complete]

    def write(self, path: str, parts: Iterator[bytes]) -> str:
        """Write a file from its parts; return its SHA-256 in hexadecimal digits."""
        digest, where = hashlib.sha256(), self._path(path)
        self._system.create_dir(where.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(where) as stream:
            for part in parts:
                digest.update(part)
                stream.write(part)
        return digest.hexdigest()

    def open(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a file, opened for reading."""
        return self._system.open_input_file(self._path(path))

    def manifest(self, name: str) -> dict[str, Any]:
        """Return the contents of a set: aliases, and for each node its collections and their checksums."""
        with self.open(f"{name}/{COMPLETE}") as stream:
            contents: dict[str, Any] = json.loads(stream.read())
        return contents

    def delete(self, name: str) -> None:
        """Delete a set."""
        from pyarrow.fs import FileType

        marker = self._path(name, COMPLETE)
        if self._system.get_file_info(marker).type is FileType.File:
            self._system.delete_file(marker)  # first, so that a set that is half deleted is never restored
        self._system.delete_dir(self._path(name))

    def _path(self, *parts: str) -> str:
        return "/".join((self._base, *parts))


def create(nodes: list[httpx.Client], place: Place, *, keep: int) -> str:
    """Add a set of snapshots of all collections, and delete all but the last `keep` sets.

    Returns:
        The name of the set: the time at which it was begun.

    Raises:
        SnapshotError: a fetched file is not what the server wrote.
        httpx.HTTPError: a node does not answer, or refuses.
    """
    for unfinished in place.names(complete=False):
        place.delete(unfinished)
    name = datetime.now(UTC).strftime(_STAMP)
    collections = [one["name"] for one in _result(nodes[0].get("/collections"))["collections"]]
    aliases = _result(nodes[0].get("/aliases"))["aliases"]
    files = [{each: _fetch(node, each, place, f"{name}/{number}") for each in collections} for number, node in enumerate(nodes)]
    contents = {"aliases": aliases, "nodes": files}
    place.write(f"{name}/{COMPLETE}", iter([json.dumps(contents, indent=1).encode()]))
    for old in place.names()[:-keep]:
        place.delete(old)
    return name


def restore(nodes: list[httpx.Client], place: Place, name: str = "") -> str:
    """Bring all collections of a set back, and the aliases that name them. Points of the same collections are replaced.

    Args:
        nodes: As many as the set was made of, in the same order.
        place: Holds the set.
        name: Name of the set; the last one by default.

    Returns:
        The name of the set.

    Raises:
        SnapshotError: there is no such set, or it was made of another number of nodes.
        httpx.HTTPError: a node does not answer, or refuses.
    """
    known = place.names()
    if not known or (name and name not in known):
        raise SnapshotError(f"there is no complete set {name or 'of snapshots'!r} there: `list` shows those that are")
    name = name or known[-1]
    contents = place.manifest(name)
    if len(contents["nodes"]) != len(nodes):
        there = len(contents["nodes"])
        raise SnapshotError(
            f"the set {name} was made of {there} nodes, store.url names {len(nodes)}: scale Qdrant to {there}, or load the "
            "collections from Parquet instead (lodestone verify --repair)"
        )
    for collection in contents["nodes"][0]:
        for number, node in enumerate(nodes):
            _restore_node(node, collection, place, name, contents["nodes"], own=number)
    actions = [{"create_alias": alias} for alias in contents["aliases"]]
    if actions:
        _result(nodes[0].post("/collections/aliases", json={"actions": actions}))
    return name


def _fetch(node: httpx.Client, collection: str, place: Place, folder: str) -> dict[str, Any]:
    """Make a snapshot on a node, copy it, and delete it there; return its checksum and the shards that it holds."""
    shards = sorted(_shards(node, collection))
    made = _result(node.post(f"/collections/{collection}/snapshots", params={"wait": "true"}))
    path = f"/collections/{collection}/snapshots/{made['name']}"
    try:
        with node.stream("GET", path) as answer:
            answer.raise_for_status()
            checksum = place.write(f"{folder}/{collection}.snapshot", answer.iter_bytes(_PART_BYTES))
    finally:
        node.delete(path)
    if made.get("checksum") and made["checksum"] != checksum:
        raise SnapshotError(f"the snapshot of {collection} from {node.base_url} arrived damaged: run it again")
    return {"checksum": checksum, "shards": shards}


def _restore_node(
    node: httpx.Client, collection: str, place: Place, name: str, files: list[dict[str, Any]], *, own: int
) -> None:
    """Fill the shards that a node has of a collection.

    The node's own file creates the collection where it is missing. A cluster may then place shards otherwise than before, on
    other nodes' data: those that the own file lacks come from the files of the nodes that had them.
    """
    _upload(node, collection, place, f"{name}/{own}", files[own][collection]["checksum"])
    lacking = _shards(node, collection) - set(files[own][collection]["shards"])
    for number, kept in enumerate(files):
        if lacking & set(kept[collection]["shards"]):
            _upload(node, collection, place, f"{name}/{number}", kept[collection]["checksum"])
            lacking -= set(kept[collection]["shards"])
    if lacking:
        raise SnapshotError(f"no file of the set {name} has the shards {sorted(lacking)} of {collection}: load it from Parquet")


def _upload(node: httpx.Client, collection: str, place: Place, folder: str, checksum: str) -> None:
    # Every node gets its shards from a file. Copies that are synchronised beside that stay `Partial` for good (Qdrant 1.16.3).
    query = {"priority": "no_sync", "checksum": checksum, "wait": "true"}
    with place.open(f"{folder}/{collection}.snapshot") as stream:
        path = f"/collections/{collection}/snapshots/upload"
        _result(node.post(path, params=query, files={"snapshot": (collection, stream)}))


def _shards(node: httpx.Client, collection: str) -> set[int]:
    """Return the numbers of the shards that a node has."""
    return {shard["shard_id"] for shard in _result(node.get(f"/collections/{collection}/cluster"))["local_shards"]}


def _result(answer: httpx.Response) -> Any:  # noqa: ANN401 - JSON
    if answer.is_error:
        raise SnapshotError(f"Qdrant refused {answer.request.url.path} ({answer.status_code}): {answer.text[:300]}")
    return answer.json()["result"]


def place_of(location: str) -> Place:
    """Return the place at a folder or a URL (s3://bucket/prefix)."""
    from pyarrow.fs import LocalFileSystem

    from lodestone.files.filesystems import FileSystems
    from lodestone.files.urls import Url

    return Place(*FileSystems().at(Url.typed(location))) if "://" in location else Place(LocalFileSystem(), location)


def clients() -> list[httpx.Client]:
    """Return a client for each node that Lodestone's settings name, with their key."""
    from lodestone.config.settings import load_settings

    store = load_settings().settings.store
    headers = {"api-key": store.api_key.get_secret_value()} if store.api_key else {}
    return [httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT, trust_env=False) for url in store.urls]


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the CronJob, and of people in the admin pod."""
    parser = argparse.ArgumentParser(description="Keep and restore snapshots of Qdrant's collections.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("create", "list", "restore"):
        own = commands.add_parser(command)
        own.add_argument("place", help="folder, or URL of a bucket")
        if command == "create":
            own.add_argument("--keep", type=int, default=7, help="sets to keep, the last ones (default 7)")
        if command == "restore":
            own.add_argument("--name", default="", help="name of the set; default: the last")
    chosen = parser.parse_args(arguments)
    if chosen.command == "create" and chosen.keep < 1:
        parser.error("--keep must be 1 or more")
    place = place_of(chosen.place)
    try:
        if chosen.command == "list":
            lines = place.names()
        elif chosen.command == "create":
            lines = [f"created {create(clients(), place, keep=chosen.keep)}"]
        else:
            lines = [f"restored {restore(clients(), place, chosen.name)}"]
    except (SnapshotError, httpx.HTTPError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
