"""`lodestone refine` and `lodestone search --like`: three steps of a refinement, by a service and in a home of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.home import settings_for
from tests.support.homes import index, write_pictures
from tests.support.photos import CAT, COFFEE, ROCKET, photo, photo_path
from tests.support.served import Served, served_here

CUP = "a cup of coffee"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("refining")
    (made / "pictures").mkdir()
    write_pictures(made / "pictures", drawn=8)
    index(settings_for(made / "home"), made / "pictures", corpus="photos")
    return made


@pytest.fixture(scope="module")
def remote(folder: Path) -> Iterator[Served]:
    with served_here(settings_for(folder / "home")) as served:
        yield served


@pytest.fixture
def run(remote: Served, tmp_path: Path) -> object:
    def command(*arguments: str | Path) -> Finished:
        return run_here("--url", remote.address.url, *arguments, home=tmp_path / "none")

    return command


def stems(found: Finished) -> list[str]:
    return [Path(hit["uri"]).stem for hit in found.json["hits"]]


def parts(found: Finished) -> dict[str, float]:
    return {part["name"]: part["weight"] for part in found.json["parts"]}


def explained(run, found: Finished) -> None:
    """The parts of each hit sum to its score, and the words for people name the parts."""
    query_id = found.json["query_id"]
    explanation = run("explain", query_id, "-o", "json").json
    assert {part["name"]: part["weight"] for part in explanation["parts"]} == parts(found)
    for hit in explanation["hits"]:
        assert sum(part["part"] for part in hit["parts"]) == pytest.approx(hit["score"], abs=1e-5)
    shown = run("explain", query_id).out
    assert all(f"part {name} {weight:.2f}: " in shown for name, weight in parts(found).items())


def test_phrases_of_change_are_understood_beside_a_picture_or_taken_as_they_are(run) -> None:
    def said(found: Finished) -> list[tuple[str, str | None]]:
        assert found.code == 0, found.err
        return [(part["name"], part.get("text")) for part in found.json["parts"]]

    first = run("search", "a cat", "--guides", "0", "-o", "json")
    cat = first.json["hits"][0]["image_id"]
    assert said(run("search", "change it to a dog", "--like", cat, "-o", "json")) == [("words", "a dog"), ("picture", None)]
    literally = run("search", "change it to a dog", "--like", cat, "--no-phrases", "-o", "json")
    assert said(literally) == [("words", "change it to a dog"), ("picture", None)]
    refined = run("refine", "--with", "no people", "-o", "json")
    assert said(refined) == [("words", "change it to a dog"), ("picture", None), ("without", "people")]
    refined = run("refine", "--with", "no people", "--no-phrases", "-o", "json")
    assert said(refined)[-1] == ("words2", "no people")


def test_three_steps_of_refinement(run) -> None:
    first = run("search", "a cat", "--guides", "0", "-o", "json")
    assert first.code == 0, first.err
    rank = stems(first).index(Path(CAT).stem) + 1
    cat = first.json["hits"][rank - 1]["image_id"]
    second = run("refine", "--reference", str(rank), "--with", CUP, "--weight", "words2=4", "-o", "json")
    assert second.code == 0, second.err
    assert parts(second) == pytest.approx({"words": 0.8 / 5.8, "picture": 1 / 5.8, "words2": 4 / 5.8})
    assert stems(second)[0] == Path(COFFEE).stem
    explained(run, second)
    third = run("refine", "last", "--drop", "words", "--without", CUP, "--drop", "words2", "--diversity", "0.2", "-o", "json")
    assert third.code == 0, third.err
    assert set(parts(third)) == {"picture", "without"}
    assert Path(COFFEE).stem not in stems(third)[:3]
    explained(run, third)
    fourth = run("refine", third.json["query_id"][:8], "--like", "1", "--unlike", "2", "--region", "0,0,0.5,1", "-o", "json")
    assert fourth.code == 0, fourth.err
    assert set(parts(fourth)) == {"picture", "picture2", "without", "unlike"}
    listed = run("explain", "--list").out
    assert f"without {CUP}" in listed and f"a cat, {CUP}, like {cat[:8]}  (refines " in listed
    assert f"(refines {second.json['query_id'][:8]}: --without '{CUP}' --drop words --drop words2 --diversity 0.2)" in listed


def test_a_search_takes_pictures_beside_words(run, tmp_path: Path) -> None:
    for name in (CAT, ROCKET):
        photo(name).save(tmp_path / f"{Path(name).stem}.png")
    cat, rocket = (tmp_path / f"{Path(name).stem}.png" for name in (CAT, ROCKET))
    both = run("search", "--like", cat, "--like", rocket, "-o", "json")
    assert both.code == 0, both.err
    assert set(stems(both)[:2]) == {Path(CAT).stem, Path(ROCKET).stem}
    words = run("search", "coffee", "--like", cat, "--without", "dots", "--weight", "words=4", "--explain")
    assert words.code == 0, words.err
    assert "part words 0.73: coffee" in words.out and "of the score" in words.out
    further = run("refine", "--like", rocket, "-o", "json")
    assert set(parts(further)) == {"words", "picture", "picture2", "without"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("refine",), 2, "nothing is to be changed"),
        (("refine", "--with", "x", "--weight", "words"), 2, "is no part with a number"),
        (("refine", "--with", "x", "--region", "1,2"), 2, "is no region"),
        (("refine", "--like", "999"), 2, "no picture 999 was shown: the answer showed 10 pictures, 1 to 10"),
        (("refine", "--like", "nowhere.jpg"), 3, "holds no picture 'nowhere.jpg'"),
        (("refine", "--with", "x", "--weight", "sound=1"), 2, "no part 'sound'"),
        (("refine", "--with", "x", "--weight", "words=-1"), 2, "the weight of 'words' is -1"),
        (("refine", "--with", "x", "--weight", "words=nan"), 2, "is no part with a number"),
        (("refine", "--with", "x", "--weight", "words=inf"), 2, "is no part with a number"),
        (("refine", "--with", "x", "--region", "0,0,nan,1"), 2, "is no region"),
        (("refine", "--with", "x", "--region", "0,0,1,1,x"), 2, "is no region"),
        (("refine", "--with", "x", "--weight", "words=0", "--weight", "words2=0"), 2, "all weights are 0"),
        (("refine", "--drop", "words"), 2, "the query is empty"),
        (("refine", "--drop", "words", "--without", "dogs"), 2, "only what to avoid"),
        (("refine", "zzzz", "--with", "x"), 3, "zzzz"),
        (("search",), 2, "say what to look for"),
        (("search", "a", "--like", "nowhere.jpg"), 3, "no file"),
        (("search", "a", "--like", __file__), 10, "not a picture"),
        (("search", "a", "--like", photo_path(ROCKET), "--like", __file__), 10, "picture 2 of 2 that were sent: not a picture"),
        (("search", "a", "--unlike", "nowhere.jpg"), 3, "is no indexed picture"),
        (("search", "a", "--diversity", "2"), 2, "the diversity is 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(run, arguments, code, message) -> None:
    assert run("search", "a cat", "--guides", "0").code == 0
    refused = run(*arguments)
    assert (refused.code, message in refused.err) == (code, True), refused.err
    assert "hint" in refused.err or "lodestone" in refused.err or "e.g." in refused.err


@pytest.mark.usefixtures("folder")
def test_a_home_without_a_service_answers_too(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    index(settings_for(tmp_path), folder / "pictures", corpus="photos")
    found = run_here("search", CUP, "--like", folder / "pictures" / f"{Path(CAT).stem}.jpg", "-o", "json", home=home)
    assert found.code == 0, found.err
    refined = run_here("refine", "--without", "dots", "--weight", "words=3", "-o", "json", home=home)
    assert refined.code == 0, refined.err
    assert parts(refined) == {
        "picture": pytest.approx(1 / 4.5),
        "words": pytest.approx(3 / 4.5),
        "without": pytest.approx(0.5 / 4.5),
    }


def test_an_unknown_composition_names_those_that_there_are(run) -> None:
    found = run("search", CUP, "--like", photo_path(CAT), "--composition", "shoes", "-o", "json")
    assert found.code != 0
    assert "unknown composition 'shoes'" in found.err
    assert "default" in found.err
