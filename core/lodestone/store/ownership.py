"""Ownership of an embedded store by one process, through an operating-system lock.

The engine's own locking is not enough: a second opener of an edge shard fails on its log, and the owner's next flush then fails
too. So a lock on `owner.lock` is taken before any path of the engine is touched. The system frees it when its holder ends,
however that happens. Beside it, `owner.json` tells people which process holds the store; it is never used as a lock.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from lodestone.durable_files import write_atomically
from lodestone.errors import StoreLockedError
from lodestone.store.files import is_out_of_space, out_of_space

LOCK_FILE = "owner.lock"
OWNER_FILE = "owner.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """Process that owns a store: its `pid`, its `command`, and `since` when it owns the store (ISO 8601, UTC)."""

    pid: int
    command: str
    since: str


class StoreOwnership:
    """Exclusive claim on the store under `root`, from `acquire` to `release` or to the end of this process.

    Args:
        root: Directory of the store; created if missing.
        command: Command of this process, for the message that a second opener gets.
        timeout: Seconds to wait for another owner to release the store; 0 tries once.
    """

    def __init__(self, root: Path, *, command: str, timeout: float) -> None:
        self._root = root
        self._command = command
        self._timeout = timeout
        self._lock = FileLock(root / LOCK_FILE, timeout=max(timeout, 0.0), thread_local=False)

    def acquire(self) -> None:
        """Take the lock, and record this process as the owner.

        Raises:
            StoreLockedError: Another process still holds it after `timeout` seconds.
            OutOfSpaceError: The disk has no room for the owner's record.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise _locked_by(read_owner(self._root), self._root, self._timeout) from error
        owner = Owner(os.getpid(), self._command, datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            write_atomically(self._root / OWNER_FILE, json.dumps(asdict(owner)))
        except OSError as error:
            self.release()
            if is_out_of_space(error):
                raise out_of_space(self._root) from error
            raise

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._lock.is_locked:
            (self._root / OWNER_FILE).unlink(missing_ok=True)
            self._lock.release(force=True)

    @property
    def held(self) -> bool:
        """Return True if this object holds the lock."""
        return self._lock.is_locked


def read_owner(root: Path) -> Owner | None:
    """Return the owner in `owner.json`, or None if the file is missing or unreadable (it may be being written right now)."""
    try:
        facts = json.loads((root / OWNER_FILE).read_text(encoding="utf-8"))
        return Owner(int(facts["pid"]), str(facts["command"]), str(facts["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _locked_by(owner: Owner | None, root: Path, waited: float) -> StoreLockedError:
    who = f"process {owner.pid} ({owner.command}) since {owner.since}" if owner else "another process"
    stop = f"wait for it, stop it (pid {owner.pid})" if owner else "wait for it, stop it"
    return StoreLockedError(
        f"the vector store in {root} is in use by {who}; waited {waited:g} s",
        hint=f"{stop}, or run `lodestone serve` so that commands share one owner",
        root=str(root),
        pid=owner.pid if owner else None,
        command=owner.command if owner else None,
    )
