"""The watcher orders what changed, once for a burst, and nothing for what does not matter."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.homes import wait_until
from tests.support.upkeep import IMPATIENT

from lodestone.catalog.records import Root
from lodestone.directories.queue import IndexOrder
from lodestone.directories.watch import DirectoryWatcher, WatchDelays
from lodestone.errors import CatalogError, ServiceUnavailableError


class Orders:
    """Takes orders; `refuse` makes it a queue that is closing."""

    def __init__(self) -> None:
        self.taken: list[IndexOrder] = []
        self.refuse = False

    def submit(self, order: IndexOrder) -> None:
        if self.refuse:
            raise ServiceUnavailableError("the service is stopping")
        self.taken.append(order)

    def paths(self) -> list[tuple[str, ...]]:
        return [order.paths for order in self.taken]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures" / "sub").mkdir(parents=True)
    (tmp_path / "pictures" / "sub" / "a.jpg").write_bytes(b"x")
    return tmp_path / "pictures"


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def watching(folder: Path, orders: Orders) -> Iterator[Callable[..., DirectoryWatcher]]:
    started: list[DirectoryWatcher] = []

    def start(
        watched: Callable[[], list[tuple[Root, str]]] | None = None, patience: WatchDelays = IMPATIENT
    ) -> DirectoryWatcher:
        root = Root("id", "corpus", "pictures", str(folder), watched=True)
        watcher = DirectoryWatcher(watched or (lambda: [(root, "photos")]), orders.submit, patience=patience)
        started.append(watcher)
        watcher.start()
        return watcher

    yield start
    for watcher in started:
        watcher.close()


def test_a_watch_begins_with_the_whole_directory_and_a_burst_is_one_order(
    folder: Path, orders: Orders, watching: Callable[..., DirectoryWatcher]
) -> None:
    watching(patience=WatchDelays(quiet=3.0, longest=120.0, look=0.2))  # time enough for all files on a busy machine
    wait_until(lambda: orders.paths() == [(str(folder),)])
    assert orders.taken[0] == IndexOrder("photos", (str(folder),), reason="watched")
    for number in range(30):
        (folder / "sub" / f"{number:02d}.jpg").write_bytes(b"x")
    wait_until(lambda: len(orders.taken) == 2)
    assert orders.paths()[1] == tuple(str(folder / "sub" / f"{number:02d}.jpg") for number in range(30))


def test_what_is_hidden_or_half_written_is_left_alone_until_it_has_its_name(
    folder: Path, orders: Orders, watching: Callable[..., DirectoryWatcher]
) -> None:
    watching()
    wait_until(lambda: orders.taken)
    (folder / ".trash").mkdir()
    (folder / ".trash" / "old.jpg").write_bytes(b"x")
    (folder / "new.jpg.part").write_bytes(b"x")
    (folder / "notes.pdf").write_bytes(b"x")
    time.sleep(4 * IMPATIENT.quiet)
    assert len(orders.taken) == 1
    (folder / "new.jpg.part").rename(folder / "new.jpg")
    wait_until(lambda: len(orders.taken) == 2)
    assert orders.paths()[1] == (str(folder / "new.jpg"),)


def test_a_folder_that_vanishes_is_watched_again_when_it_is_back(
    folder: Path, orders: Orders, watching: Callable[..., DirectoryWatcher]
) -> None:
    watcher = watching()
    wait_until(lambda: watcher.paths() == [str(folder)])
    folder.rename(folder.with_name("unplugged"))
    wait_until(lambda: watcher.paths() == [])
    before = len(orders.taken)
    folder.with_name("unplugged").rename(folder)
    wait_until(lambda: watcher.paths() == [str(folder)])
    wait_until(lambda: len(orders.taken) > before)
    assert orders.paths()[-1] == (str(folder),)
    shutil.rmtree(folder)
    wait_until(lambda: watcher.paths() == [])


def test_watching_ends_when_it_is_switched_off_and_survives_a_catalog_that_is_away(
    folder: Path, orders: Orders, watching: Callable[..., DirectoryWatcher]
) -> None:
    wanted = [(Root("id", "corpus", "pictures", str(folder), watched=True), "photos")]
    away = threading.Event()

    def watched() -> list[tuple[Root, str]]:
        if away.is_set():
            raise CatalogError("the database is being restarted")
        return wanted

    watcher = watching(watched)
    wait_until(lambda: watcher.paths() == [str(folder)])
    away.set()
    time.sleep(4 * IMPATIENT.look)
    assert watcher.paths() == [str(folder)]
    away.clear()
    wanted.clear()
    wait_until(lambda: watcher.paths() == [])


def test_a_system_that_cannot_tell_of_changes_is_asked_instead(
    folder: Path,
    orders: Orders,
    watching: Callable[..., DirectoryWatcher],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import watchfiles

    real, asked = watchfiles.watch, []

    def watch(*paths: Path, **options: object) -> object:
        asked.append(options["force_polling"])
        if (
            not options["force_polling"] and not options["ignore_permission_denied"]
        ):  # which hides both, and what is not watched
            raise OSError("OS file watch limit reached.")
        return real(*paths, **{**options, "poll_delay_ms": 100})  # type: ignore[arg-type]

    monkeypatch.setattr(watchfiles, "watch", watch)
    watching()
    wait_until(lambda: orders.taken)
    assert asked == [None, True]
    assert "max_user_watches" in caplog.text
    (folder / "new.jpg").write_bytes(b"x")
    wait_until(lambda: len(orders.taken) == 2)
    assert orders.paths()[1] in {(str(folder / "new.jpg"),), (str(folder),)}  # a look may see the folder's time first


@pytest.mark.parametrize("first", [PermissionError("Permission denied"), OSError("OS file watch limit reached.")])
def test_folders_that_cannot_be_read_do_not_hide_the_others(
    folder: Path,
    orders: Orders,
    watching: Callable[..., DirectoryWatcher],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first: OSError,
) -> None:
    import watchfiles

    from lodestone.directories import watch

    def refuse(*_: Path, **options: object) -> object:  # as watchfiles does, whose polling ignores nothing
        raise RuntimeError("Permission denied") if options["force_polling"] else first

    monkeypatch.setattr(watchfiles, "watch", refuse)
    monkeypatch.setattr(watch, "_POLL_MS", 50)
    watcher = watching()
    wait_until(lambda: watcher.paths() == [str(folder)])
    assert "make every folder readable" in caplog.text
    time.sleep(0.3)
    assert orders.paths() == [(str(folder),)]
    (folder / "sub" / "new.jpg").write_bytes(b"x")
    wait_until(lambda: orders.paths() == [(str(folder),)] * 2)


def test_a_queue_that_closes_does_not_end_the_watch(
    folder: Path, orders: Orders, watching: Callable[..., DirectoryWatcher]
) -> None:
    orders.refuse = True
    watcher = watching()
    wait_until(lambda: watcher.paths() == [str(folder)])
    orders.refuse = False
    (folder / "new.jpg").write_bytes(b"x")
    wait_until(lambda: orders.paths() == [(str(folder / "new.jpg"),)])
