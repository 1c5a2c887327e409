"""Registry of parts: the table of further parts, and the parts that a complete slice has, in the order of their files."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lodestone.facts.facts import KINDS
from lodestone.indexing.tasks import META_PART, backbone_part, captions_part
from lodestone_schemas.collections import CAPTION_FIELDS, FUSED_FIELDS, FieldKind

if TYPE_CHECKING:
    from lodestone.backbones.base import Backbone
    from lodestone.indexing.parts.contract import SlicePart
    from lodestone.models.gpu_memory import MemoryFit
    from lodestone.text_encoders.base import TextEncoder

PARTS: Final[Mapping[str, Callable[[], SlicePart]]] = {}
"""Further parts: name -> factory. Outputs of models, captions and metadata depend on the profile, and are made for it."""


def make_parts(backbones: Sequence[Backbone], encoder: TextEncoder, memory: MemoryFit | None = None) -> tuple[SlicePart, ...]:
    """Return all parts of a slice, in the order in which their files are written; `meta`, the last, marks it as complete.

    Args:
        backbones: Image models; none is loaded.
        encoder: Encoder of captions; it is not loaded.
        memory: Size of the passes that memory has room for, shared by these models.
    """
    # Searches look up the fields of parts, and need neither pyarrow nor what else makes parts.
    from lodestone.indexing.parts.captions import CaptionsPart
    from lodestone.indexing.parts.metadata import MetadataPart
    from lodestone.indexing.parts.outputs import OutputsPart

    outputs = [OutputsPart(backbone, memory) for backbone in backbones]
    return (*outputs, *further_parts(), CaptionsPart(encoder), MetadataPart())


def further_parts() -> tuple[SlicePart, ...]:
    """Return the parts of the table.

    Raises:
        ValueError: a part reads pixels and other parts, or has a filter field of a name that is taken.
    """
    parts = tuple(factory() for factory in PARTS.values())
    taken = {*KINDS, *(name for name, _ in (*CAPTION_FIELDS, *FUSED_FIELDS))}
    for part in parts:
        if part.in_batches and part.after:
            raise ValueError(f"the part {part.name!r} reads pixels and other parts: let one of two parts read pixels alone")
        for name, _ in part.fields:
            if name in taken:
                raise ValueError(f"the part {part.name!r} has the filter field {name!r}, which is taken: give it another name")
            taken.add(name)
    return parts


def further_fields() -> tuple[tuple[str, FieldKind], ...]:
    """Return the filter fields that further parts give the points of a picture."""
    return tuple(field for part in further_parts() for field in part.fields)


@dataclass(frozen=True, slots=True)
class SliceParts:
    """Names of the files that a complete slice has. They contain versions: another version of a model makes another part.

    Attributes:
        captions: File of the captions.
        backbones: Backbone's name -> file of its outputs.
        extra: Files of backbones that a model swap needs. A slice that is embedded for the first time gets them too; an older
            slice without them still counts as finished.
        further: Name of a further part -> its file.
    """

    captions: str
    backbones: dict[str, str] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    further: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, backbones: Sequence[Backbone], text_encoder: TextEncoder, *, extra: Sequence[Backbone] = ()) -> SliceParts:
        """Return the parts for these models in their present versions."""
        return cls(
            captions_part(text_encoder),
            {backbone.name: backbone_part(backbone) for backbone in backbones},
            tuple(backbone_part(backbone) for backbone in extra),
            {part.name: part.file for part in further_parts()},
        )

    def names(self) -> tuple[str, ...]:
        """Return all parts; `meta` is last, because it is written last and so marks a slice as complete."""
        return (*self.backbones.values(), *self.further.values(), self.captions, META_PART)

    def missing(self, done: Container[str]) -> tuple[str, ...]:
        """Return the parts that a slice with those in `done` still needs."""
        extra = () if META_PART in done else self.extra
        return tuple(part for part in (*extra, *self.names()) if part not in done)
