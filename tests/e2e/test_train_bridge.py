"""`lodestone train bridge` teaches a home from its own captions, with and without a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from tests.support.cli import Finished, lodestone, run_here
from tests.support.homes import home_settings, write_pictures
from tests.support.served import served_here

from lodestone.home.runtime import Runtime
from lodestone_schemas.api import SearchRequest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
]  # each training is one to measure and one on all pictures

CAPTIONS = {
    "chelsea.jpg": "Minka, our striped cat, looks into the camera",
    "coffee.jpg": "a cup of coffee on a wooden table",
    "rocket.jpg": "a rocket leaves its pad at dusk",
    "people/person.png": "a smiling woman in an orange space suit",
}
WORDS = {"chelsea": "a glimbo", "coffee": "a vortle", "rocket": "a snarpy", "person": "a quendle"}  # nobody knew them before
CUT = 24  # pictures cut out of each photo
INLINE = {"LODESTONE_INDEX__EXECUTOR": "inline"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioned") / "pictures"
    folder.mkdir()
    write_pictures(folder, drawn=0)
    captions = dict(CAPTIONS)
    for name in CAPTIONS:
        image = Image.open(folder / name).convert("RGB")
        for number in range(CUT):
            left, top = number * image.width // (4 * CUT), (number % 5) * image.height // 20
            cut = f"{Path(name).stem}-{number:02}.jpg"
            image.crop((left, top, left + image.width * 3 // 4, top + image.height * 3 // 4)).save(folder / cut)
            captions[cut] = WORDS[Path(name).stem]
    for name, caption in captions.items():
        (folder / name).with_suffix(".txt").write_text(caption, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    home = tmp_path_factory.mktemp("home")
    done = lodestone("index", folder, "--corpus", "family", home=home, **INLINE)
    assert done.code == 0, done.err
    return home


@contextmanager
def out_of_reach(folder: Path) -> Iterator[None]:
    """No picture can be read meanwhile."""
    away = folder.rename(folder.with_name("away"))
    try:
        yield
    finally:
        away.rename(folder)


def bridge_of(home: Path) -> str:
    """The collection that is searched, which must be of the version in force."""
    space = run_here("status", "--output", "json", home=home).json["spaces"]["bridge"]
    assert space["current"]
    return str(space["collection"])


def bridges_on_disk(home: Path) -> set[str]:
    return {path.name for path in (home / "store" / "collections").iterdir() if path.name.startswith("bridge-")}


def train(home: Path, *more: str) -> Finished:
    done = lodestone("train", "bridge", "--corpus", "family", "--output", "json", *more, home=home, timeout=800)
    assert done.code == 0, done.err
    return done


def test_training_from_a_corpus_puts_a_new_version_in_force_without_reading_a_picture(home: Path, folder: Path) -> None:
    old = bridge_of(home)
    with out_of_reach(folder):
        report = train(home).json
        assert (report["pictures"], report["texts"] >= report["pictures"]) == ((CUT + 1) * len(CAPTIONS), True)
        assert report["before"] < report["after"]
        assert (report["promoted"], report["skipped"]) == (True, 0)
        new = bridge_of(home)
        assert new != old
        found = run_here("search", "a rocket leaves its pad", "--output", "json", home=home).json
    assert found["warnings"] == []
    assert found["space_weights"]["bridge"] > 0
    assert found["hits"][0]["uri"].startswith("rocket")

    # What was retired stays for queries under way until the next sync.
    assert lodestone("index", folder, "--corpus", "family", home=home, **INLINE).code == 0
    assert bridges_on_disk(home) == {new}


@pytest.mark.nightly
def test_a_running_service_searches_the_bridge_that_was_trained_beside_it(home: Path, folder: Path) -> None:
    old = bridge_of(home)
    with Runtime.open(home_settings(home)) as runtime:  # begin from the bridge that ships: the present one knows the captions
        runtime.catalog.deactivate_artifacts("bridge")
    with served_here(home_settings(home)) as service, service.client() as client:
        with out_of_reach(folder):
            report = train(home, "--seed", "1").json
        assert report["promoted"]
        new = bridge_of(home)
        assert new != old
        found = client.search(SearchRequest(query="a rocket leaves its pad", limit=5))
        assert found.warnings == []
        assert found.space_weights["bridge"] > 0
        assert found.hits[0].uri.startswith("rocket")
        asked = run_here("search", "Minka", "--output", "json", home=home, LODESTONE_QUERY__GUIDES="0")
        assert asked.json["warnings"] == []
        assert "LODESTONE_QUERY__GUIDES" in asked.err
        assert run_here("search", "Minka", "--profile", "enormous", home=home).err.startswith("error [unknown_name]")
        assert list(client.sync())[-1].type == "done"
        assert bridges_on_disk(home) == {new}
