"""Part of a picture: the outputs of one backbone, from which the vectors of spaces are projected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lodestone.backbones.base import Backbone, Pixels
from lodestone.embeddings.tables import outputs_table
from lodestone.indexing.parts.contract import (
    Dropped,
    FinishedSlice,
    Made,
    OpenedPicture,
    PartResources,
    PartResult,
    PictureGroup,
    Reads,
    SlicePart,
)
from lodestone.indexing.tasks import backbone_part
from lodestone.models.context import ModelContext
from lodestone.models.gpu_memory import MemoryFit, free_cached_memory, no_room, out_of_gpu_memory
from lodestone_schemas.arrow import outputs_schema

_CHANNELS: Final = 3


class OutputsPart(SlicePart):
    """Runs a backbone over pixels, and keeps its outputs: one row for each picture.

    Args:
        backbone: The model.
        memory: Size of the passes that memory has room for, shared by the models of a worker.
    """

    reads = Reads.PIXELS
    embeds = True

    def __init__(self, backbone: Backbone, memory: MemoryFit | None = None) -> None:
        self.name = backbone.name
        self._backbone = backbone
        self._memory = memory or MemoryFit()

    @property
    def version(self) -> str:
        """Return the version of the backbone."""
        return self._backbone.version

    @property
    def file(self) -> str:
        """Return the name of the backbone's part."""
        return backbone_part(self._backbone)

    @property
    def schema(self) -> pa.Schema:
        """Return one column for each output."""
        return outputs_schema({spec.name: spec.dim for spec in self._backbone.outputs})

    @property
    def resources(self) -> PartResources:
        """Return what a picture of the model's input size needs."""
        side = self._backbone.input_size
        return PartResources(prepared_bytes=_CHANNELS * side**2, side=side, on_gpu=self._backbone.on_gpu())

    def prepare(self, picture: OpenedPicture) -> Pixels:
        """Return the picture as the model takes it: (side, side, 3) uint8."""
        return self._backbone.prepare(picture.decoded.image)

    def setup(self, context: ModelContext) -> None:
        """Load the model.

        Raises:
            ModelUnavailableError: its package is not installed, or the GPU's memory has no room for it.
        """
        try:
            self._backbone.warm_up(threads=context.threads)
        except Exception as error:
            if not out_of_gpu_memory(error):
                raise
            free_cached_memory()
            raise no_room(self.name) from error

    def collate(self, prepared: Sequence[Any]) -> Any:  # noqa: ANN401 - pixels, and what the model's runtime holds them in
        """Return the batch, (n, side, side, 3) uint8, here and where the model runs."""
        pixels = np.stack(prepared)
        return pixels, self._memory.upload(self._backbone, pixels)

    def process(self, pictures: PictureGroup) -> Sequence[PartResult]:
        """Return the outputs of each picture, by name; where the GPU's memory has no room for a batch, in several passes."""
        pixels, uploaded = pictures.prepared
        outputs = self._memory.embed(self._backbone, pixels, uploaded)
        return [Made({name: array[row] for name, array in outputs.items()}) for row in range(len(pixels))]

    def fits(self, read: Callable[[Sequence[str]], pa.Table], needed: Mapping[str, str]) -> bool:
        """Return whether a file of a killed run has outputs of all the pictures that it must have."""
        table = read(("image_id", "hash"))
        held = dict(zip(table.column("image_id").to_pylist(), table.column("hash").to_pylist(), strict=True))
        return all(held.get(image_id) == content for image_id, content in needed.items())

    def table(self, finished: FinishedSlice) -> pa.Table:
        """Return the outputs of the pictures that could be used."""
        made = [
            (row, result.value)
            for row, result in zip(finished.rows, finished.results, strict=True)
            if not isinstance(result, Dropped)
        ]
        arrays = {
            spec.name: np.stack([value[spec.name] for _, value in made]) if made else np.empty((0, spec.dim), np.float16)
            for spec in self._backbone.outputs
        }
        ids, hashes = [row.image_id for row, _ in made], [row.hash for row, _ in made]
        return outputs_table(ids, hashes, arrays, metadata={"part": self.file})
