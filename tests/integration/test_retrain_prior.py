"""The prior of a bridge that is trained here comes in force along with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.home import open_runtime
from tests.support.pairs import make_pairs

from lodestone.config.engines import EngineSettings
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.prior_weights import PriorWeights
from lodestone.generators.registry import GeneratorContext, make_generator
from lodestone.home.runtime import Runtime
from lodestone.indexing.sync.collections import SyncReport
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training import retrain
from lodestone.training.bridge import TrainingReport
from lodestone.training.captions import FEWEST_MEASURED
from lodestone.training.retrain import PRIOR, retrain_bridge
from lodestone.training.sources import CaptionedPictures


def not_loaded(*_: object) -> SyncReport | None:
    """The vectors are somebody else's work here."""
    return None


@pytest.fixture(autouse=True)
def quick_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge whose vectors differ from the last one's; training the towers would take minutes."""

    def fit(outputs: Any, texts: Any, owner: Any, *, base: BridgeWeights, **_: Any) -> tuple[BridgeWeights, TrainingReport]:
        weights = replace(base, ridge_bias=base.ridge_bias + np.float32(0.01))
        return weights, TrainingReport(outputs.rows, len(texts), 0.0, 0.0, base.version, weights.version, after=1.0)

    monkeypatch.setattr(retrain, "fit_bridge", fit)


def train(runtime: Runtime, seed: int, **more: bool) -> None:
    outputs, _, owner = make_pairs(FEWEST_MEASURED, captions=1, seed=seed)
    captions = [f"a thing number {row} on a table with {seed} legs" for row in owner]
    retrain_bridge(runtime, CaptionedPictures(outputs, captions, owner), synchronise=not_loaded, **more)


async def test_training_the_bridge_refits_its_prior_and_puts_both_in_force(tmp_path: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        train(runtime, 0, dry_run=True)
        assert runtime.catalog.active_artifact(PRIOR) is None
        for seed in (0, 1):
            train(runtime, seed)
            spaces = {name: one.collection for name, one in runtime.projections().items()}
            path = runtime.models().artifacts[PRIOR]
            assert spaces["bridge"] in PriorWeights.load(path).spaces
            # the words "in force until now" hold between training and loading: nothing was promoted yet
            context = GeneratorContext(
                store=runtime.store, catalog=runtime.catalog, models=runtime.models(), engine=EngineSettings(kind="prior")
            )
            text = np.full(384, 384**-0.5, np.float32)
            asked = GuideRequest("a table", "a table", 2, text_vectors={"minilm": text}, collections=spaces)
            guides = await make_generator("prior", context).generate(asked)
            assert [set(guide.vectors) for guide in guides] == [set(spaces.values())] * 2
        assert len(runtime.catalog.artifacts(PRIOR)) == 2
