"""Made-up captioned pictures with something to learn: a hidden topic shows in both the outputs and the text vectors."""

from __future__ import annotations

import numpy as np

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.spaces.bridge_arrays import BACKBONES, unit

TEXT_DIM = 384
TOPIC_DIM = 24


def make_pairs(
    pictures: int, *, captions: int = 2, seed: int = 0, world: int = 0, shift: float = 0.0
) -> tuple[BackboneOutputs, np.ndarray, np.ndarray]:
    """Outputs, (m, 384) unit text vectors and (m,) owners. `world` fixes how topics show, `seed` which pictures there are."""
    fixed = np.random.default_rng(world)
    to_features = {name: fixed.normal(size=(TOPIC_DIM, 1280)).astype(np.float32) for name in BACKBONES}
    to_classes = fixed.normal(size=(TOPIC_DIM, 1000)).astype(np.float32)
    to_text = fixed.normal(size=(TOPIC_DIM, TEXT_DIM)).astype(np.float32)
    rng = np.random.default_rng(seed)
    topic = rng.normal(size=(pictures, TOPIC_DIM)).astype(np.float32)
    columns = {}
    for name in BACKBONES:
        features = np.maximum(topic @ to_features[name] * 0.1 + 0.3 * rng.random((pictures, 1280)) + shift, 0)
        powers = np.exp(topic @ to_classes * 0.5)
        columns[OutputKey(name, "features")] = features.astype(np.float16)
        columns[OutputKey(name, "probabilities")] = (powers / powers.sum(1, keepdims=True)).astype(np.float16)
    owner = np.repeat(np.arange(pictures), captions)
    texts = unit(topic[owner] @ to_text + 1.0 * rng.normal(size=(len(owner), TEXT_DIM)).astype(np.float32) + 0.5)
    return BackboneOutputs(columns), texts, owner


def recall_at_10(scores: np.ndarray, truth: np.ndarray) -> float:
    """Share of the queries whose picture is among the first ten."""
    right = scores[np.arange(len(scores)), truth][:, None]
    return float(((scores >= right).sum(1) <= 10).mean())
