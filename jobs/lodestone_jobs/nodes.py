"""Check that every node of a cluster sees this home's embeddings and pictures, and has this version.

A nonce is written into the embedding area, and a task pinned to each node looks for it. Without the check, a missing mount
would show later as thousands of failed pictures, or as slices on a disk that no other node can read.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psutil

from lodestone import __version__
from lodestone.config.placement import check_placement
from lodestone.errors import ConfigurationError, RunFailedError

if TYPE_CHECKING:
    from lodestone.config.settings import Settings
    from lodestone.files.area import FileArea

_ANSWER_SECONDS: Final = 120.0
_SHOWN: Final = 3
_PROBE: Final = "probe-"
_LOOKED_AT: Final = 1000  # entries of a folder that are searched for a lasting one


@dataclass(frozen=True, slots=True)
class NodeView:
    """Reports what one node can see.

    Attributes:
        name: Host name of the node.
        version: Version of the Lodestone installed there.
        nonce: Whether it sees the file that the driver wrote.
        trouble: Error that occurred during the check.
        missing: Paths of pictures that it does not see.
    """

    name: str
    version: str
    nonce: bool
    trouble: str = ""
    missing: tuple[str, ...] = ()


def working_nodes() -> list[dict[str, Any]]:
    """Return the live nodes of the connected cluster on which work can be placed."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"] and (node["Resources"].get("CPU") or node["Resources"].get("GPU"))]


def check_nodes(settings: Settings, embeddings: FileArea, paths: Sequence[str] = ()) -> int:
    """Check every node, and return how many there are. Nothing is left behind.

    Args:
        settings: The home's settings.
        embeddings: The area for the home's slices.
        paths: Local files and folders that will be read.

    Raises:
        ConfigurationError: there are several nodes and a catalog or store of one machine; or a node does not see the embeddings
            or the pictures, or has another version of Lodestone.
        RunFailedError: a node did not answer.
    """
    nodes = working_nodes()
    check_placement(settings, nodes=len(nodes))
    views = _look_around(embeddings, nodes, witnesses(paths))
    if other_versions := [view for view in views if view.version != __version__]:
        raise ConfigurationError(
            f"{_named(other_versions, 'has', 'have')} Lodestone {other_versions[0].version}; this is {__version__}",
            hint="install the same version on every node of the cluster",
        )
    if without_nonce := [view for view in views if not view.nonce]:
        why = f" ({without_nonce[0].trouble})" if without_nonce[0].trouble else ""
        raise ConfigurationError(
            f"{_named(without_nonce, 'does', 'do')} not see the embeddings at {embeddings.location!r}{why}",
            hint="set index.embeddings and index.thumbnails to an object store (s3://bucket/prefix) or to a folder on a mount "
            "that every node has",
        )
    # A path that is gone on this machine too was a temporary file.
    if gone := [path for view in views for path in view.missing if is_there(path)]:
        lacking = [view for view in views if gone[0] in view.missing]
        raise ConfigurationError(
            f"{_named(lacking, 'does', 'do')} not see {gone[0]!r}",
            hint="put the pictures on a mount that every node has, or index them from an object store",
        )
    return len(nodes)


def witnesses(paths: Sequence[str]) -> list[str]:
    """Return the paths that a node must have to read these paths: themselves, and one entry of each folder.

    The entry is needed because a missing mount shows as an empty folder.
    """
    required: list[str] = []
    for path in paths:
        absolute = Path(path).absolute()
        required.append(str(absolute))
        # The path may be a file, or a folder that this user may not list.
        with suppress(OSError), os.scandir(absolute) as entries:
            required += _lasting(entries)
    return required


def _lasting(entries: Iterable[os.DirEntry[str]]) -> list[str]:
    """Return, in a list, one path that is not temporary: a file or folder, else a link to one; nothing hidden."""
    links: list[str] = []
    for entry in islice(entries, _LOOKED_AT):
        if entry.name.startswith("."):
            continue
        if not entry.is_symlink():
            return [entry.path]
        if not links and is_there(entry.path):
            links.append(entry.path)
    return links


def is_there(path: str) -> bool:
    """Return whether this process sees the path; False also where it has no permission to look."""
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises PermissionError


def _look_around(embeddings: FileArea, nodes: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[NodeView]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    _sweep(embeddings)
    nonce = f"{_PROBE}{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:12]}"
    embeddings.write(nonce, nonce.encode(), durable=False)
    try:
        task = ray.remote(num_cpus=0, max_retries=1)(look)
        pending = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
                embeddings, nonce, tuple(paths)
            )
            for node in nodes
        ]
        views: list[NodeView] = ray.get(pending, timeout=_ANSWER_SECONDS)
    except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise RunFailedError(
            f"a node of the cluster cannot work for Lodestone: {lines[-1].strip() if lines else type(error).__name__}",
            hint="Lodestone in this version, and this version of Python, must be installed on every node",
        ) from error
    finally:
        embeddings.delete(nonce)
    return views


def look(embeddings: FileArea, nonce: str, paths: Sequence[str]) -> NodeView:
    """Return what the node that this runs on can see."""
    trouble = ""
    try:
        sees_nonce = embeddings.size(nonce) == len(nonce)
    except OSError as error:
        sees_nonce, trouble = False, str(error)
    missing = tuple(path for path in paths if not is_there(path))
    return NodeView(socket.gethostname(), __version__, sees_nonce, trouble, missing)


def _sweep(embeddings: FileArea) -> None:
    """Delete nonces left by drivers on this machine that were killed during their check."""
    ours = f"{_PROBE}{socket.gethostname()}-"
    for file in embeddings.names()[1]:
        pid = file.path.removeprefix(ours).partition("-")[0]
        if file.path.startswith(ours) and pid.isdecimal() and not psutil.pid_exists(int(pid)):
            embeddings.delete(file.path)


def _named(views: Sequence[NodeView], singular: str, plural: str) -> str:
    names = ", ".join(repr(view.name) for view in views[:_SHOWN])
    more = f" and {len(views) - _SHOWN} more" if len(views) > _SHOWN else ""
    return f"nodes {names}{more} {plural}" if len(views) > 1 else f"the node {names} {singular}"
