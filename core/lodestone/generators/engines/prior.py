"""Generator `prior`: guide vectors drawn from a learnt distribution over each space, without drawing a picture.

No model is run: a ridge map takes the query's text vector into each space, and seeded noise along the directions that words
leave open makes several different guides (training/prior.py). A prior belongs to the versions of the spaces that it was fitted
for; in a space whose version it does not know it draws nothing, and logs that once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import ModelUnavailableError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.generators.engines.prior_weights import PriorWeights, SpacePrior

KIND: Final = "prior"  # kind of the learned artifact
WEIGHT: Final = 0.02  # per guide: ten count .1 of the words, the largest weight without loss (research/studies/exemplars.py)
_NO_SPACES: Final = frozenset({"captions", "tags"})  # collections that hold no pictures' vectors
_log = logging.getLogger(__name__)


class Prior(Generator):
    """Draws guide vectors for a query: the same ones for the same words, seed and number in every process.

    Args:
        source: A file written by `PriorWeights.save`, or the weights themselves; None for those that ship with the package.
            Spaces that the file does not know are taken from those that ship.
        name: Name under which the engine is configured.
        weight: Weight of a guide, in (0, 1].
    """

    version = "1"

    def __init__(self, source: Path | PriorWeights | None = None, *, name: str = KIND, weight: float = WEIGHT) -> None:
        self.name = name
        self._source = source
        self._weight = weight
        self._reported: set[str] = set()

    @cached_property
    def weights(self) -> PriorWeights:
        """Return the weights, which are read from their file at the first use.

        Raises:
            ConfigurationError: the file is missing or damaged.
        """
        shipped = PriorWeights.shipped()
        if self._source is None:
            return shipped
        learnt = self._source if isinstance(self._source, PriorWeights) else PriorWeights.load(self._source)
        return PriorWeights({**shipped.spaces, **learnt.spaces}, text_encoder=learnt.text_encoder, provenance=learnt.provenance)

    async def warm_up(self) -> None:
        """Read the weights (a megabyte)."""
        await asyncio.to_thread(lambda: self.weights)

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Draw the guides that a request asks for, as `Generator.generate` requires.

        Raises:
            ModelUnavailableError: the prior was fitted for none of the versions that are searched, or for another text encoder.
        """
        weights = await asyncio.to_thread(lambda: self.weights)
        text = request.text_vectors.get(weights.text_encoder)
        searched = {space: name for space, name in request.collections.items() if space not in _NO_SPACES}
        if request.n < 1 or not searched:
            return []
        if text is None:
            raise ModelUnavailableError(
                f"the prior reads vectors of the text encoder {weights.text_encoder!r}, which this query was not encoded by",
                hint="leave the generator `prior` out, or use a profile with that text encoder",
            )
        known = self._known(searched, weights)
        return [self._guide(number, text, known, request) for number in range(request.first, request.first + request.n)]

    def _known(self, searched: Mapping[str, str], weights: PriorWeights) -> dict[str, SpacePrior]:
        known = {name: weights.spaces[name] for name in searched.values() if name in weights.spaces}
        missing = sorted(set(searched.values()) - known.keys())
        if not known:
            raise ModelUnavailableError(
                f"the prior was not fitted for {', '.join(missing)}",
                hint="fit it with the bridge on captions of your own: lodestone train bridge",
            )
        for name in missing:
            if name not in self._reported:
                self._reported.add(name)
                _log.warning("the prior was not fitted for %s and draws nothing there: lodestone train bridge", name)
        return known

    def _guide(self, number: int, text: NDArray[np.float32], known: Mapping[str, SpacePrior], request: GuideRequest) -> Guide:
        return Guide(
            guide_id=f"{self.name}/{number}",
            engine=self.name,
            weight=self._weight,
            provenance={"version": self.version, "fitted": self.weights.version, "seed": request.seed, "number": number},
            vectors={
                name: prior.draw(text[None], np.random.default_rng(_seed(request, number, name)))[0]
                for name, prior in known.items()
            },
        )


def _seed(request: GuideRequest, number: int, collection: str) -> int:
    """Return the seed of one (query, seed, number, space), the same in every process."""
    text = "\0".join([request.query, str(request.seed), str(number), collection])
    return int.from_bytes(hashlib.blake2b(text.encode("utf8", "surrogatepass"), digest_size=8).digest(), "big")
