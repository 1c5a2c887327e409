"""Direct spaces: one model's output, L2-normalised, with nothing learned or fitted.

Where the model has a text tower (CLIP), texts are searched in the same space. Where it has none, the space is searched by
pictures only: guides, exemplars, or a picture given by the user. Each of NEEDLE's embedders is such a space.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from lodestone.backbones.base import Backbone, BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection, Vectors
from lodestone.text_encoders.registry import make_text_encoder

_FORMULA: Final = "1"  # raise it when the same outputs would give other vectors


class DirectSpace(Projection):
    """Projects pictures to one output of one backbone, L2-normalised.

    Args:
        name: Name of the space in this profile, e.g. `eva`.
        context: Cache and threads.
        source: The backbone's name, followed by `#OUTPUT` where it has several outputs.

    Example:
        >>> DirectSpace("clip", context, source="open_clip:ViT-B-32/laion2b_s34b_b79k").text_encoder
        'open_clip:ViT-B-32/laion2b_s34b_b79k'
    """

    def __init__(self, name: str, context: ModelContext, *, source: str) -> None:
        self.name = name
        self._context = context
        self._model, _, self._output = source.partition("#")

    @cached_property
    def _backbone(self) -> Backbone:
        return make_backbone(self._model, self._context)

    @cached_property
    def _key(self) -> OutputKey:
        names = [spec.name for spec in self._backbone.outputs]
        if self._output not in names and (self._output or len(names) > 1):
            raise UnknownNameError.among(f"output of {self._model}", self._output, names)
        return OutputKey(self._model, self._output or names[0])

    @property
    def requires(self) -> tuple[OutputKey, ...]:  # type: ignore[override]  # known only once the model's config is read
        """Return the key of the backbone's output, in a tuple.

        Raises:
            UnknownNameError: the backbone has no such output, or has several and none was named.
        """
        return (self._key,)

    @property
    def dim(self) -> int:  # type: ignore[override]  # known only once the model's config is read
        """Return the length of the output."""
        return next(spec.dim for spec in self._backbone.outputs if spec.name == self._key.output)

    @cached_property
    def text_encoder(self) -> str | None:  # type: ignore[override]  # the model's own
        """Return the name of the model's own text tower, or None when it has none."""
        return self._backbone.text_encoder

    @cached_property
    def version(self) -> str:
        """Return a hash of the backbone's and the text encoder's versions and of the output's name.

        No model is loaded for it.
        """
        text = "" if self.text_encoder is None else make_text_encoder(self.text_encoder, self._context).version
        return fingerprint(_FORMULA, self._backbone.version, self._key.output, text)[:12]

    def warm_up(self) -> None:
        """Do nothing, because a direct space has no weights."""

    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Return the output of n pictures: (n, dim) float32, L2-normalised."""
        return _unit(outputs[self._key].astype(np.float32))

    def project_texts(self, encoded: Vectors) -> Vectors:
        """Return (n, dim) float32 rows of the model's text tower, L2-normalised.

        Raises:
            InvalidRequestError: the model has no text tower.
        """
        if self.text_encoder is None:
            raise InvalidRequestError(f"the space {self.name!r} takes no text", hint="search it by a picture or by guides")
        return _unit(encoded)


def _unit(rows: Vectors) -> Vectors:
    unit: Vectors = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit.astype(np.float32, copy=False)
