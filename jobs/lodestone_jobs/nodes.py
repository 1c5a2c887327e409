"""Can every node of a cluster do this home's work? Each is asked: does it see our embeddings, our pictures, our version?

A nonce is written into the embedding area; a task pinned to each node looks for it. What one node lacks would come out later as
thousands of failed pictures, or as slices on a disk that nobody else reads.
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
_LOOKED_AT: Final = 1000  # entries of a folder, for one that lasts


@dataclass(frozen=True, slots=True)
class NodeView:
    """What one node can see.

    Attributes:
        name: Its host.
        version: Of the Lodestone installed there.
        nonce: Whether it sees the file that the driver wrote.
        trouble: What went wrong while looking.
        missing: Paths of pictures that are not there.
    """

    name: str
    version: str
    nonce: bool
    trouble: str = ""
    missing: tuple[str, ...] = ()


def working_nodes() -> list[dict[str, Any]]:
    """Living nodes of the cluster that this process is connected to, on which work can be placed."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"] and (node["Resources"].get("CPU") or node["Resources"].get("GPU"))]


def check_nodes(settings: Settings, embeddings: FileArea, paths: Sequence[str] = ()) -> int:
    """Ask every node; returns how many there are. Leaves nothing behind.

    Args:
        settings: The home's.
        embeddings: Where its slices go.
        paths: Local files and folders that will be read.

    Raises:
        ConfigurationError: several nodes, and a catalog or store of one machine; or one of them does not see the embeddings or
            the pictures, or has another Lodestone.
        RunFailedError: a node did not answer.
    """
    nodes = working_nodes()
    check_placement(settings, nodes=len(nodes))
    views = _look_around(embeddings, nodes, witnesses(paths))
    if strange := [view for view in views if view.version != __version__]:
        raise ConfigurationError(
            f"{_named(strange, 'has', 'have')} Lodestone {strange[0].version}; this is {__version__}",
            hint="install the same version on every node of the cluster",
        )
    if blind := [view for view in views if not view.nonce]:
        why = f" ({blind[0].trouble})" if blind[0].trouble else ""
        raise ConfigurationError(
            f"{_named(blind, 'does', 'do')} not see the embeddings at {embeddings.location!r}{why}",
            hint="set index.embeddings and index.thumbnails to an object store (s3://bucket/prefix) or to a folder on a mount "
            "that every node has",
        )
    # What is gone here too by now was somebody's temporary file.
    if gone := [path for view in views for path in view.missing if is_there(path)]:
        lacking = [view for view in views if gone[0] in view.missing]
        raise ConfigurationError(
            f"{_named(lacking, 'does', 'do')} not see {gone[0]!r}",
            hint="put the pictures on a mount that every node has, or index them from an object store",
        )
    return len(nodes)


def witnesses(paths: Sequence[str]) -> list[str]:
    """What a node must have to see these paths: them, and something in each folder. A mount that is missing is an empty one."""
    found: list[str] = []
    for path in paths:
        whole = Path(path).absolute()
        found.append(str(whole))
        with suppress(OSError), os.scandir(whole) as entries:  # a file, or a folder that only others may list
            found += _lasting(entries)
    return found


def _lasting(entries: Iterable[os.DirEntry[str]]) -> list[str]:
    """The path of one that will be there in a minute: a file or folder, else a link to one; nothing hidden."""
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
    """Whether this process sees it; False where it may not look, too."""
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises PermissionError


def _look_around(embeddings: FileArea, nodes: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[NodeView]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    _sweep(embeddings)
    nonce = f"{_PROBE}{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:12]}"
    embeddings.write(nonce, nonce.encode(), durable=False)
    try:
        task = ray.remote(num_cpus=0, max_retries=1)(look)
        asked = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
                embeddings, nonce, tuple(paths)
            )
            for node in nodes
        ]
        views: list[NodeView] = ray.get(asked, timeout=_ANSWER_SECONDS)
    except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError) as error:
        said = [line for line in str(error).splitlines() if line.strip()]
        raise RunFailedError(
            f"a node of the cluster cannot work for Lodestone: {said[-1].strip() if said else type(error).__name__}",
            hint="Lodestone in this version, and this version of Python, must be installed on every node",
        ) from error
    finally:
        embeddings.delete(nonce)
    return views


def look(embeddings: FileArea, nonce: str, paths: Sequence[str]) -> NodeView:
    """What the node that this runs on can see."""
    trouble = ""
    try:
        seen = embeddings.size(nonce) == len(nonce)
    except OSError as error:
        seen, trouble = False, str(error)
    missing = tuple(path for path in paths if not is_there(path))
    return NodeView(socket.gethostname(), __version__, seen, trouble, missing)


def _sweep(embeddings: FileArea) -> None:
    """Delete what drivers on this machine left that were killed while they asked."""
    ours = f"{_PROBE}{socket.gethostname()}-"
    for file in embeddings.names()[1]:
        pid = file.path.removeprefix(ours).partition("-")[0]
        if file.path.startswith(ours) and pid.isdecimal() and not psutil.pid_exists(int(pid)):
            embeddings.delete(file.path)


def _named(views: Sequence[NodeView], one: str, several: str) -> str:
    names = ", ".join(repr(view.name) for view in views[:_SHOWN])
    more = f" and {len(views) - _SHOWN} more" if len(views) > _SHOWN else ""
    return f"nodes {names}{more} {several}" if len(views) > 1 else f"the node {names} {one}"
