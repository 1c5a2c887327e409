"""File of a matrix beside the engine's own files, mapped into memory, with a stamp of what the engine held when it was written.

    8 bytes     "LODEMTX2"
    4 bytes     length of the header, little-endian
    4 bytes     CRC-32 of the header
    header      JSON: stamp, dim, fields, arrays (name, type, shape, offset), texts of keyword fields, checksum of the rest
    arrays      each at a multiple of 64 bytes: ids (points,) of 36 characters, columns, vectors (points, dim) float32

The stamp lists the versions of the engine's segments, which grow with every write. A file with another stamp is stale, and one
that is cut or changed has another checksum; neither is used. The engine's files are the truth: the matrix is made from them.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.durable_files import replacing
from lodestone.store.base import Vectors
from lodestone.store.edge.columns import Column, FilterColumns, KeywordColumn, NumberColumn
from lodestone.store.edge.matrix import VectorMatrix
from lodestone.store.files import require_space
from lodestone_schemas.collections import CollectionSpec, FieldKind

MATRIX_FILE: Final = "matrix.bin"
Stamp = dict[str, int]
Snapshot = tuple[list[str], Vectors, dict[str, dict[str, Any]]]
_MAGIC: Final = b"LODEMTX2"
_ALIGNED: Final = 64
_HEADER_ROOM: Final = 1 << 30  # a longer header is none of ours
_log = logging.getLogger(__name__)


def stamp_of(shard: Path) -> Stamp:
    """Return the version of each of the engine's segments, as it was flushed.

    Args:
        shard: The engine's folder.

    Raises:
        OSError, ValueError, KeyError, TypeError: The engine's files are not as expected.
    """
    segments = sorted((shard / "segments").glob("*/segment.json"))
    return {path.parent.name: int(json.loads(path.read_text(encoding="utf-8"))["version"] or 0) for path in segments}


def write_matrix(path: Path, stamp: Stamp, spec: CollectionSpec, snapshot: Snapshot) -> None:
    """Replace the file, in one step.

    Args:
        path: The file.
        stamp: What the engine held when the snapshot was taken.
        spec: The collection.
        snapshot: What `VectorMatrix.snapshot` returned.

    Raises:
        OSError, OutOfSpaceError: The file cannot be written. What was there before stays.
    """
    ids, vectors, columns = snapshot
    for left in path.parent.glob(f".{path.name}.*.tmp"):  # of a process that was killed
        left.unlink(missing_ok=True)
    arrays: dict[str, NDArray[Any]] = {"ids": np.array(ids, "S36")}
    texts = {}
    for field, parts in columns.items():
        for name, part in parts.items():
            if name == "texts":
                texts[field] = part
            else:
                arrays[f"{field}/{name}"] = part
    arrays["vectors"] = vectors
    places, offset, checksum = [], 0, 0
    for name, array in arrays.items():
        places.append([name, array.dtype.str, list(array.shape), offset])
        offset += -(-array.nbytes // _ALIGNED) * _ALIGNED
        checksum = zlib.crc32(_padding(array), zlib.crc32(_bytes(array), checksum))
    facts = {"stamp": stamp, "dim": spec.dim, "fields": _kinds(spec), "arrays": places, "texts": texts, "size": offset}
    header = json.dumps({**facts, "checksum": checksum}).encode()
    header += b" " * (-(len(_MAGIC) + 8 + len(header)) % _ALIGNED)
    require_space(path.parent, offset + len(header))
    with replacing(path) as file:
        file.write(_MAGIC + len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little") + header)
        for array in arrays.values():
            file.write(_bytes(array))
            file.write(_padding(array))


def read_matrix(path: Path, stamp: Stamp, spec: CollectionSpec) -> VectorMatrix | None:
    """Return the matrix of a file, which stays mapped; None if there is no file, or one that is stale or damaged.

    Args:
        path: The file.
        stamp: What the engine holds now.
        spec: The collection.
    """
    try:
        return _read(path, stamp, spec)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _log.info("%s is not used: %s", path, error)
        return None


def _read(path: Path, stamp: Stamp, spec: CollectionSpec) -> VectorMatrix:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no matrix")
        length, checksum = int.from_bytes(file.read(4), "little"), int.from_bytes(file.read(4), "little")
        header = file.read(length) if length <= _HEADER_ROOM else b""
        if zlib.crc32(header) != checksum:
            raise ValueError("its header is damaged")
        facts = json.loads(header)
        if (facts["stamp"], facts["dim"], facts["fields"]) != (stamp, spec.dim, _kinds(spec)):
            raise ValueError("it is stale")
        start = len(_MAGIC) + 8 + length
        if os.fstat(file.fileno()).st_size != start + facts["size"]:
            raise ValueError("its size is wrong")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if zlib.crc32(memoryview(mapped)[start:]) != facts["checksum"]:
        raise ValueError("its checksum is wrong")
    arrays = {
        name: np.frombuffer(mapped, kind, int(np.prod(shape)), start + offset).reshape(shape)
        for name, kind, shape, offset in facts["arrays"]
    }
    columns: dict[str, Column] = {}
    for field, kind in spec.fields:
        if kind is FieldKind.KEYWORD:
            columns[field] = KeywordColumn(facts["texts"][field], arrays[f"{field}/rows"], arrays[f"{field}/codes"])
        else:
            columns[field] = NumberColumn(arrays[f"{field}/numbers"], whole=kind is FieldKind.INTEGER)
    ids: list[str] = arrays["ids"].astype("U36").tolist()
    vectors: Vectors = arrays["vectors"]
    return VectorMatrix(spec.dim, FilterColumns(spec.fields, columns), ids=ids, vectors=vectors)


def _kinds(spec: CollectionSpec) -> list[list[str]]:
    return [[name, str(kind.value)] for name, kind in spec.fields]


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _padding(array: NDArray[Any]) -> bytes:
    return bytes(-array.nbytes % _ALIGNED)
