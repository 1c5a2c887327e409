"""What another process makes the matrix of a collection from: the mapped file of a large one, the numbers of a small one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lodestone.store.base import Vectors
from lodestone.store.edge.columns import Column, FilterColumns, KeywordColumn, NumberColumn
from lodestone.store.edge.matrix import VectorMatrix
from lodestone.store.edge.matrix_file import Stamp, read_matrix
from lodestone_schemas.collections import CollectionSpec, FieldKind

Snapshot = tuple[list[str], Vectors, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """Matrix of a collection at one time; picklable.

    Attributes:
        version: Two with the same version are equal.
        spec: The collection.
        approximate: Whether only exact queries, and those among ids, are answered by it.
        path: Its file; None for a small one.
        stamp: What the engine held when the file was written.
        snapshot: Its ids, vectors and columns; None for a large one, or for a reader that has this version.
    """

    version: str
    spec: CollectionSpec
    approximate: bool
    path: Path | None = None
    stamp: Stamp | None = None
    snapshot: Snapshot | None = None

    def open(self) -> VectorMatrix | None:
        """Return the matrix; None if its file has been replaced meanwhile, or is damaged."""
        if self.path is not None and self.stamp is not None:
            return read_matrix(self.path, self.stamp, self.spec)
        if self.snapshot is None:
            return None
        ids, vectors, arrays = self.snapshot
        columns: dict[str, Column] = {}
        for field, kind in self.spec.fields:
            if kind is FieldKind.KEYWORD:
                columns[field] = KeywordColumn(**arrays[field])
            else:
                columns[field] = NumberColumn(**arrays[field], whole=kind is FieldKind.INTEGER)
        return VectorMatrix(self.spec.dim, FilterColumns(self.spec.fields, columns), ids=ids, vectors=vectors)
