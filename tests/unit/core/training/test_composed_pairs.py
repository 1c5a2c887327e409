"""Files of composed queries and right pictures: what they may say, what is refused with its line, and what is one query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lodestone.errors import InvalidRequestError
from lodestone.training.composed_pairs import ComposedPair, read_pairs


def _file(folder: Path, *lines: Any) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_lines_with_the_same_query_are_one_query_with_all_their_pictures(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        {"reference": "a.jpg", "words": "at  night", "target": "b.jpg"},
        "",
        {"words": "sea", "without": "people", "target": ["c.jpg", "d.jpg"]},
        {"reference": "a.jpg", "words": "at night", "target": ["e.jpg", "b.jpg"]},
    )
    first, second = read_pairs(path)
    assert (first.line, first.reference, first.targets) == (1, "a.jpg", ("b.jpg", "e.jpg"))
    assert second == ComposedPair(3, None, "sea", "people", ("c.jpg", "d.jpg"))


def test_vectors_of_known_modalities_may_be_given(tmp_path: Path) -> None:
    path = _file(tmp_path, {"vectors": {"faces": [1, 0.5]}, "target": "b.jpg"})
    assert dict(read_pairs(path, ["faces"])[0].vectors) == {"faces": (1.0, 0.5)}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ({"words": "sea", "target": "a.jpg", "sound": "waves"}, "unknown key 'sound'"),
        ({"words": 3, "target": "a.jpg"}, "'words' is a int"),
        ({"words": "sea"}, "names no picture"),
        ({"words": "sea", "target": ["a.jpg", 3]}, "names no picture"),
        ({"target": "a.jpg"}, "neither a picture nor words"),
        ({"without": "people", "target": "a.jpg"}, "only says what to avoid"),
        ({"vectors": {"sound": [1]}, "target": "a.jpg"}, "no modality 'sound'"),
        ('{"vectors": {"faces": [NaN, 1]}, "target": "a.jpg"}', "finite numbers"),
        ('{"vectors": {"faces": [Infinity]}, "target": "a.jpg"}', "finite numbers"),
        ({"vectors": {"faces": [0, 0]}, "target": "a.jpg"}, "not all 0"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: Any, reason: str) -> None:
    path = _file(tmp_path, {"words": "fine", "target": "a.jpg"}, line)
    with pytest.raises(InvalidRequestError, match="line 2") as refused:
        read_pairs(path, ["faces"])
    assert reason in refused.value.message
    assert refused.value.hint


def test_a_file_without_pairs_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="no pair"):
        read_pairs(_file(tmp_path, ""))
    with pytest.raises(InvalidRequestError, match="cannot read"):
        read_pairs(tmp_path / "absent.jsonl")
