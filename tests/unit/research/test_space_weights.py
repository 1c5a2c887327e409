"""The fit of the weights between spaces: it serves captions and names, and bare names trust label matching more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from research.fits.space_weights import ScoredQueries, fit_space_weights, fuse, sure_pictures, trust_of

from lodestone.query.weighting.fitted import SpaceWeights


def scored(right_space: str, similarity: float, *, seed: int) -> ScoredQueries:
    rng = np.random.default_rng(seed)
    queries, pictures = 60, 200
    truth = rng.integers(0, pictures, queries)
    spaces = {name: rng.normal(size=(queries, pictures)).astype(np.float32) for name in ("labels", "bridge")}
    spaces[right_space][np.arange(queries), truth] += 3.5
    near = np.clip(rng.normal(similarity, 0.03, queries), 0, 1).astype(np.float32)
    return ScoredQueries(spaces["labels"], spaces["bridge"], near, np.full(queries, 0.7, np.float32), truth)


def test_a_bare_name_trusts_label_matching_more():
    queries, rule = scored("labels", 0.95, seed=2), SpaceWeights()
    named = replace(queries, bareness=np.ones_like(queries.similarity))
    assert (trust_of(named, rule) > trust_of(queries, rule) + 0.3).all()


def test_fitting_finds_a_rule_that_serves_names_and_captions():
    captions, names = scored("bridge", 0.35, seed=0), scored("labels", 0.85, seed=1)
    rule = fit_space_weights(captions, names)
    assert rule.label_trust(0.35) < 0.15 and rule.label_trust(0.9) >= 0.4
    for queries, wanted in ((captions, 0.85), (names, 0.6)):
        fused = fuse(queries, rule)
        right = fused[np.arange(len(fused)), queries.truth][:, None]
        assert ((fused >= right).sum(1) <= 10).mean() > wanted
    assert set(rule.scales) == {"labels", "bridge"}
    bare = replace(names, bareness=np.ones_like(names.similarity))
    assert fit_space_weights(captions, bare) == rule and rule.bare == SpaceWeights().bare  # what resembles a name decides


def test_sure_pictures_name_each_class_once_by_its_surest_picture():
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1], [0.45, 0.55], [0.5, 0.5]], np.float32)
    classes, pictures = sure_pictures(probabilities)
    assert classes.tolist() == [0, 1] and pictures.tolist() == [1, 2]
