"""The baselines: captions matched without the query's own, and queries rewritten by a model behind a real local server."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.eval_fixtures import chat_server

from lodestone.errors import ServiceUnavailableError
from lodestone.text_encoders.base import TextEncoder
from lodestone_eval.baselines import LanguageModel, Rewriter, match_captions
from lodestone_eval.datasets.base import EvalQuery

_DIM = 512


class _WordCounts(TextEncoder):
    """Cosine of shared words: rankings can be told by reading."""

    name, dim, version = "words", _DIM, "1"

    def warm_up(self, *, threads: int = 0) -> None:
        return

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), _DIM), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().rstrip(" .").split():
                vectors[row, int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % _DIM] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


_CAPTIONS = {
    "dogs.jpg": ("two dogs run in snow", "black dogs chase white dogs"),
    "dog.jpg": ("two dogs run in grass",),
    "boat.jpg": ("a boat on a lake",),
    "bare.jpg": (),
}


def test_a_picture_is_not_found_by_the_caption_that_is_asked() -> None:
    query = EvalQuery("q", "Two dogs run in snow .", frozenset({"dogs.jpg"}))
    ranked = match_captions([query], _CAPTIONS, _WordCounts())[0].names
    assert ranked == ("dog.jpg", "dogs.jpg", "boat.jpg")  # by "two dogs run in grass", and "black dogs …" for the right one


def test_the_same_words_on_another_picture_do_count() -> None:
    query = EvalQuery("q", "two dogs run in snow", frozenset({"boat.jpg"}))
    assert match_captions([query], _CAPTIONS, _WordCounts())[0].names[0] == "dogs.jpg"


def test_a_picture_without_another_caption_is_not_found() -> None:
    query = EvalQuery("q", "a boat on a lake", frozenset({"boat.jpg"}))
    assert "boat.jpg" not in match_captions([query], _CAPTIONS, _WordCounts())[0].names
    assert match_captions([query], {"bare.jpg": ()}, _WordCounts())[0].names == ()


def test_queries_are_rewritten_once_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    with chat_server('"A photograph\nof {}."') as (url, asked):
        model = LanguageModel(url, "tiny", key_env="A_KEY")
        first = asyncio.run(Rewriter(model, tmp_path / "cache.json").rewrite(["a dog", "a cat", "a dog"]))
        assert first == {"a dog": "A photograph of a dog.", "a cat": "A photograph of a cat."}
        assert len(asked) == 2
        assert {(one["path"], one["key"], one["model"]) for one in asked} == {("/v1/chat/completions", "Bearer secret", "tiny")}
        again = asyncio.run(Rewriter(model, tmp_path / "cache.json").rewrite(["a dog", "a bird"]))
        assert again["a bird"] == "A photograph of a bird."
        assert len(asked) == 3
    assert "secret" not in (tmp_path / "cache.json").read_text()


@pytest.mark.parametrize(("answer", "status"), [(None, 200), ("", 200), ("x", 500)])
def test_a_model_that_answers_nothing_is_an_error(answer: str | None, status: int, tmp_path: Path) -> None:
    with chat_server(answer, status) as (url, _), pytest.raises(ServiceUnavailableError, match="none of 1"):
        asyncio.run(Rewriter(LanguageModel(url, "tiny"), tmp_path / "cache.json").rewrite(["a dog"]))


def test_a_query_that_fails_is_asked_as_it_is_and_counted(tmp_path: Path) -> None:
    with chat_server("fine: {}") as (url, _):
        model = LanguageModel(url, "tiny")
        asyncio.run(Rewriter(model, tmp_path / "cache.json").rewrite(["a dog"]))
    rewriter = Rewriter(model, tmp_path / "cache.json")  # nobody listens any more
    assert asyncio.run(rewriter.rewrite(["a dog", "a cat"])) == {"a dog": "fine: a dog", "a cat": "a cat"}
    assert sum(rewriter.failures.values()) == 1
