"""Tests of what the tests share: groups of files by server, and pictures that are embedded once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from tests.support.grouping import RAY, group_of, make_scheduler, ray_first
from tests.support.shared_models import EmbeddingMemory


class Session:
    """Stands for a model's session; memories hold it weakly."""


def test_files_that_need_ray_are_one_group_and_others_are_groups_of_their_own() -> None:
    assert group_of("tests/integration/test_index_ray.py") == group_of("tests/integration/test_monitoring_ray.py") == RAY
    assert group_of("tests/unit/house/test_support.py") == "tests/unit/house/test_support.py"


def test_the_group_of_ray_comes_first_and_the_order_within_groups_stays() -> None:
    names = [
        "tests/unit/a.py::x",
        "tests/integration/test_index_ray.py::b",
        "tests/integration/test_index_ray.py::a",
        "tests/unit/a.py::a",
    ]
    items = [SimpleNamespace(nodeid=name) for name in names]
    ordered = ray_first(items)  # type: ignore[arg-type]

    assert [item.nodeid for item in ordered] == [names[1], names[2], names[0], names[3]]


def test_groups_are_for_that_distribution_alone() -> None:
    class Config:
        def getvalue(self, _: str) -> str:
            return "no"

    assert make_scheduler(Config(), None) is None  # type: ignore[arg-type]


def test_a_picture_is_embedded_once_a_session_and_each_gets_its_own_row() -> None:
    batches: list[int] = []

    def embed(_: object, pixels: np.ndarray) -> dict[str, np.ndarray]:
        batches.append(len(pixels))
        return {"mean": pixels.reshape(len(pixels), -1).mean(axis=1, keepdims=True)}

    memory = EmbeddingMemory(embed)
    pictures = np.arange(4 * 12, dtype=np.uint8).reshape(4, 2, 2, 3)
    first, second = SimpleNamespace(_session=Session()), SimpleNamespace(_session=Session())
    once = memory.recall(first, pictures[:3])["mean"]
    again = memory.recall(first, pictures[[3, 1, 0]])["mean"]
    assert batches == [3, 1]
    np.testing.assert_array_equal(again, embed(None, pictures[[3, 1, 0]])["mean"])
    np.testing.assert_array_equal(once, embed(None, pictures[:3])["mean"])
    batches.clear()
    memory.recall(second, pictures[:2])
    assert batches == [2]
