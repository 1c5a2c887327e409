"""Cache of converted model files, shared between homes and processes; each file is built once.

A converted file (an ONNX graph, a table of label vectors) is named by what it was made from: a fingerprint over the weights'
hash and the converter's version. The first process that needs it builds it under a lock, into a temporary name, and renames it
into place; the others wait and then read it. A sidecar holds the file's BLAKE3 hash: a truncated or altered file is found at
the next start and built again. A filled cache needs no write access.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3
from filelock import FileLock, Timeout

from lodestone.errors import ConfigurationError, ModelUnavailableError, OutOfSpaceError

LOCK_SECONDS = 900.0  # longer than any conversion on a slow machine; the lock is released when its process ends
_FINGERPRINT_CHARACTERS = 16
_log = logging.getLogger(__name__)


def hash_file(path: Path) -> str:
    """Return the BLAKE3 of a file's bytes: 64 hex characters."""
    return str(blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest())


def fingerprint(*parts: str) -> str:
    """Return 16 hex characters that change whenever one of the parts, or their number, changes."""
    digest = blake3()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return str(digest.hexdigest())[:_FINGERPRINT_CHARACTERS]


@dataclass(frozen=True, slots=True)
class ModelCache:
    """Keeps converted model files below one directory.

    Attributes:
        root: The directory, made when first written to. Several homes, and several processes at once, may share it.
    """

    root: Path
    _hashes: dict[tuple[str, int, int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def hash_of(self, path: Path) -> str:
        """Return `hash_file` of a model's weights, which this object reads once as long as they do not change."""
        status = path.stat()
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._hashes:
            self._hashes[key] = hash_file(path)
        return self._hashes[key]

    def obtain(self, name: str, *, key: str, suffix: str, build: Callable[[Path], None]) -> Path:
        """Return the path of a sound file, building it first where it is missing or damaged.

        Args:
            name: A name for people who look into the directory, e.g. `efficientnet-lite0`.
            key: `fingerprint` of everything that the content depends on.
            suffix: File ending with its dot, e.g. `.onnx`.
            build: Writes the content to the path that it is given. It runs in one process at a time, and the log tells of it.

        Raises:
            ConfigurationError: the directory cannot be written to.
            OutOfSpaceError: the disk is full; no partial file is left.
            ModelUnavailableError: another process has held the lock for `LOCK_SECONDS`.
        """
        path = self.root / f"{name}-{key}{suffix}"
        if _is_sound(path):
            return path
        try:
            return self._build(path, build)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise OutOfSpaceError(
                    f"no space left for {path.name} in {self.root}", hint="free some space and run the same command again"
                ) from error
            if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
                raise ConfigurationError(
                    f"the model cache {self.root} cannot be written to: {error.strerror}",
                    hint="make it writable, or set another directory for the model cache",
                ) from error
            raise

    def _build(self, path: Path, build: Callable[[Path], None]) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock", timeout=LOCK_SECONDS)
        try:
            with lock:
                if not _is_sound(path):
                    _log.info("making %s, which is done once", path)
                    _write(path, build)
        except Timeout as error:
            raise ModelUnavailableError(
                f"another process has been converting {path.name} for {LOCK_SECONDS:.0f} s",
                hint="wait for it or stop it, then run the same command again",
            ) from error
        return path


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".blake3")


def _is_sound(path: Path) -> bool:
    try:
        return _sidecar(path).read_text("ascii").strip() == hash_file(path)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False


def _write(path: Path, build: Callable[[Path], None]) -> None:
    """Build into a temporary name, then rename the content first and its hash second.

    A crash between the two leaves a pair that does not match, which counts as damaged.
    """
    for leftover in path.parent.glob(f"{path.stem}.*.partial*"):  # left by a killed process, since this process holds the lock
        leftover.unlink(missing_ok=True)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.partial{path.suffix}")
    sidecar = _sidecar(partial)
    try:
        build(partial)
        sidecar.write_text(hash_file(partial) + "\n", "ascii")
        partial.replace(path)
        sidecar.replace(_sidecar(path))
    finally:
        partial.unlink(missing_ok=True)
        sidecar.unlink(missing_ok=True)
