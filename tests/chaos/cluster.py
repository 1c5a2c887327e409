"""Servers that a round of chaos happens to: Ray nodes, a Qdrant cluster of three, PostgreSQL, and homes that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from scripts.fetch_qdrant import fetch
from tests.support.models import model_context
from tests.support.pictures import write_bad_files, write_photos
from tests.support.postgres_server import PostgresServer, run_postgres
from tests.support.qdrant_cluster import QdrantCluster, run_qdrant_cluster
from tests.support.ray_nodes import NodeNotStartedError, RayNodes, run_ray_nodes

from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home

PICTURES, SLICE = 40, 8
CORPUS = "chaos"
RAY_NODES = 3
_RUN_SECONDS = 240.0
_MEND_ATTEMPTS = 3
_WORKER = "EmbedSlices"  # in the title of an actor's process
_SETTINGS = """
profile = "small"
catalog_url = "{catalog}"
[profiles.small]
direct = {{ pixels = "efficientnet-lite0#features" }}
[models]
cache = "{models}"
threads = 1
[index]
slice_size = {slice_size}
[store]
kind = "server"
url = {urls}
grpc_port = {grpc_ports}
shards = 3
replication = 2
timeout_s = 5
[cluster]
address = "{ray}"
{actors}
"""
_TWO_ACTORS = "actors = 2\ncpus_per_actor = 0.5"
_ACTOR_A_NODE = "actors = 0\ncpus_per_actor = 2"  # a node that joins gets one, too
_DRIVER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "16",  # a driver whose head node is gone gives up after seven seconds, not forty
}


@dataclass
class Driver:
    """A driver's process and the steps that it has told so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    steps: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def listen(self) -> None:
        """Read what it tells, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip())
                self.steps += line.startswith("step ")
                self._changed.notify_all()
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    def wait_for_step(self, number: int) -> bool:
        """Return when it has told so many steps; False: it ended before."""
        with self._changed:
            self._changed.wait_for(lambda: self.steps >= number or self.process.poll() is not None, timeout=_RUN_SECONDS)
            return self.steps >= number and self.process.poll() is None


@dataclass
class ChaosCluster:
    """The servers, and where the pictures are.

    Attributes:
        template: Name of a database with the corpus in it: its id is part of every picture's.
        ray_nodes: Number of Ray nodes at the beginning of a run.
        actors: Settings of the embedding actors.
    """

    folder: Path
    postgres: PostgresServer
    qdrant: QdrantCluster
    ray: RayNodes
    photos: Path
    template: str
    ray_nodes: int = RAY_NODES
    actors: str = _TWO_ACTORS
    _drivers: list[subprocess.Popen[str]] = field(default_factory=list)

    def new_home(self, name: str) -> Path:
        """A home of its own with an empty catalog, in which pictures get the ids that they get in every other."""
        home = Home(self.folder / name)
        home.prepare()
        home.settle(home.new_id())  # a catalog that has a corpus already takes none that is made up
        self._configure(home.path, self.postgres.create_database(self.template))
        return home.path

    def reconfigure(self, home: Path) -> None:
        """Write the settings again: a new Ray has a new address."""
        catalog = next(line for line in (home / "lodestone.toml").read_text().splitlines() if line.startswith("catalog_url"))
        self._configure(home, catalog.partition('"')[2].rstrip('"'))

    def _configure(self, home: Path, catalog: str) -> None:
        text = _SETTINGS.format(
            catalog=catalog,
            models=model_context().cache.root,
            slice_size=SLICE,
            urls=self.qdrant.urls,
            grpc_ports=self.qdrant.grpc_ports,
            ray=self.ray.address,
            actors=self.actors,
        )
        (home / "lodestone.toml").write_text(text.replace("'", '"'))

    @contextmanager
    def driver(self, home: Path, *, resume: bool = False) -> Iterator[Driver]:
        """A driver on its way; dead at the end of the block."""
        arguments = [str(home), CORPUS] + ([] if resume else [str(self.photos)])
        with (home / "driver.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.driver", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, **_DRIVER_ENVIRONMENT, **self.ray.environment},
            )
        self._drivers.append(process)
        driver = Driver(process)
        listener = threading.Thread(target=driver.listen, daemon=True)
        listener.start()
        try:
            yield driver
        finally:
            process.kill()
            listener.join()

    def workers(self) -> list[psutil.Process]:
        """Processes of Ray actors that decode or embed now."""
        found = []
        for process in self.ray.processes():
            try:
                if _WORKER in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:  # it ended meanwhile
                continue
        return found

    def mend(self) -> None:
        """Have every server and node run again that does not."""
        if self.postgres.process.poll() is not None:
            self.postgres.start()
        for left in reversed(range(_MEND_ATTEMPTS)):
            try:
                self._mend_ray()
                break
            except NodeNotStartedError:
                if not left:
                    raise
        self.qdrant.restart_dead()

    def _mend_ray(self) -> None:
        if 0 not in self.ray.alive:  # the head was lost, and with it the cluster
            self.ray.restart(nodes=self.ray_nodes)
        for number in sorted(self.ray.alive)[self.ray_nodes :]:  # nodes that joined in the last round
            self.ray.kill(number)
        while len(self.ray.alive) < self.ray_nodes:
            self.ray.add()

    def kill_drivers(self) -> None:
        """SIGKILL the drivers that still run: those of a round that hangs."""
        for process in self._drivers:
            process.kill()

    def forget(self, home: Path) -> None:
        """Remove a home's collections from the servers, so that later rounds are not slowed down by them."""
        prefix = f"{Home(home).id}."
        node = self.qdrant.nodes[0]
        for collection in node.get("/collections")["collections"]:
            if collection["name"].startswith(prefix):
                node.delete(f"/collections/{collection['name']}")


@contextmanager
def chaos_cluster(
    folder: Path, *, ray_nodes: int = RAY_NODES, qdrant: Path | None = None, postgres: Path | None = None
) -> Iterator[ChaosCluster]:
    """All servers, started side by side.

    Args:
        folder: Where their files and the pictures are.
        ray_nodes: Number of Ray nodes; with fewer than three, each has one actor.
        qdrant: Qdrant's binary, if it is known where that is.
        postgres: The folder of PostgreSQL's binaries, likewise.
    """
    photos = folder / "photos"
    write_photos(photos, PICTURES)
    write_bad_files(photos / "bad")
    for number in range(0, PICTURES, 5):
        (photos / f"{number:06}.txt").write_text(f"a made up picture, number {number}", encoding="utf-8")
    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:

        def enter(context: Any) -> Any:
            return stack.enter_context(context)

        starting = [
            pool.submit(enter, context)
            for context in (
                run_postgres(folder / "postgres", binaries=postgres),
                run_qdrant_cluster(qdrant or fetch(), folder / "qdrant"),
                run_ray_nodes(nodes=ray_nodes),
            )
        ]
        database, store, ray = [each.result() for each in starting]
        template = database.create_database()
        catalog = Catalog.open(template)
        catalog.ensure_corpus(CORPUS)
        catalog.close()
        actors = _TWO_ACTORS if ray_nodes == RAY_NODES else _ACTOR_A_NODE
        cluster = ChaosCluster(folder, database, store, ray, photos, template.rpartition("/")[2], ray_nodes, actors)
        stack.callback(cluster.kill_drivers)
        yield cluster
