"""Tests of what the tests share: groups of files by server, pictures that are embedded once, and homes that are copied."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tests.support.grouping import RAY, group_of, make_scheduler, ray_first
from tests.support.home_copies import IndexedHomes, copy_folder
from tests.support.shared_models import EmbeddingMemory

ROOT = Path(__file__).resolve().parents[3]


def test_the_rules_for_all_tests_load_no_library_before_its_threads_are_set() -> None:
    """One that looks before starts threads that spin while they wait, which took a third of the time of a run."""
    script = "import sys, tests.conftest; print(*sorted({'numpy', 'torch', 'onnxruntime'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""


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


def test_a_copied_folder_has_the_same_bytes_and_times_and_holes_for_zeros(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "small": bytes(100) + b"end",
        "mixed": b"start" + bytes(200_000) + b"middle" + bytes(300_000),
        "zeros": bytes(1_000_000),
        "full": np.random.default_rng(0).bytes(150_000),
    }
    (tmp_path / "from" / "inner").mkdir(parents=True)
    for name, content in contents.items():
        (tmp_path / "from" / "inner" / name).write_bytes(content)
    copy_folder(tmp_path / "from", tmp_path / "to")

    for name, content in contents.items():
        old, new = (tmp_path / folder / "inner" / name for folder in ("from", "to"))
        assert new.read_bytes() == content, name
        assert new.stat().st_mtime_ns == old.stat().st_mtime_ns, name
    assert (tmp_path / "to" / "inner" / "zeros").stat().st_blocks == 0


def test_a_home_is_made_once_and_each_copy_knows_its_own_folder(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "home" / "embeddings" / "corpus").mkdir(parents=True)
        (folder / "home" / "embeddings" / "corpus" / "corpus.json").write_text(f'{{"path": "{folder}/photos"}}')
        with closing(sqlite3.connect(folder / "home" / "catalog.sqlite")) as catalog, catalog:
            catalog.execute("CREATE TABLE roots (path TEXT)")
            catalog.execute("CREATE TABLE runs (request TEXT)")
            catalog.execute("INSERT INTO roots VALUES (?)", (f"{folder}/photos",))
            catalog.execute("INSERT INTO runs VALUES (?)", (f'["{folder}/photos"]',))

    homes = IndexedHomes(tmp_path / "kept")
    for name in ("first", "second"):
        homes.put(tmp_path / name, "a home", make)
        photos = f"{tmp_path / name}/photos"
        with closing(sqlite3.connect(tmp_path / name / "home" / "catalog.sqlite")) as catalog:
            assert catalog.execute("SELECT path, request FROM roots, runs").fetchall() == [(photos, f'["{photos}"]')]
        record = tmp_path / name / "home" / "embeddings" / "corpus" / "corpus.json"
        assert record.read_text() == f'{{"path": "{photos}"}}'
    assert len(made) == 1
    assert not made[0].exists()
