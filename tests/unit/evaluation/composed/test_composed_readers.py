"""Benchmarks of composed queries in their published layouts: what is read and counted, and metrics as worked out by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.composed_fixtures import COMPOSED_LAYOUTS
from tests.support.eval_fixtures import write_json, write_text

from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError
from lodestone_eval.composed.answers import ComposedAnswer, evaluate_composed, rank_all
from lodestone_eval.composed.queries import ComposedQuery
from lodestone_eval.registry import COMPOSED_BENCHMARKS, read_composed


def _always(order: Sequence[str]) -> ComposedAnswer:
    return lambda query, depth: order


@pytest.mark.parametrize("name", COMPOSED_LAYOUTS)
def test_the_published_layout_is_read_and_measured_as_by_hand(name: str, tmp_path: Path) -> None:
    expected = COMPOSED_LAYOUTS[name](tmp_path)
    found = read_composed(name, tmp_path)

    assert (found.name, len(found.queries), dict(found.skipped)) == (name, expected.queries, expected.skipped)
    assert set(expected.order) == set(found.pictures)
    report = evaluate_composed(found, _always(expected.order), method="fixed", metrics=tuple(expected.metrics))
    means = {group.name: {metric: value.mean for metric, value in group.metrics.items()} for group in report.groups}
    assert means["all"] == pytest.approx(expected.metrics)
    for group, metrics in expected.groups.items():
        assert {metric: means[group][metric] for metric in metrics} == pytest.approx(metrics), group
    assert set(found.metrics) == set(evaluate_composed(found, _always(expected.order), method="fixed").values)


def test_every_benchmark_has_a_fixture() -> None:
    assert set(COMPOSED_LAYOUTS) == set(COMPOSED_BENCHMARKS)


@pytest.mark.parametrize("name", COMPOSED_BENCHMARKS)
def test_an_empty_folder_is_told_what_is_missing_and_how_it_should_lie(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        read_composed(name, tmp_path)
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint.startswith("expected: DIR/")


@pytest.mark.parametrize("name", COMPOSED_LAYOUTS)
def test_pictures_that_were_not_downloaded_are_named(name: str, tmp_path: Path) -> None:
    COMPOSED_LAYOUTS[name](tmp_path)
    for path in tmp_path.rglob("*"):
        if path.suffix in {".jpg", ".png"}:
            path.unlink()
    with pytest.raises(NotFoundError) as caught:
        read_composed(name, tmp_path)
    assert "DIR/" in caught.value.hint


@pytest.mark.parametrize("name", [name for name in COMPOSED_LAYOUTS if name != "mit-states"])
@pytest.mark.parametrize(
    "content", ["", "[1, 2", "null", '{"images": 5, "annotations": [[]]}', '[[], 5, {"id": []}]', "\xff\xfe"]
)
def test_damaged_annotations_are_refused(name: str, content: str, tmp_path: Path) -> None:
    COMPOSED_LAYOUTS[name](tmp_path)
    for path in tmp_path.rglob("*"):
        if path.suffix in {".json", ".txt", ".csv"} and path.name != "attr_names.txt":
            path.write_bytes(content.encode("latin-1"))
    with pytest.raises((InvalidRequestError, NotFoundError)):
        read_composed(name, tmp_path)


@pytest.mark.parametrize("name", ["fashioniq", "cirr", "circo", "coco-parts"])
def test_rows_of_another_shape_are_counted_and_the_rest_is_read(name: str, tmp_path: Path) -> None:
    expected = COMPOSED_LAYOUTS[name](tmp_path)
    strange: list[Any] = [
        5,
        None,
        [],
        {},
        {"reference": [], "candidate": {}, "target": [], "images": {}, "gt_img_ids": 3, "captions": [[]]},
    ]
    files = {"circo": "annotations/val.json", "cirr": "captions/cap.rc2.val.json", "fashioniq": "captions/cap.dress.val.json"}
    path = tmp_path / files.get(name, "3_test_cases.json")
    table = json.loads(path.read_text())
    (table["image_text_image"] if name == "coco-parts" else table).extend(strange)
    write_json(path, table)

    found = read_composed(name, tmp_path)

    assert len(found.queries) == expected.queries
    assert found.skipped["malformed rows"] == expected.skipped.get("malformed rows", 0) + len(strange)


def test_an_unknown_benchmark_and_an_unknown_split_list_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError) as caught:
        read_composed("imagenet", tmp_path)
    assert "cirr" in caught.value.hint
    with pytest.raises(InvalidRequestError) as refused:
        read_composed("cirr", tmp_path, split="test")
    assert "test1" in refused.value.hint


def test_mit_states_asks_for_every_other_state_and_leaves_the_reference_out(tmp_path: Path) -> None:
    COMPOSED_LAYOUTS["mit-states"](tmp_path)
    first, *_ = read_composed("mit-states", tmp_path).queries
    assert first.words == ("moldy",)
    assert first.relevant == {"moldy cheese/1.jpg", "moldy cheese/2.jpg"}
    assert first.excluded == {"fresh cheese/1.jpg"}
    train = read_composed("mit-states", tmp_path, split="train")
    assert set(train.pictures) == {"sliced apple/1.jpg", "whole apple/1.jpg"}
    paper = read_composed("mit-states", tmp_path, split="must")
    assert (len(paper.pictures), len(paper.queries)) == (5, 3)  # all pictures, and the queries of the test nouns
    assert paper.texts["sliced apple/1.jpg"] == "sliced apple"


def test_celeba_asks_for_the_same_person_with_more_attributes(tmp_path: Path) -> None:
    COMPOSED_LAYOUTS["celeba"](tmp_path)
    found = read_composed("celeba", tmp_path)
    queries = {query.query_id: query for query in found.queries}
    assert queries["000002.jpg"].words == ("wearing hat",)
    assert queries["000002.jpg"].relevant == {"000003.jpg"}
    assert queries["000001.jpg"].words[0] in {"smiling", "smiling and wearing hat"}
    assert found.texts["000003.jpg"] == "smiling, wearing hat"
    assert "000007.jpg" in read_composed("celeba", tmp_path, split="must").pictures
    assert read_composed("celeba+", tmp_path).picture_spaces == 3


def test_shopping_names_what_replaces_what_and_numbers_what_has_no_name(tmp_path: Path) -> None:
    COMPOSED_LAYOUTS["shopping100k"](tmp_path)
    first, second = read_composed("shopping100k", tmp_path).queries
    assert first.words == ("replace gray color with white color",)
    assert first.relevant == {"Img/b.jpg", "Img/d.jpg"}
    assert first.labels == ("t-shirt",)
    assert second.words == ("replace white color with gray color",)
    names = tmp_path / "splits" / "Shopping100k" / "attr_names.txt"
    write_text(names, "t-shirt\n")
    with pytest.raises(InvalidRequestError, match="names 1 columns"):
        read_composed("shopping100k", tmp_path)
    names.unlink()
    assert read_composed("shopping100k", tmp_path).queries[0].words == (
        "replace value 1 of attribute 2 with value 2 of attribute 2",
    )
    write_text(names.with_name("gt_test.txt"), "1 0 0 1\n")
    with pytest.raises(InvalidRequestError, match=r"ref_test\.txt.*3 lines"):
        read_composed("shopping100k", tmp_path)


def test_a_part_of_a_coco_query_is_a_region_or_a_name(tmp_path: Path) -> None:
    COMPOSED_LAYOUTS["coco-parts"](tmp_path)
    (query,) = read_composed("coco-parts", tmp_path).queries
    assert query.words == ("cat",)
    assert [(picture.path.name, picture.region) for picture in query.pictures] == [
        ("000000000009.jpg", (1.0, 2.0, 30.0, 40.0)),
        ("000000000003.jpg", (1.0, 2.0, 30.0, 40.0)),
    ]
    every = read_composed("coco-parts", tmp_path, split="test-all").queries
    assert [(one.labels, one.words, len(one.pictures)) for one in every] == [
        (("image_text_image",), ("cat",), 2),
        (("text_text_text",), ("person", "cat", "cup"), 0),
    ]


def test_splits_without_a_published_truth_are_read(tmp_path: Path) -> None:
    COMPOSED_LAYOUTS["cirr"](tmp_path)
    rows = json.loads((tmp_path / "captions" / "cap.rc2.val.json").read_text())
    write_json(
        tmp_path / "captions" / "cap.rc2.test1.json", [{k: v for k, v in row.items() if k != "target_hard"} for row in rows]
    )
    members = json.loads((tmp_path / "image_splits" / "split.rc2.val.json").read_text())
    write_json(tmp_path / "image_splits" / "split.rc2.test1.json", members)
    found = read_composed("cirr", tmp_path, split="test1")
    assert (len(found.queries), found.has_truth) == (2, False)


def test_no_file_may_name_pictures_outside_the_benchmark(tmp_path: Path) -> None:
    root = tmp_path / "cirr"
    COMPOSED_LAYOUTS["cirr"](root)
    (tmp_path / "secret.png").write_bytes(b"secret")
    path = root / "image_splits" / "split.rc2.val.json"
    write_json(path, json.loads(path.read_text()) | {"dev-9-9-img9": "../../secret.png"})
    found = read_composed("cirr", root)
    assert len(found.pictures) == 6
    assert found.skipped["malformed rows"] == 2


def test_an_answer_s_repetitions_and_foreign_pictures_take_no_place(tmp_path: Path) -> None:
    expected = COMPOSED_LAYOUTS["icir"](tmp_path)
    found = read_composed("icir", tmp_path)
    asked: list[ComposedQuery] = []

    def answer(query: ComposedQuery, depth: int | None) -> list[str]:
        asked.append(query)
        return ["nowhere.jpg", *expected.order, *expected.order][: None if depth is None else depth + 4]

    rankings, milliseconds, failures = rank_all(found, answer, depth=2)
    assert rankings == [["database/a2.jpg", "database/a1.jpg"], ["database/b1.jpg"]]
    assert (len(milliseconds), len(failures)) == (2, 0)
    assert found.sampled(1) == found.sampled(1)
    assert len(found.sampled(1).queries) == 1


def test_a_failed_query_is_counted_and_one_that_always_fails_is_an_error(tmp_path: Path) -> None:
    expected = COMPOSED_LAYOUTS["cirr"](tmp_path)
    found = read_composed("cirr", tmp_path)

    def fails_once(query: ComposedQuery, depth: int | None) -> Sequence[str]:
        if query.query_id == "13":
            raise InvalidRequestError("the reference cannot be decoded")
        return expected.order

    report = evaluate_composed(found, fails_once, method="fragile", metrics=("recall@5(1)",))
    assert report.values == {"recall@5(1)": [1.0, None]}
    assert report.failures == {"invalid_request": 1}

    def fails(query: ComposedQuery, depth: int | None) -> Sequence[str]:
        raise InvalidRequestError("no")

    with pytest.raises(InvalidRequestError):
        evaluate_composed(found, fails, method="broken")
