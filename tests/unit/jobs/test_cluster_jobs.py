"""What may be spread over nodes, how many actors fit, and which clusters and settings are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lodestone import __version__
from lodestone.config.cluster import ClusterSettings
from lodestone.config.placement import check_placement
from lodestone.config.settings import Settings, StoreSettings
from lodestone.errors import ConfigurationError
from lodestone.files.opening import open_area
from lodestone_jobs import nodes
from lodestone_jobs.cluster import JoinedRay, LocalRay
from lodestone_jobs.ray_slices import local_share
from lodestone_jobs.rooms import Bounds, Room, Share, room_of


def settings(home: Path, *, catalog: str | None = None, store: str = "edge") -> Settings:
    return Settings(home=home, catalog_url=catalog, store=StoreSettings(kind=store))


def test_one_node_may_have_everything_local(tmp_path: Path) -> None:
    check_placement(settings(tmp_path), nodes=1)


def test_several_nodes_with_sqlite_and_an_embedded_store_are_refused_with_both_reasons(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"3 nodes: its catalog is an SQLite file.* and its store is embedded"
    ) as raised:
        check_placement(settings(tmp_path), nodes=3)
    assert "postgresql" in raised.value.hint
    assert "store.kind = server" in raised.value.hint
    with pytest.raises(ConfigurationError, match="SQLite") as raised:
        check_placement(settings(tmp_path, catalog="sqlite:////shared/catalog.sqlite", store="server"), nodes=2)
    assert "store" not in raised.value.hint
    check_placement(settings(tmp_path, catalog="postgresql+psycopg://db/lodestone", store="server"), nodes=2)


@pytest.mark.parametrize("address", ["head", "head:", "http://head:8265", "ray://head", "head:1:2", "head:123456"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match=r"HOST:PORT or auto"):
        ClusterSettings(address=address)


def test_addresses_and_shares_of_gpus() -> None:
    for address in ("auto", "10.0.0.1:6379", "ray://head.example:10001", "[::1]:6379"):
        assert ClusterSettings(address=address).address == address
    assert ClusterSettings(gpus_per_actor=0.5).gpus_per_actor == 0.5
    with pytest.raises(ValidationError, match="share below 1, or whole GPUs"):
        ClusterSettings(gpus_per_actor=1.5)


def test_as_many_actors_as_fit() -> None:
    assert room_of([Room(6)], Share(1)) == 6
    assert room_of([Room(64, 4)], Share(1, 0.5)) == 8
    assert room_of([Room(1), Room(0.9)], Share(0.1)) == 19


def test_an_actor_must_fit_one_node() -> None:
    assert room_of([Room(2), Room(2), Room(2)], Share(4)) == 0
    assert room_of([Room(8, 1), Room(8, 1)], Share(1, 2)) == 0
    assert room_of([Room(4), Room(4), Room(4)], Share(3)) == 3
    assert room_of([Room(8, 1), Room(8, 1)], Share(1, 0.4)) == 4  # two on each GPU
    assert room_of([Room(8, 4)], Share(1, 2)) == 2


def test_actors_of_one_machine_share_its_gpus_equally() -> None:
    shares = [local_share([Room(8, gpus)], workers) for gpus, workers in ((0, 4), (4, 4), (4, 2), (2, 3), (1, 4))]
    assert [share.gpus for share in shares] == [0.0, 1.0, 1.0, 0.5, 0.25]


def test_bounds_of_the_number_of_actors() -> None:
    fitting, fixed, between = (Bounds.of(ClusterSettings(actors=actors)) for actors in (0, 3, (2, 8)))
    assert [fitting.started(room) for room in (0, 1, 6)] == [1, 1, 6]
    assert [fixed.started(room) for room in (0, 6)] == [3, 3]
    assert [between.started(room) for room in (0, 6, 20)] == [2, 6, 8]


@pytest.mark.parametrize("actors", [-1, (0, 2), (3, 2), (1, 10_001)])
def test_bounds_that_are_none_are_refused(actors: Any) -> None:
    with pytest.raises(ValidationError, match="least, most"):
        ClusterSettings(actors=actors)


@pytest.mark.parametrize("old", [{"shape": "fat"}, {"decoders": 4}, {"cpus_per_decoder": 0.5}])
def test_settings_of_separate_decoders_are_refused_with_what_to_do(old: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"cluster.{next(iter(old))} is no setting any more: .*remove it"):
        ClusterSettings(**old)


@pytest.fixture
def three_nodes(monkeypatch: pytest.MonkeyPatch) -> list[nodes.NodeView]:
    """What three nodes answer; change it to change what they see."""
    views = [nodes.NodeView(f"node-{n}", __version__, nonce=True) for n in range(3)]
    monkeypatch.setattr(nodes, "working_nodes", lambda: [{"NodeID": str(n)} for n in range(3)])
    monkeypatch.setattr(nodes, "_look_around", lambda *_: views)
    return views


def shared(home: Path) -> Settings:
    return settings(home, catalog="postgresql+psycopg://db/lodestone", store="server")


def test_nodes_that_see_everything_are_counted(three_nodes: list[nodes.NodeView], tmp_path: Path) -> None:
    assert nodes.check_nodes(shared(tmp_path), open_area(tmp_path)) == len(three_nodes)


def test_a_node_that_does_not_see_the_embeddings_is_named(three_nodes: list[nodes.NodeView], tmp_path: Path) -> None:
    three_nodes[1] = nodes.NodeView("node-1", __version__, nonce=False)
    with pytest.raises(ConfigurationError, match="the node 'node-1' does not see the embeddings") as raised:
        nodes.check_nodes(shared(tmp_path), open_area(tmp_path))
    assert "index.embeddings" in raised.value.hint


def test_a_node_with_another_version_is_named(three_nodes: list[nodes.NodeView], tmp_path: Path) -> None:
    three_nodes[2] = nodes.NodeView("node-2", "0.0.9", nonce=True)
    with pytest.raises(ConfigurationError, match=r"the node 'node-2' has Lodestone 0\.0\.9"):
        nodes.check_nodes(shared(tmp_path), open_area(tmp_path))


def test_nodes_that_do_not_see_the_pictures_are_named(three_nodes: list[nodes.NodeView], tmp_path: Path) -> None:
    photos = str(tmp_path)
    three_nodes[:2] = [nodes.NodeView(f"node-{n}", __version__, nonce=True, missing=(photos,)) for n in range(2)]
    with pytest.raises(ConfigurationError, match=rf"nodes 'node-0', 'node-1' do not see '{photos}'"):
        nodes.check_nodes(shared(tmp_path), open_area(tmp_path), [photos])


def test_a_file_that_is_gone_here_too_is_held_against_no_node(three_nodes: list[nodes.NodeView], tmp_path: Path) -> None:
    temporary = str(tmp_path / "upload.part")
    three_nodes[1] = nodes.NodeView("node-1", __version__, nonce=True, missing=(temporary,))
    assert nodes.check_nodes(shared(tmp_path), open_area(tmp_path), [str(tmp_path)]) == 3
    three_nodes[1] = nodes.NodeView("node-1", __version__, nonce=True, missing=(temporary, str(tmp_path)))
    with pytest.raises(ConfigurationError, match=rf"'node-1' does not see '{tmp_path}'"):
        nodes.check_nodes(shared(tmp_path), open_area(tmp_path), [str(tmp_path)])


def test_a_node_looks_for_the_nonce_and_the_pictures_itself(tmp_path: Path) -> None:
    open_area(tmp_path / "mounted").write("probe-1", b"probe-1")
    seen = nodes.look(open_area(tmp_path / "mounted"), "probe-1", [str(tmp_path)])
    assert (seen.nonce, seen.missing, seen.version) == (True, (), __version__)
    blind = nodes.look(open_area(tmp_path / "elsewhere"), "probe-1", [str(tmp_path / "none")])
    assert (blind.nonce, blind.missing) == (False, (str(tmp_path / "none"),))


def test_a_node_where_the_mount_is_an_empty_folder_does_not_see_the_pictures(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "one.jpg").write_bytes(b"1")
    wanted = nodes.witnesses([str(photos)])
    assert nodes.look(open_area(tmp_path), "probe-1", wanted).missing == ()
    (photos / "one.jpg").unlink()  # as a node sees it that has not mounted them
    assert nodes.look(open_area(tmp_path), "probe-1", wanted).missing == (str(photos / "one.jpg"),)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_stands_for_a_folder_is_something_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reverse: bool
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / ".#a.jpg").symlink_to("nowhere-user@host.1")  # an editor's lock
    (photos / "broken.jpg").symlink_to("nowhere.jpg")
    (photos / ".hidden").write_bytes(b"")
    in_one_order_or_the_other(monkeypatch, reverse=reverse)
    assert nodes.witnesses([str(photos)]) == [str(photos)]
    (photos / "link.jpg").symlink_to(tmp_path)  # of folders of links, too, something is asked for
    assert nodes.witnesses([str(photos)]) == [str(photos), str(photos / "link.jpg")]
    (photos / "one.jpg").write_bytes(b"1")
    assert nodes.witnesses([str(photos)]) == [str(photos), str(photos / "one.jpg")]
    assert nodes.witnesses([str(photos / "one.jpg")]) == [str(photos / "one.jpg")]


def in_one_order_or_the_other(monkeypatch: pytest.MonkeyPatch, *, reverse: bool) -> None:
    listed = os.scandir

    def ordered(folder: Path) -> Any:
        with listed(folder) as entries:
            return nullcontext(sorted(entries, key=lambda entry: entry.name, reverse=reverse))

    monkeypatch.setattr(os, "scandir", ordered)


def test_a_folder_that_may_not_be_listed_stands_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuses)
    assert nodes.witnesses([str(tmp_path)]) == [str(tmp_path)]


class Refused(LocalRay):
    """A Ray that cannot be joined; `asked` to end in the meantime, where that is wanted."""

    def __init__(self, *, asked: bool) -> None:
        super().__init__(workers=1)
        self._asked = asked

    def _connect(self) -> None:
        import ray

        try:
            ray.init(address="127.0.0.1:1", no_such_option=1)
        finally:
            assert signal.getsignal(signal.SIGTERM) is not ended  # Ray's
            if self._asked:
                signal.raise_signal(signal.SIGTERM)


def ended(number: int, _: object) -> None:
    """As `stopped_by_signals`: the next one ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


@pytest.mark.parametrize("asked", [False, True])
def test_joining_a_cluster_changes_nothing_of_how_the_process_ends_when_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises((RuntimeError, SystemExit)) as stopped:
            Refused(asked=asked).start()
        assert getattr(stopped.value, "code", None) == (143 if asked else None)
        assert signal.getsignal(signal.SIGTERM) is (signal.SIG_DFL if asked else ended)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_from_outside_the_cluster_is_refused_with_the_job_to_submit() -> None:
    with pytest.raises(ConfigurationError, match=r"outside its cluster \(ray://head\.example:10001\)") as refused:
        JoinedRay("ray://head.example:10001")
    assert "ray job submit --address http://head.example:8265" in refused.value.hint


def test_a_thread_that_asks_ray_when_it_was_let_go_of_starts_no_other(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from lodestone_jobs.cluster import LocalRay\n"
        "from lodestone_jobs.embedding import RayExecutor\n"
        "assert 'ray' not in sys.modules\n"  # it reads its environment, which `start` sets, when it is imported
        "class Unconnected(LocalRay):\n"
        "    def _connect(self): raise OSError('nobody')\n"
        "try: Unconnected(workers=1).start()\n"
        "except OSError: import ray\n"
        "try: ray.put(1)\n"
        "except ray.exceptions.RaySystemError as error: print(error)\n"
    )
    nowhere = {**os.environ, "TMPDIR": str(tmp_path), "RAY_ADDRESS": "127.0.0.1:1"}
    nowhere.pop("RAY_ENABLE_AUTO_CONNECT", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=nowhere, timeout=240, check=False)
    assert "Ray has not been started yet" in done.stdout, done.stderr
