"""Baselines of the benchmark of composed queries, over four made-up photos."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from research.studies.composed import Asked, Asking

from lodestone.spaces.names import BRIDGE, LABELS

# Axes: dog, night, cup.
_WORDS = {"dog": [1, 0, 0], "night": [0, 1, 0], "cup": [0, 0, 1]}
_PHOTOS = [[1, 0, 0], [0.6, 0.8, 0], [0, 1, 0], [0, 0, 1]]


def _encode(texts: list[str]) -> np.ndarray:
    rows = np.array([np.sum([_WORDS[word] for word in _WORDS if word in text], axis=0) for text in texts], np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


class _Engine:
    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    async def answer(self, request: Any) -> Any:
        self._asked.append(request.query)
        assert request.guides == 0
        scores = np.array(_PHOTOS) @ _encode([request.query])[0]
        return SimpleNamespace(hits=[SimpleNamespace(image_id=f"p{row}") for row in np.argsort(-scores, kind="stable")])


def _asking(asked: list[str], *, captioned: bool) -> Asking:
    photos = np.array(_PHOTOS, np.float32)
    names = [[("dog", 1.0)], [("dog", 0.6)], [("dog", 0.0)], [("cup", 1.0)]]
    bench = SimpleNamespace(
        ids=[f"p{row}" for row in range(4)],
        captions=[["a dog", "a dog again", "not indexed"], ["a dog at night"] * 3, ["night"] * 3, ["a cup"] * 3],
        text=SimpleNamespace(encode=_encode),
        projections={
            BRIDGE: SimpleNamespace(collection="bridge-1", project_texts=lambda rows: rows),
            LABELS: SimpleNamespace(collection="labels-1", nearest_labels=lambda _, count: [row[:count] for row in names]),
        },
        store=SimpleNamespace(retrieve=lambda _, __: SimpleNamespace(vectors=photos)),
        engine=lambda _: _Engine(asked),
    )
    return Asking(cast("Any", bench), [Asked(0, "night", (1,)), Asked(3, "night", (0, 1))], captioned=captioned)


def test_a_picture_is_said_in_words_and_searched_with_the_word() -> None:
    for captioned, texts in ((False, ["dog, night", "cup, night"]), (True, ["dog, a dog, night", "cup, a cup, night"])):
        asked: list[str] = []
        shares = _asking(asked, captioned=captioned).picture_to_words()
        assert asked == texts
        assert shares == pytest.approx([1, 1])  # all four photos are among the first ten


def test_a_delta_of_words_takes_the_labels_from_the_picture_and_adds_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("research.studies.composed.TOP", 1)
    # dog + night - dog is night: photo 2, and not photo 1, which is half a dog
    assert _asking([], captioned=False).text_delta() == pytest.approx([0, 0])
    monkeypatch.setattr("research.studies.composed.TOP", 2)
    assert _asking([], captioned=False).text_delta() == pytest.approx([1, 0.5])
