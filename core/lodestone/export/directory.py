"""Directory of an export: what it was asked for, receipts of finished files, and the manifest, which is written last.

    _export.json          what is exported, written first; another selection is refused
    _receipts/NAME.json   what a finished file holds, until the manifest says so
    _former.json          the manifest of before, while the export is brought up to date
    _manifest.json        all files with their checksums; without it the directory is not complete

Readers of Parquet take files whose names begin with `_` for no data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock, Timeout

from lodestone import __version__
from lodestone.errors import ConfigurationError, InvalidRequestError, StoreLockedError
from lodestone.export.plan import SUFFIXES
from lodestone.export.tasks import FORMAT, WrittenFile
from lodestone.files.area import FileArea
from lodestone.files.local import writing_in

if TYPE_CHECKING:
    from lodestone.export.selection import ExportSelection

_SELECTION: Final = "_export.json"
_MANIFEST: Final = "_manifest.json"
_FORMER: Final = "_former.json"
_RECEIPTS: Final = "_receipts"
_LOCK: Final = ".export.lock"
_OURS: Final = frozenset({_SELECTION, _MANIFEST, _FORMER})
_FILE: Final = re.compile(rf"[0-9]{{5,}}(?:{'|'.join(map(re.escape, SUFFIXES.values()))})")


class ExportDirectory:
    """Files of one export.

    Args:
        area: The directory.
    """

    def __init__(self, area: FileArea) -> None:
        self._area = area

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory against other exports on this machine; a bucket is not held.

        Raises:
            StoreLockedError: another process exports into it.
            OutOfSpaceError: the disk is full.
            ConfigurationError: the directory cannot be made or written.
        """
        if self._area.folder is None:
            yield
            return
        folder = self._area.folder
        with writing_in(folder):
            folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        try:
            with writing_in(folder):
                lock.acquire(timeout=0)
        except Timeout as error:
            raise StoreLockedError(
                f"another process exports into {self._area.location!r}",
                hint="wait for it to finish, or name another directory",
                location=self._area.location,
            ) from error
        try:
            yield
        finally:
            lock.release()

    def begin(self, selection: ExportSelection, *, home: str) -> None:
        """Write down what is exported, unless it is there already, and delete what killed writers left.

        Args:
            selection: What is exported.
            home: Id of the home.

        Raises:
            InvalidRequestError: the directory holds another export, or other files.
        """
        asked = {"export": FORMAT, "home": home, "selection": selection.description()}
        folders, files = self._area.names()
        names = [file.path for file in files]
        if _SELECTION not in names:
            if names or folders:
                raise InvalidRequestError(
                    f"the directory {self._area.location!r} is not empty, and holds no export",
                    hint="name a new directory, or an empty one",
                    location=self._area.location,
                )
            self._area.write(_SELECTION, _json(asked))
            return
        there = self._read(_SELECTION)
        if there is None or there != asked:
            raise InvalidRequestError(
                f"the directory {self._area.location!r} holds another export: {_difference(there or {}, asked)}",
                hint="name another directory, or remove this one; nothing was changed",
                location=self._area.location,
            )
        self._area.sweep("")

    def finished(self) -> dict[str, WrittenFile]:
        """Return the files that are complete, by name; those that lack a picture are not, as it may be back."""
        found: dict[str, WrittenFile] = {}
        receipts = [file.path for file in self._area.names(_RECEIPTS)[1]]
        for facts in (*self._listed(_FORMER), *self._listed(_MANIFEST), *map(self._read, sorted(receipts))):
            with suppress(TypeError, ValueError, KeyError):  # a power cut may cut a receipt: its file is written again
                file = WrittenFile.of(facts or {})
                found[file.name] = file
        sizes = {file.path: file.size for file in self._area.names()[1]}
        return {name: file for name, file in found.items() if sizes.get(name) == file.bytes and not file.left_out}

    def reopen(self) -> None:
        """Take the manifest away before files change. What it says of them is kept until there is another one."""
        manifest = self._bytes(_MANIFEST)
        if manifest is not None:
            self._area.write(_FORMER, manifest)
            self._area.delete(_MANIFEST)

    def require(self, file: WrittenFile) -> None:
        """Return if a file that a worker has written is here.

        Raises:
            ConfigurationError: it is not, so the worker has another directory of this name.
        """
        if self._area.size(file.name) != file.bytes:
            raise ConfigurationError(
                f"a worker has written {file.name!r}, and it is not in {self._area.location!r} as this process sees it",
                hint="name a directory on a mount that every node has, or a bucket",
                location=self._area.location,
            )

    def record(self, file: WrittenFile) -> None:
        """Write the receipt of a finished file."""
        self._area.write(f"{_RECEIPTS}/{file.name}.json", _json(file.as_dict()), durable=False)

    def surplus(self, names: Sequence[str]) -> list[str]:
        """Return files of this export that are none of these."""
        kept = set(names)
        return [file.path for file in self._area.names()[1] if _FILE.fullmatch(file.path) and file.path not in kept]

    def complete(self, selection: ExportSelection, files: Sequence[WrittenFile]) -> None:
        """Delete surplus files and what killed workers left, write the manifest, and delete the receipts.

        Args:
            selection: What is exported.
            files: All files of the export, in order.
        """
        for name in self.surplus([file.name for file in files]):
            self._area.delete(name)
        manifest = {
            "export": FORMAT,
            "lodestone": __version__,
            "selection": selection.description(),
            "spaces": selection.spaces(),
            "pictures": sum(file.pictures for file in files),
            "left_out": sum(len(file.left_out) for file in files),
            "files": [file.as_dict() for file in files],
        }
        self._area.sweep("")
        self._area.write(_MANIFEST, _json(manifest))
        self._area.delete(_FORMER)
        self._area.delete_folder(_RECEIPTS)

    @property
    def is_complete(self) -> bool:
        """Return whether the manifest is there, and nothing of a former run beside it."""
        folders, files = self._area.names()
        names = {file.path for file in files}
        return _MANIFEST in names and _FORMER not in names and _RECEIPTS not in folders

    def _listed(self, name: str) -> list[Mapping[str, Any]]:
        facts = self._read(name)
        files = None if facts is None else facts.get("files")
        return files if isinstance(files, list) else []

    def _read(self, path: str) -> dict[str, Any] | None:
        """Return the object of a JSON file; None where it is missing or damaged."""
        try:
            facts = json.loads(self._bytes(path) or b"")
        except ValueError:
            return None
        return facts if isinstance(facts, dict) else None

    def _bytes(self, path: str) -> bytes | None:
        try:
            return bytes(self._area.read(path))
        except FileNotFoundError:
            return None


def _json(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()


def _difference(there: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return the first difference between two descriptions in words."""
    if there.get("export") != asked["export"]:
        return "another version of Lodestone wrote it"
    if there.get("home") != asked["home"]:
        return "it is of another home"
    held, wanted = there.get("selection", {}), asked["selection"]
    name = next((name for name in wanted if held.get(name) != wanted[name]), "selection")
    return f"{name} is {_shown(held.get(name))} there, and {_shown(wanted.get(name))} here"


def _shown(value: object) -> str:
    return "nothing" if value in (None, [], {}) else json.dumps(value, ensure_ascii=False)
