"""Which runs load by tasks on the nodes of a cluster, and what is sent there."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lodestone.config.cluster import ClusterSettings
from lodestone.config.settings import Settings, StoreSettings
from lodestone.home.runtime import Runtime
from lodestone.store.factory import StoreServer
from lodestone_jobs.cluster import LocalRay
from lodestone_jobs.loading import task_loaders
from lodestone_jobs.pools import ray_pool


@pytest.mark.parametrize(
    ("store", "load", "by_tasks"), [("server", True, True), ("server", False, False), ("edge", True, False)]
)
def test_tasks_load_into_a_server_unless_the_driver_shall(tmp_path: Path, store: str, load: bool, by_tasks: bool) -> None:
    settings = Settings(home=tmp_path, store=StoreSettings(kind=store), cluster=ClusterSettings(address="head:6379", load=load))
    with Runtime.open(settings) as runtime:
        assert (task_loaders(runtime, LocalRay(workers=1)) is not None) == by_tasks


def test_on_one_machine_the_driver_loads(tmp_path: Path) -> None:
    with Runtime.open(Settings(home=tmp_path, store=StoreSettings(kind="server"))) as runtime, ray_pool(runtime) as pool:
        assert pool.loaders is None


def test_the_address_of_a_store_can_be_sent_and_shows_no_key() -> None:
    server = StoreServer(("http://a:6333", "http://b:6333"), api_key="secret", grpc_port=(6334, 6335), namespace="x")
    assert pickle.loads(pickle.dumps(server)) == server
    assert hash(pickle.loads(pickle.dumps(server))) == hash(server)  # one store is opened for all tasks of a process
    assert "secret" not in repr(server)
