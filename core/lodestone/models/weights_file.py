"""File format of trained weights: arrays and a JSON header in a safetensors file, and copies inside the package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.durable_files import write_atomically
from lodestone.errors import ConfigurationError

AGAIN: Final = "train it again: lodestone train bridge"
_LONGEST_HEADER: Final = 1 << 20  # bytes; a longer one is damage
_BYTE: Final = 127  # largest number in a signed byte of a symmetric range
_SCALE_STEPS: Final = 1 << 11  # bits of a scale: those of a number in half precision

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """Reads and writes one kind of trained weights.

    Attributes:
        kind: Name of the kind, in messages, in file names, and inside files.
        format: Version of the header and the arrays, which is written.
        older: Versions that are read too; others are refused.
    """

    kind: str
    format: int
    older: tuple[int, ...] = ()

    def save(self, directory: Path, arrays: Arrays, header: Mapping[str, Any], *, version: str) -> Path:
        """Write `<kind>-<version>.safetensors` into `directory` (made if needed), as `save_as` does."""
        directory.mkdir(parents=True, exist_ok=True)
        return self.save_as(directory / f"{self.kind}-{version}.safetensors", arrays, header)

    def save_as(self, path: Path, arrays: Arrays, header: Mapping[str, Any]) -> Path:
        """Write to exactly `path`, whole and durably. The same weights make the same file."""
        from safetensors.numpy import save

        text = json.dumps({"format": self.format, **header}, sort_keys=True)
        write_atomically(path, save(dict(arrays), {self._key: text}))
        return path

    def shipped(self, name: str | None = None) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and header of weights that ship inside the package, in `data/<kind>/` beside their model card.

        Args:
            name: Name of the file; None for `<kind>.safetensors`.

        Raises:
            ConfigurationError: no such file ships, or it is damaged.
        """
        name = f"{self.kind}.safetensors" if name is None else name
        folder = files("lodestone").joinpath("data", self.kind)
        shipping = sorted(file.name for file in folder.iterdir() if file.name.endswith(".safetensors"))
        if name not in shipping:
            raise ConfigurationError(
                f"no {self.kind} {name!r} ships with Lodestone", hint=f"those that ship: {', '.join(shipping)}"
            )
        return self._parse(folder.joinpath(name).read_bytes(), f"package data {name}")

    def header(self, path: Path) -> dict[str, Any]:
        """Return the header of a file that `save` wrote, without reading its arrays.

        Raises:
            ConfigurationError: the file is missing, damaged, or of another format.
        """
        try:
            with path.open("rb") as stream:
                prefix = stream.read(8)
                content = prefix + stream.read(min(int.from_bytes(prefix, "little"), _LONGEST_HEADER))
        except OSError as error:
            raise ConfigurationError(f"cannot read the {self.kind} {str(path)!r}: {error.strerror}", hint=AGAIN) from error
        return self._parse_header(content, str(path))

    def load(self, path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and header of a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of another format.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot read the {self.kind} {str(path)!r}: {error.strerror}", hint=AGAIN) from error
        return self._parse(content, str(path))

    def _parse(self, content: bytes, source: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays: dict[str, NDArray[Any]] = load(content)
        except SafetensorError as error:
            raise self._damaged(source, error) from error
        return arrays, self._parse_header(content, source)

    def _parse_header(self, content: bytes, source: str) -> dict[str, Any]:
        try:
            size = int.from_bytes(content[:8], "little")
            header: dict[str, Any] = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][self._key])
            found_format = header["format"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(source, error) from error
        if found_format not in (self.format, *self.older):
            raise ConfigurationError(
                f"{source} has format {found_format}, this version reads {self.format}", hint=f"upgrade lodestone, or {AGAIN}"
            )
        return header

    def _damaged(self, source: str, error: Exception) -> ConfigurationError:
        return ConfigurationError(f"{source} is not a {self.kind}, or is damaged: {error}", hint=AGAIN)

    def other_arrays(self, error: Exception) -> ConfigurationError:
        """Return the error for a file that has this format number and arrays of another layout."""
        return ConfigurationError(f"the {self.kind} does not have the arrays of format {self.format}: {error}", hint=AGAIN)

    @property
    def _key(self) -> str:
        return f"lodestone-{self.kind}"


def as_bytes(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return an (n, columns) matrix as bytes, and the (columns,) scales that make them numbers again.

    A scale has so few bits that numbers which were bytes become the same bytes and the same scale again.
    """
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    mantissa, exponent = np.frexp(largest / np.float32(_BYTE))
    scale = np.ldexp(np.ceil(mantissa * _SCALE_STEPS) / _SCALE_STEPS, exponent).astype(np.float32)
    return np.rint(matrix / np.where(scale > 0, scale, 1)).astype(np.int8), scale


def from_bytes(rows: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the numbers behind bytes and scales of `as_bytes`: (n, columns) float32."""
    return rows.astype(np.float32) * scale


def digest_of(parameters: Iterable[Any], arrays: Arrays, *, except_for: tuple[str, ...] = ()) -> str:
    """Return 12 hex characters over parameters and arrays.

    Args:
        parameters: JSON-serialisable values.
        arrays: Arrays by name.
        except_for: Prefixes of the names of arrays that do not count.
    """
    digest = hashlib.sha256(json.dumps(list(parameters)).encode())
    for name, array in sorted(arrays.items()):
        if not name.startswith(except_for):
            digest.update(name.encode() + str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:12]
