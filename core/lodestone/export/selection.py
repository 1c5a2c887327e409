"""Selection of an export: what its files hold, with all names resolved, and its description in the export's directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from lodestone.errors import UnknownNameError
from lodestone.export.columns import chosen_columns
from lodestone.export.request import ExportFormat, ExportRequest, PictureBytes
from lodestone.indexing.parts.registry import SliceParts, further_fields
from lodestone.query.asking.filters import FilterSources, restriction
from lodestone.query.asking.requested_sets import tree_of
from lodestone.query.asking.restrictions import filter_of
from lodestone.query.asking.sets import restricting
from lodestone.store.algebra import EVERY_POINT, all_of
from lodestone.store.base import Filter
from lodestone_schemas.collections import FieldKind

if TYPE_CHECKING:
    from lodestone.catalog.records import Corpus
    from lodestone.home.runtime import Runtime
    from lodestone.spaces.base import Projection


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """What the files of an export hold.

    Attributes:
        request: The request.
        corpora: Corpora whose pictures are exported, by name.
        filter: Conditions on pictures.
        notes: What the request's sender should know about its filters.
        columns: Names of the facts, in the order of the files.
        fields: Fields of further parts, by name.
        projections: Space -> its version, with weights loaded.
        parts: Backbone -> part that holds its outputs.
        pictures: What archives hold of a picture.
    """

    request: ExportRequest
    corpora: tuple[Corpus, ...]
    filter: Filter
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    fields: Mapping[str, FieldKind]
    projections: Mapping[str, Projection]
    parts: Mapping[str, str]
    pictures: PictureBytes

    @classmethod
    def of(cls, runtime: Runtime, request: ExportRequest) -> ExportSelection:
        """Return what a request means in a home. The vector store is not opened, and no image model is loaded.

        Raises:
            UnknownNameError: no such corpus, root, column, space, or field of a part.
            InvalidRequestError: filters contradict each other, or say what pictures are like.
        """
        fields = dict(further_fields())
        catalog = runtime.catalog
        sources = FilterSources(catalog, fields=fields)
        filter_, notes = restriction(request.filters, sources)
        filters = [filter_ or EVERY_POINT]
        if request.match is not None:
            filters.append(restricting(tree_of(request.match), lambda node: filter_of(node, sources)))
        projections = _chosen_spaces(runtime, request)
        return cls(
            request,
            tuple(catalog.corpus(name) for name in sorted(set(request.filters.corpora)) or _all_corpora(runtime)),
            all_of(filters),
            tuple(notes),
            chosen_columns(request.columns, fields),
            fields,
            projections,
            SliceParts.of(runtime.backbones(), runtime.text_encoder).backbones if projections else {},
            request.picture_bytes,
        )

    @property
    def has_captions(self) -> bool:
        """Return whether the files hold captions."""
        return "captions" in self.columns or self.request.format is ExportFormat.WEBDATASET

    @property
    def part_columns(self) -> tuple[str, ...]:
        """Return those of the columns that are fields of further parts."""
        return tuple(name for name in self.columns if name in self.fields)

    def required(self, space: str) -> tuple[str, ...]:
        """Return the parts that a slice must have for the vectors of a space, each once."""
        return tuple(self.parts[name] for name in dict.fromkeys(key.backbone for key in self.projections[space].requires))

    def spaces(self) -> dict[str, dict[str, Any]]:
        """Return space -> facts of its vectors, for readers of the files."""
        return {
            name: {"version": projection.version, "dim": projection.dim, "text_encoder": projection.text_encoder}
            for name, projection in self.projections.items()
        }

    def description(self) -> dict[str, Any]:
        """Return what was asked for as JSON has it: an export of the same selection has the same."""
        request = self.request
        return {
            "format": request.format.value,
            "filters": request.filters.model_dump(mode="json", exclude_defaults=True),
            "match": None if request.match is None else request.match.model_dump(mode="json", exclude_none=True),
            "columns": list(self.columns),
            "spaces": sorted(self.projections),
            "dtype": request.dtype.value if self.projections else None,
            "pictures": self.pictures.value,
            "size": str(request.bounded),
        }

    def digest(self) -> str:
        """Return a digest of what the content of all files depends on, beside their pictures."""
        return str(blake3(json.dumps([self.description(), self.spaces()], sort_keys=True).encode()).hexdigest(length=16))


def _all_corpora(runtime: Runtime) -> list[str]:
    return sorted({corpus.name for corpus in runtime.catalog.corpora(limit=1_000_000)})


def _chosen_spaces(runtime: Runtime, request: ExportRequest) -> dict[str, Projection]:
    """Return space -> version in force of the spaces that are wanted, with their weights loaded.

    Raises:
        UnknownNameError: the profile has no such space.
    """
    if request.spaces is not None and not request.spaces:
        return {}
    projections = runtime.projections()
    for name in request.spaces or ():
        if name not in projections:
            raise UnknownNameError.among("space", name, list(projections))
    chosen = {name: one for name, one in projections.items() if request.spaces is None or name in request.spaces}
    for projection in chosen.values():
        projection.warm_up()
    return chosen
