"""Tests of what the tests share: groups of files by server, and pictures that are embedded once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.grouping import group, servers_first
from tests.support.shared_models import EmbeddingMemory


class Session:
    """Stands for a model's session; memories hold it weakly."""


def test_a_file_without_a_server_is_a_group_of_its_own(request: pytest.FixtureRequest) -> None:
    mark = request.node.get_closest_marker("xdist_group")
    assert mark.args == ("unit/house/test_support",)
    assert servers_first(request.node)


class Item:
    """The parts of a collected test that groups depend on."""

    def __init__(self, request: pytest.FixtureRequest, file: str, fixtures: tuple[str, ...], **parameters: str) -> None:
        self.config = request.config
        self.path = request.config.rootpath / "tests" / file
        self.fixturenames = fixtures
        self.callspec = SimpleNamespace(params=parameters)
        self.marks: list[pytest.Mark] = []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.mark)

    def get_closest_marker(self, _: str) -> pytest.Mark:
        return self.marks[-1]


def test_files_that_share_a_server_are_one_group_and_come_first(request: pytest.FixtureRequest) -> None:
    items: list[Any] = [
        Item(request, "unit/test_a.py", ("tmp_path",)),
        Item(request, "contract/test_b.py", ("store", "filled"), store="edge"),
        Item(request, "contract/test_b.py", ("store", "filled"), store="namespace"),
        Item(request, "integration/test_c.py", ("qdrant_server",)),
        Item(request, "integration/test_d.py", ("kind",), kind="server"),  # another fixture's word
    ]
    group(items)
    names = [item.marks[0].args[0] for item in items]
    assert names == ["unit/test_a", "qdrant", "qdrant", "qdrant", "integration/test_d"]
    assert [item.marks[0].args[0] for item in sorted(items, key=servers_first)][:3] == ["qdrant"] * 3


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
