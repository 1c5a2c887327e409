"""Watching of directories: changes below them are noticed, collected and ordered as index runs.

Each watched folder has a thread that receives the operating system's change events (watchfiles). Changes are collected until
nothing has happened for a moment, so that a copy of a thousand files is one order; if changes go on, they are ordered after a
longer time. When a watch begins, the whole directory is ordered once, because earlier changes were not seen. A folder that
vanishes (an unplugged disk) is watched again when it is back; nothing is removed meanwhile.

Choice of the paths to index after some files changed: as few and as small as possible. A new or changed picture is indexed
alone. A picture that vanished or was renamed is found by scanning the folder that held it; a sidecar's captions likewise.
After a burst the whole directory is scanned, because single events may have been lost.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lodestone.catalog.records import Root
from lodestone.directories.queue import IndexOrder, outermost
from lodestone.errors import LodestoneError
from lodestone.files.beneath import Boundaries
from lodestone.sources.base import FoundFile
from lodestone.sources.exclusion import CONTROL_FILES, Exclusion
from lodestone.sources.file_kinds import PICTURES, UNFINISHED_ENDINGS, kind_of_file
from lodestone.sources.folders import discover
from lodestone.sources.sidecars import SIDECAR_SUFFIXES

_STEP_MS: Final = 100
_GROUP_MS: Final = 500
_POLL_MS: Final = 30_000  # between two scans of a folder whose file system sends no events
_CLOSE_S: Final = 10.0
_log = logging.getLogger(__name__)

Submit = Callable[[IndexOrder], object]


@dataclass(frozen=True, slots=True)
class WatchDelays:
    """Holds the delays, in seconds, after which collected changes are ordered.

    Attributes:
        quiet: Time without any change.
        longest: Time after the first change, even if changes go on.
        look: Time between two checks of which directories are to be watched.
    """

    quiet: float = 2.0
    longest: float = 60.0
    look: float = 5.0


class DirectoryWatcher:
    """Watches a set of directories that may change at any time.

    Args:
        watched: Returns the directories to watch, each with the name of its corpus; called repeatedly.
        submit: Accepts orders without blocking; called in threads of the watcher.
        patience: Delays before changes are ordered.
        boundaries: What the settings leave out; None for what is left out everywhere.
    """

    def __init__(
        self,
        watched: Callable[[], Sequence[tuple[Root, str]]],
        submit: Submit,
        *,
        patience: WatchDelays | None = None,
        boundaries: Boundaries | None = None,
    ) -> None:
        self._watched = watched
        self._submit = submit
        self._patience = patience or WatchDelays()
        self._boundaries = boundaries or Boundaries()
        self._stop = threading.Event()
        self._watches: dict[str, _Watch] = {}  # by path
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start watching in the background."""
        self._thread = threading.Thread(target=self._tend, name="lodestone-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching. Changes that were noticed and not ordered are noticed again at the next start. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def paths(self) -> list[str]:
        """Return the paths that are being watched now."""
        return sorted(path for path, watch in dict(self._watches).items() if watch.ready.is_set() and watch.is_alive())

    def _tend(self) -> None:
        while not self._stop.is_set():
            try:
                wanted = {root.path: (root, corpus) for root, corpus in self._watched()}
            except LodestoneError as error:  # the catalog cannot be read at the moment, so the present watches continue
                _log.warning("which directories to watch could not be read: %s", error.message)
            else:
                self._change(wanted)
            self._stop.wait(self._patience.look)
        for watch in self._watches.values():
            watch.stop.set()
        for watch in self._watches.values():
            watch.join(_CLOSE_S)

    def _change(self, wanted: dict[str, tuple[Root, str]]) -> None:
        for path in [path for path in self._watches if path not in wanted]:
            self._watches.pop(path).stop.set()
        for path, (root, corpus) in wanted.items():
            former = self._watches.get(path)
            exclusion = Exclusion(root.path, self._boundaries, patterns=root.patterns)
            if former is not None:
                former.exclusion = exclusion  # its patterns may have changed
            if (former is None or not former.is_alive()) and Path(path).is_dir():
                self._watches[path] = _Watch(Path(root.path), corpus, self._submit, self._patience, exclusion)
                self._watches[path].start()


class _Watch(threading.Thread):
    """Watches one folder; ends when it is stopped, or when the folder vanishes."""

    def __init__(self, folder: Path, corpus: str, submit: Submit, patience: WatchDelays, exclusion: Exclusion) -> None:
        super().__init__(name=f"lodestone-watch-{folder.name}", daemon=True)
        self.stop = threading.Event()
        self.ready = threading.Event()
        self._folder = folder
        self._corpus = corpus
        self.exclusion = exclusion
        self._submit = submit
        self._patience = patience

    def run(self) -> None:
        try:
            self._watch(polling=False)
        except PermissionError as error:  # polling would fail likewise
            self._fall_back(self._look, error, "make every folder readable")
        except (OSError, RuntimeError) as error:  # watchfiles raises its engine's errors as RuntimeError
            self._fall_back(self._poll, error, "on Linux, raise fs.inotify.max_user_watches")

    def _fall_back(self, instead: Callable[[], None], error: Exception, hint: str) -> None:
        if not self._folder.is_dir():
            return
        _log.warning(
            "changes below %s are looked for every %d s, because the system does not tell of them all: %s (%s)",
            self._folder, _POLL_MS // 1000, error, hint,
        )  # fmt: skip
        instead()

    def _poll(self) -> None:
        try:
            self._watch(polling=True)
        except (OSError, RuntimeError) as error:
            self._fall_back(self._look, error, "make every folder readable")

    def _look(self) -> None:
        """Compare the folder's listing from time to time; folders that cannot be read are left out."""
        inode, last_digest = _inode(self._folder), None
        while _inode(self._folder) == inode:
            try:
                digest = sum(hash((file.uri, file.size, file.mtime_ns)) for file in self._listed())
            except LodestoneError:
                return
            if digest != last_digest:
                self._order((str(self._folder),))
            last_digest = digest
            self.ready.set()
            if self.stop.wait(_POLL_MS / 1000):
                return

    def _listed(self) -> Iterator[FoundFile]:
        self.exclusion.forget()
        return discover(self._folder, exclusion=self.exclusion)

    def _watch(self, *, polling: bool) -> None:
        import watchfiles

        pending: set[Path] = set()
        first = last = 0.0
        inode = _inode(self._folder)
        for batch in watchfiles.watch(
            self._folder,
            watch_filter=None,
            debounce=_GROUP_MS,
            step=_STEP_MS,
            stop_event=self.stop,
            rust_timeout=_GROUP_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=polling or None,
            poll_delay_ms=_POLL_MS,
            # With event notification, this flag would hide that the limit of watches was reached, and the folders after the
            # first unreadable one would not be watched.
            ignore_permission_denied=polling,
        ):
            now = time.monotonic()
            if not self.ready.is_set():  # from here on the system sends events
                self.ready.set()
                self._order((str(self._folder),))
            if batch:
                self.exclusion.forget()
            changed_paths = {path for _, name in batch if concerns(self._folder, path := Path(name), self.exclusion)}
            if changed_paths:
                first, last = (now if not pending else first), now
                pending |= changed_paths
            if pending and (now - last >= self._patience.quiet or now - first >= self._patience.longest):
                self._order(to_index(self._folder, pending, exclusion=self.exclusion))
                pending = set()
            if _inode(self._folder) != inode:
                return

    def _order(self, paths: tuple[str, ...]) -> None:
        if not paths:
            return
        try:
            self._submit(IndexOrder(self._corpus, paths, reason="watched"))
        except LodestoneError as error:  # the queue is closing; the next start scans the whole directory
            _log.info("changes below %s were not ordered: %s", self._folder, error.message)


def _inode(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


BURST: Final = 500  # with more changed paths than this, the whole directory is scanned


def concerns(root: Path, path: Path, exclusion: Exclusion | None = None) -> bool:
    """Return whether a change at `path` can matter to the pictures below `root`.

    It is neither hidden, nor unfinished, nor left out by the exclusion; or it decides itself about what is left out.
    """
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        return False
    exclusion = exclusion or Exclusion(str(root))
    if any(part.startswith(".") for part in parts[:-1]):
        return False
    if path.name in CONTROL_FILES:  # its folder may be left out by it, so the folder around is asked
        return not exclusion.of("/".join(parts[:-2])).reason
    if path.name.startswith(".") or path.name.lower().endswith(UNFINISHED_ENDINGS):
        return False
    return not exclusion.leaves_out("/".join(parts))


def to_index(root: Path, changed: Iterable[Path], *, burst: int = BURST, exclusion: Exclusion | None = None) -> tuple[str, ...]:
    """Return what to index for paths below `root` that changed; empty when indexing cannot help.

    The disk is read. For a folder without pictures, the nearest folder around it that has some is scanned. Where the whole
    directory has none, nothing is returned: its indexed pictures stay until it is removed.
    """
    exclusion = exclusion or Exclusion(str(root))
    paths = [path for path in dict.fromkeys(changed) if concerns(root, path, exclusion)]
    if len(paths) > burst:
        return (str(root),) if _has_pictures(root, root, exclusion) else ()
    wanted: dict[Path, None] = {}
    for path in paths:
        scope = _scope(root, path, exclusion)
        if scope is not None:
            wanted[scope] = None
    return outermost([str(path) for path in wanted])


def _scope(root: Path, path: Path, exclusion: Exclusion) -> Path | None:
    if path.is_dir():
        return path if _has_pictures(path, root, exclusion) else None
    if path.exists() and kind_of_file(path) == PICTURES:
        return path
    if path.exists() and path.suffix.lower() not in SIDECAR_SUFFIXES and path.name not in CONTROL_FILES:
        return None
    folder = path.parent
    while folder != root and not _has_pictures(folder, root, exclusion):
        folder = folder.parent
    return folder if _has_pictures(folder, root, exclusion) else None


def _has_pictures(folder: Path, root: Path, exclusion: Exclusion) -> bool:
    prefix = "" if folder == root else folder.relative_to(root).as_posix()
    try:
        found = discover(folder, exclusion=exclusion, prefix=prefix) if os.path.isdir(folder) else iter(())  # noqa: PTH112
        return next(found, None) is not None
    except OSError:
        return False
