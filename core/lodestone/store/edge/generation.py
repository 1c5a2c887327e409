"""Generation of an embedded collection: one directory of the engine's files, opened as long as somebody reads it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import qdrant_edge as qe

from lodestone.store.edge.engine import damaged, engine_errors
from lodestone.store.edge.file_sizes import record_sizes, shrunken_file
from lodestone.store.files import discard, require_room_to_map

BUILT_FILE: Final = "built.json"
SHARD_DIR: Final = "shard"


class Generation:
    """Opened engine shard that stays open as long as it has readers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._leases = 0
        self._retired = False
        self._idle = threading.Condition()
        collection = path.parent.name
        with engine_errors("opening", path, collection=collection):
            if not (path / SHARD_DIR).is_dir():
                raise damaged(collection, path, "the engine's folder is missing")
            if (why := shrunken_file(path, SHARD_DIR)) is not None:
                raise damaged(collection, path, why)
            require_room_to_map(path)
            self.shard = qe.EdgeShard.load(str(path / SHARD_DIR))
            self.has_graph = (path / BUILT_FILE).exists()
            record_sizes(path, SHARD_DIR)

    def enter(self) -> None:
        """Keep the shard open until `leave` is called."""
        with self._idle:
            self._leases += 1

    def leave(self) -> None:
        """Release the shard after one `enter`."""
        with self._idle:
            self._leases -= 1
            self._idle.notify_all()

    def retire(self, *, delete: bool) -> None:
        """Close the shard once it has no readers (engine calls take milliseconds), and remove its files if asked. Idempotent.

        No caller may `enter` the generation after this call.
        """
        with self._idle:
            self._idle.wait_for(lambda: self._leases == 0)
            if self._retired:
                return
            self._retired = True
        with engine_errors("closing the collection", self.path):
            self.shard.close()
        if delete:
            discard(self.path)
        else:
            record_sizes(self.path, SHARD_DIR)
