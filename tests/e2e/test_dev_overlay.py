"""The dev overlay comes up, indexes, answers and mends its store, as far as that can be tried without a cluster.

Takes a minute or two and root: LODESTONE_REHEARSE=1 turns it on.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import rehearsal
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo_path

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.server, pytest.mark.ray, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if os.environ.get("LODESTONE_REHEARSE") != "1":
        pytest.skip("LODESTONE_REHEARSE=1 runs the dev overlay's pods as processes; a minute or two")
    if reason := rehearsal.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rehearsal")
    pictures = folder / "pictures"
    pictures.mkdir()
    for name in (CAT, COFFEE, PERSON, ROCKET):
        shutil.copy(photo_path(name), pictures)
    for above in folder.parents:  # the pods' users must reach their volumes
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o055)
    return rehearsal.rehearse(folder / "stage", pictures)


def test_pods_cannot_write_to_their_image_and_have_no_capability(seen: dict[str, Any]) -> None:
    assert "Read-only file system" in seen["root"]
    assert int(seen["capabilities"], 16) == 0


def test_the_service_comes_up_and_its_worker_is_ready(seen: dict[str, Any]) -> None:
    assert seen["dashboard without its token"] == 401
    assert (seen["deployed"], seen["service"], seen["worker ready"]) == (200, "RUNNING", 0)


def test_an_index_run_makes_pictures_findable_for_those_who_have_a_key(seen: dict[str, Any]) -> None:
    assert seen["index"]["code"] == 0, seen["index"]["said"]
    assert seen["without a key"] == 401
    assert seen["found"] > 0
    assert seen["with a revoked key"] == 401


def test_metrics_of_our_own_come_through_ray(seen: dict[str, Any]) -> None:
    assert rehearsal.METRIC in seen["metrics"]
    assert "ray_serve_" in seen["metrics"]


def test_a_lost_store_is_made_again_from_parquet(seen: dict[str, Any]) -> None:
    assert seen["emptied"] > 0
    assert seen["verify, emptied"] != 0
    assert (seen["repair"], seen["verify, repaired"]) == (0, 0)
    assert seen["found again"] == seen["found"]


def test_backups_are_made_and_restored_beside_the_living_home(seen: dict[str, Any]) -> None:
    assert seen["lodestone-backup"][0] == 0, seen["lodestone-backup"][1]
    assert "is whole" in seen["lodestone-backup"][1]
    assert seen["restored beside"][0] == 0, seen["restored beside"][1]
    assert '"lacking": 0' in seen["restored beside"][1] and '"images": 4' in seen["restored beside"][1]
    assert seen["verified beside"][0] == 0, seen["verified beside"][1]


def test_lost_collections_come_back_from_snapshots(seen: dict[str, Any]) -> None:
    assert seen["lodestone-qdrant-snapshots"][0] == 0, seen["lodestone-qdrant-snapshots"][1]
    assert seen["restored Qdrant"][0] == 0, seen["restored Qdrant"][1]
    assert seen["verified Qdrant"][0] == 0, seen["verified Qdrant"][1]


def test_a_pod_that_is_stopped_has_its_replicas_moved_first(seen: dict[str, Any]) -> None:
    assert seen["left"] == 0, seen["said on leaving"]
