"""Objects and queries of two modalities: made up ones whose modalities disagree, and real embeddings from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
_CLUSTERS: Final = 300
_NEIGHBOURS: Final = 10  # real objects that a new one is mixed from
_NOISE: Final = 0.3
_BLOCK: Final = 500


@dataclass(frozen=True, slots=True)
class Composed:
    """Objects (n) and queries (q) of m modalities.

    Attributes:
        about: What they are, in a sentence.
        parts: (n, dim) float32 a modality, L2-normalised.
        queries: (q, dim) float32 a modality, L2-normalised; the first modality is the target.
        composition: (q, dim of the target) float32: the composition vector of each query, in the space of the target.
    """

    about: str
    parts: Sequence[Rows]
    queries: Sequence[Rows]
    composition: Rows


def unit(rows: NDArray[np.floating]) -> Rows:
    """Return the rows with length 1."""
    normalised: Rows = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return normalised


def made(objects: int, queries: int, *, dim: int, strength: float, seed: int = 0) -> Composed:
    """Return objects whose modalities are clustered independently: what is near in one is anywhere in the other.

    A query asks for an object, with a reference of another object in the target modality. Its composition vector is halfway
    between the reference and the wanted object: an encoder that understands half of it.

    Args:
        objects: How many.
        queries: How many.
        dim: Length of the vectors of each modality.
        strength: Length of a cluster's centre, where the objects' own parts have length 1.
        seed: Of everything that is drawn.
    """
    rng = np.random.default_rng(seed)

    def noise(rows: int) -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = rng.standard_normal((rows, dim)) / np.sqrt(dim)
        return drawn

    parts = []
    for _ in range(2):
        centres = unit(rng.standard_normal((_CLUSTERS, dim)))
        parts.append(unit(strength * centres[rng.integers(_CLUSTERS, size=objects)] + noise(objects)))
    reference, wanted = rng.integers(objects, size=(2, queries))
    asked = [unit(parts[0][reference] + 0.7 * noise(queries)), unit(parts[1][wanted] + 0.7 * noise(queries))]
    composition = unit(asked[0] + parts[0][wanted] + 0.7 * noise(queries))
    about = f"{objects:,} made-up objects of 2 x {dim} numbers, 300 clusters of strength {strength:g} in each, which disagree"
    return Composed(about, parts, asked, composition)


def real(path: Path, objects: int, queries: int, *, seed: int = 0) -> Composed:
    """Return embeddings of real pictures and their captions, enlarged by mixtures.

    500 pictures are held out. A query is one of them, with a caption of another. The rest are the objects; more are made by
    mixing each with one of its ten neighbours, and noise.

    Args:
        path: `.npz` with `bridge` (n, d) and `captions` (n, e), one row a picture, and `texts` (c n, e) and `texts_bridge`
            (c n, d), the c captions of each picture in both spaces.
        objects: How many.
        queries: How many.
        seed: Of everything that is drawn.
    """
    rng = np.random.default_rng(seed)
    with np.load(path) as stored:
        spaces = [unit(stored["bridge"]), unit(stored["captions"])]
        texts, texts_bridge = unit(stored["texts"]), unit(stored["texts_bridge"])
    order = rng.permutation(len(spaces[0]))
    held, kept = order[:500], order[500:]
    parts = [rows[kept] for rows in spaces]
    real_count = min(len(kept), objects)
    if objects > len(kept):
        extra = objects - len(kept)
        base, share = rng.integers(len(kept), size=extra), rng.random((extra, 1))
        joint = np.hstack(parts)
        near = np.concatenate(
            [
                np.argpartition(-(joint[start : start + _BLOCK] @ joint.T), _NEIGHBOURS, axis=1)[:, 1 : _NEIGHBOURS + 1]
                for start in range(0, len(joint), _BLOCK)
            ]
        )
        other = near[base, rng.integers(_NEIGHBOURS, size=extra)]
        for number, rows in enumerate(parts):
            noise = _NOISE * rng.standard_normal((extra, rows.shape[1])) / np.sqrt(rows.shape[1])
            parts[number] = np.vstack([rows, unit((1 - share) * rows[base] + share * rows[other] + noise)])
    parts = [rows[:objects] for rows in parts]
    captions = len(texts) // len(spaces[0])
    picture, described = rng.choice(held, (2, queries))
    words = described * captions + rng.integers(captions, size=queries)
    about = (
        f"{objects:,} objects of {' + '.join(str(rows.shape[1]) for rows in parts)} numbers: {real_count:,} photos with the "
        f"mean of their captions, and {objects - real_count:,} mixtures of neighbours; their modalities agree"
    )
    return Composed(about, parts, [spaces[0][picture], texts[words]], unit(spaces[0][picture] + texts_bridge[words]))


def joint_scores(data: Composed, weight: float) -> Rows:
    """Return the joint similarity of every query with every object, (q, n) float32; `weight` is that of the target."""
    scores: Rows = weight * (data.queries[0] @ data.parts[0].T) + (1 - weight) * (data.queries[1] @ data.parts[1].T)
    return scores
