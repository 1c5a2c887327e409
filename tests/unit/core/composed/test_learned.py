"""Files of learnt weights: saved and read as they are, versioned by content, refused when damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lodestone.composed.learned import LearnedWeights, weights_kind
from lodestone.composed.weights import ModalityWeights
from lodestone.errors import ConfigurationError

_WEIGHTS = LearnedWeights(
    "default", ModalityWeights({"picture": 0.25, "words": 0.75}), {"look": "look-1"}, {"pairs": 30, "figures": {"recall": 0.5}}
)


def test_what_is_saved_is_read_and_named_by_its_content(tmp_path: Path) -> None:
    path = _WEIGHTS.save(tmp_path)
    assert path == tmp_path / _WEIGHTS.path
    assert LearnedWeights.load(path) == _WEIGHTS
    other = LearnedWeights("default", ModalityWeights({"picture": 0.5, "words": 0.5}), _WEIGHTS.collections)
    assert other.version != _WEIGHTS.version
    assert _WEIGHTS.described() == "words 0.750, picture 0.250"
    assert weights_kind("default") == "weights.default"


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"weights": {"picture": 0.5}},
        {"weights": {"picture": "x"}},
        {"weights": [1]},
        {"card": None},
        {"weights": {}},
    ],
)
def test_a_file_that_holds_no_weights_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = _WEIGHTS.save(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigurationError) as refused:
        LearnedWeights.load(path)
    assert "lodestone train weights" in (refused.value.hint or "")


def test_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        LearnedWeights.load(tmp_path / "absent.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ConfigurationError, match="no weights"):
        LearnedWeights.load(tmp_path / "broken.json")
