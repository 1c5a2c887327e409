"""Kill a model swap at every step; the same commands finish it, with the files and vectors of an undisturbed one."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cli import lodestone, run_here
from tests.support.home import open_runtime, vectors_of
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.catalog.records import SwapState
from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.swap.swapping import Swapper

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

LITE1 = "efficientnet-lite1"
PICTURES = 12
SETTINGS = {"LODESTONE_INDEX__SLICE_SIZE": "4", "LODESTONE_INDEX__EXECUTOR": "inline"}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swap-kill")
    write_photos(folder / "pictures", PICTURES)
    with open_runtime(folder, slice_size=4) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",)))
    return folder


def copy_of(indexed: Path, folder: Path) -> Path:
    copy_folder(indexed / "home", folder / "home")
    return folder


def state_of(folder: Path) -> tuple[SwapState, dict[str, Any], list[str]]:
    """The swap's state, the vectors that are searched, and all stored files."""
    with open_runtime(folder, slice_size=4) as runtime:
        (swap,) = runtime.catalog.swaps()
        files = sorted(str(path.relative_to(folder)) for path in runtime.home.embeddings.rglob("*.parquet"))
        return swap.state, vectors_of(runtime, "labels"), files


def test_a_swap_that_is_killed_at_every_step_ends_as_an_undisturbed_one(indexed: Path, tmp_path: Path) -> None:
    calm = copy_of(indexed, tmp_path / "calm")
    with open_runtime(calm, slice_size=4) as runtime:
        Swapper(runtime).start("labels", LITE1)
        Swapper(runtime).promote()
    killed = copy_of(indexed, tmp_path / "killed")
    begin, promote = ("--space", "labels", "--to", LITE1), ("--promote",)
    for step, point in (
        (begin, "after-rename:2"),
        (begin, "embedding:1"),
        (begin, "loading:1"),
        (begin, ""),
        (promote, "before-promotion:1"),
        (promote, ""),
    ):
        command = ("models", "swap", *step, "--output", "json")
        if point:  # it dies, in a process of its own
            done = lodestone(*command, home=killed / "home", **SETTINGS, **{VARIABLE: point})
        else:
            done = run_here(*command, home=killed / "home", **SETTINGS)
        assert done.code == (-signal.SIGKILL if point else 0), done.err
    assert done.json["state"] == "promoted"
    (state, vectors, files), (calm_state, calm_vectors, calm_files) = state_of(killed), state_of(calm)
    assert (state, files) == (calm_state, calm_files)
    assert vectors.keys() == calm_vectors.keys()
    assert all(float(np.dot(vectors[point], vector)) >= 0.99999 for point, vector in calm_vectors.items())
