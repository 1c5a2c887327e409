"""A bucket in memory whose requests are counted."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from lodestone.files.area import FileArea, OpenFile, StoredFile


class CountingFile(OpenFile):
    """An open object whose ranged reads are counted."""

    def __init__(self, content: pa.Buffer, counts: Counter[str]) -> None:
        super().__init__(pa.BufferReader(content))
        self._counts = counts

    def read(self, start: int, length: int) -> bytes:
        self._counts["GET"] += 1
        return super().read(start, length)


class BucketInMemory(FileArea):
    """An area that is no folder, with its requests counted."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()

    @property
    def location(self) -> str:
        return "pretended://bucket"

    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:
        self.counts["PUT"] += 1
        self.objects[path] = bytes(content)

    def read(self, path: str) -> pa.Buffer:
        self.counts["GET"] += 1
        return pa.py_buffer(self._object(path))

    def open(self, path: str) -> OpenFile:
        self.counts["HEAD"] += 1
        return CountingFile(pa.py_buffer(self._object(path)), self.counts)

    def size(self, path: str) -> int | None:
        self.counts["HEAD"] += 1
        return len(self.objects[path]) if path in self.objects else None

    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        self.counts["LIST"] += 1
        prefix = f"{folder}/" if folder else ""
        below = sorted(path.removeprefix(prefix) for path in self.objects if path.startswith(prefix))
        folders = sorted({path.partition("/")[0] for path in below if "/" in path})
        return folders, [StoredFile(prefix + path, len(self.objects[prefix + path])) for path in below if "/" not in path]

    def delete(self, path: str) -> bool:
        self.counts["DELETE"] += 1
        return self.objects.pop(path, None) is not None

    def delete_folder(self, folder: str) -> None:
        self.objects = {path: content for path, content in self.objects.items() if not path.startswith(f"{folder}/")}

    def sweep(self, folder: str) -> int:
        return 0

    def _object(self, path: str) -> bytes:
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]
