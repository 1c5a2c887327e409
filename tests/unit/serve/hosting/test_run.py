"""What cannot be served is refused before anything is started, with the reason."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lodestone.config.home import Home
from lodestone.config.settings import Settings, load_settings
from lodestone.errors import ConfigurationError, HomeVersionError, StoreLockedError, UnknownNameError
from lodestone.store.ownership import StoreOwnership
from lodestone_serve.hosting.listening import reserve, share
from lodestone_serve.hosting.run import needs_ray, serve_forever


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Ray must not be started")

    monkeypatch.setattr("lodestone_serve.hosting.ray_serve.local_ray", refuse)


def settings(home: Path, **serve: object) -> Settings:
    return load_settings({"home": home, "serve": serve, "store": {"lock_timeout_s": 0.0}}).settings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_only_this_machines_own_addresses_are_served(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"serve\.host") as caught:
        serve_forever(settings(tmp_path, host=host))
    assert "127.0.0.1" in caught.value.hint


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=str(port)) as caught:
            serve_forever(settings(tmp_path, port=port))
    assert "--port 0" in caught.value.hint


def test_the_owner_of_a_locked_store_is_named(tmp_path: Path) -> None:
    Home(tmp_path).prepare()
    owner = StoreOwnership(Home(tmp_path).store, command="lodestone index", timeout=0)
    owner.acquire()
    try:
        with pytest.raises(StoreLockedError, match=r"lodestone index") as caught:
            serve_forever(settings(tmp_path, port=0))
    finally:
        owner.release()
    assert caught.value.details["pid"] == os.getpid()


def test_an_unknown_profile_and_a_newer_home_are_refused(tmp_path: Path) -> None:
    wrong = load_settings({"home": tmp_path, "profile": "magic"}).settings
    with pytest.raises(UnknownNameError, match="magic"):
        serve_forever(wrong)
    tmp_path.joinpath("home.json").write_text('{"format": 99, "written_by": "9.9"}')
    with pytest.raises(HomeVersionError):
        serve_forever(settings(tmp_path))


def test_the_chosen_port_is_held_until_the_service_listens() -> None:
    """Ray takes seconds to start: a port that was only looked at could be anybody's by then."""
    with reserve("127.0.0.1", 0) as held, socket.socket() as proxy:
        share(held)
        address = held.getsockname()
        for options in ((), (socket.SO_REUSEADDR,)):
            with socket.socket() as other:
                for option in options:
                    other.setsockopt(socket.SOL_SOCKET, option, 1)
                with pytest.raises(OSError, match="in use"):
                    other.bind(address)
        with pytest.raises(ConfigurationError, match="in use"):
            reserve("127.0.0.1", address[1])
        proxy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Serve's proxy does
        proxy.bind(address)
        proxy.listen()
        for _ in range(50):  # all connections are the listener's
            with socket.create_connection(address, timeout=5.0):
                proxy.accept()[0].close()


def test_ray_is_not_read_before_its_environment_is_set() -> None:
    """It keeps what it found at its import: without `local_ray`'s variables its servers listen on every network card."""
    told = (
        "import sys; import lodestone_serve.hosting.run; print(sorted(name for name in sys.modules if name.startswith('ray')))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("engine", "graph", "expected"),
    [
        ("auto", {}, False),
        ("process", {}, False),
        ("ray", {}, True),
        ("auto", {"shape": "graph"}, True),
        ("ray", {"shape": "graph"}, True),
        ("auto", {"llm": {"model": "some-model"}}, True),
    ],
)
def test_ray_hosts_what_needs_deployments_or_asks_for_it(
    tmp_path: Path, engine: str, graph: dict[str, object], expected: bool
) -> None:
    assert needs_ray(settings(tmp_path, engine=engine, graph=graph)) == expected


def test_a_configuration_of_rays_own_is_hosted_by_ray(tmp_path: Path) -> None:
    assert needs_ray(settings(tmp_path), options={"App": {}})


@pytest.mark.parametrize("graph", [{"shape": "graph"}, {"llm": {"model": "some-model"}}])
def test_one_process_refuses_what_it_cannot_host(tmp_path: Path, graph: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="one process cannot host") as caught:
        serve_forever(settings(tmp_path, engine="process", graph=graph))
    assert (caught.value.details["setting"], "auto" in caught.value.hint) == ("serve.engine", True)
    assert not (tmp_path / "home.json").exists(), "nothing has been started"


@pytest.mark.parametrize(
    ("serve", "reason"), [({"engine": "ray"}, "serve.engine is ray"), ({"graph": {"shape": "graph"}}, "shape")]
)
@pytest.mark.parametrize("processes", [0, 2])
def test_further_processes_are_refused_where_replicas_answer(
    tmp_path: Path, serve: dict[str, object], reason: str, processes: int
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        needs_ray(settings(tmp_path, processes=processes, **serve))
    assert "serve.graph.ingress.max_replicas" in caught.value.hint
    assert caught.value.details["setting"] == "serve.processes"
    assert not needs_ray(settings(tmp_path, processes=processes))
