"""Benchmarks in their published layouts: what is read, what is counted, and what an incomplete folder is told."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support import eval_fixtures
from tests.support.eval_fixtures import LAYOUTS, write_json, write_text

from lodestone.errors import InvalidRequestError, LodestoneError, NotFoundError, UnknownNameError
from lodestone_eval.datasets.base import EvalQuery, EvalSet, safe_name
from lodestone_eval.registry import BENCHMARKS, read_benchmark


def _read(fixture: str, root: Path, split: str | None = None) -> EvalSet:
    name, write = LAYOUTS[fixture]
    write(root)
    return read_benchmark(name, root, split=split)


@pytest.mark.parametrize("fixture", LAYOUTS)
def test_reads_the_published_layout_and_counts_what_it_leaves_out(fixture: str, tmp_path: Path) -> None:
    name, write = LAYOUTS[fixture]
    expected = write(tmp_path)
    found = read_benchmark(name, tmp_path)
    assert found.name == name
    assert len(found.queries) + len(found.pairs) == expected.queries
    assert dict(found.skipped) == expected.skipped
    assert all(path.is_file() for path in found.pictures.values())
    assert all(query.relevant and query.relevant <= found.pictures.keys() for query in found.queries)


def test_a_query_among_fewer_pictures_keeps_those_that_are_there() -> None:
    checked = EvalQuery("1", "a dog", frozenset("abc"), frozenset("abcde"))
    everything = EvalQuery("2", "a cat", frozenset("a"))

    for names in ({"b", "d", "x"}, {"b": 1, "d": 2}):
        assert checked.among(names) == EvalQuery("1", "a dog", frozenset("b"), frozenset("bd"))
        assert everything.among(names) == EvalQuery("2", "a cat", frozenset())


def test_a_folder_may_be_below_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    name, write = LAYOUTS["captions"]
    (tmp_path / "set").mkdir()
    expected = write(tmp_path / "set")

    assert len(read_benchmark(name, Path("~/set")).queries) == expected.queries


def test_every_benchmark_has_a_fixture() -> None:
    assert {name for name, _ in LAYOUTS.values()} == set(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_empty_folder_is_told_what_is_missing_and_how_it_should_lie(name: str, tmp_path: Path) -> None:
    with pytest.raises(LodestoneError) as caught:
        read_benchmark(name, tmp_path)
    assert isinstance(caught.value, NotFoundError)
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint.startswith("expected: DIR/")


@pytest.mark.parametrize("fixture", LAYOUTS)
def test_pictures_that_were_not_downloaded_are_named(fixture: str, tmp_path: Path) -> None:
    name, write = LAYOUTS[fixture]
    write(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.suffix in {".jpg", ".png"}:
            path.unlink()
    with pytest.raises(NotFoundError) as caught:
        read_benchmark(name, tmp_path)
    assert "DIR/" in caught.value.hint


@pytest.mark.parametrize("fixture", [fixture for fixture in LAYOUTS if fixture not in {"caltech256", "names", "captions"}])
@pytest.mark.parametrize("content", ["", "[1, 2", "null", '{"images": 5, "annotations": 5}', "\xff\xfe"])
def test_a_damaged_annotation_file_is_named(fixture: str, content: str, tmp_path: Path) -> None:
    name, write = LAYOUTS[fixture]
    write(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.suffix in {".json", ".jsonl", ".token"} or "token" in path.name:
            path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidRequestError):
        read_benchmark(name, tmp_path)


def test_an_unknown_benchmark_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError) as caught:
        read_benchmark("imagenet", tmp_path)
    assert "winoground" in caught.value.hint


def test_an_unknown_split_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        _read("flickr8k", tmp_path, split="dev")
    assert "test" in caught.value.hint


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.jpg", "a/../../b.jpg", "", "a\0b", "a\\b", None, 5])
def test_names_that_leave_their_folder_are_refused(name: object) -> None:
    assert safe_name(name) is None


def test_a_file_may_not_name_pictures_outside_the_benchmark(tmp_path: Path) -> None:
    root = tmp_path / "coco"
    eval_fixtures.coco_captions(root)
    shutil.copy(root / "val2017" / "000000000139.jpg", tmp_path / "secret.jpg")
    path = root / "annotations" / "captions_val2017.json"
    table = json.loads(path.read_text())
    table["images"].append({"id": 3, "file_name": "../../secret.jpg"})
    table["annotations"].append({"id": 9, "image_id": 3, "caption": "a secret"})
    write_json(path, table)
    found = read_benchmark("coco-captions", root)
    assert len(found.pictures) == 2
    assert found.skipped["malformed rows"] == 4


def test_caltech_names_are_words_and_clutter_is_no_query(tmp_path: Path) -> None:
    found = _read("caltech256", tmp_path)
    assert [(query.query_id, query.text) for query in found.queries] == [
        ("001.cat", "cat"),
        ("002.coffee-mug-101", "coffee mug"),
    ]


def test_lvis_knows_which_pictures_were_looked_at(tmp_path: Path) -> None:
    cat, cup = _read("lvis", tmp_path).queries
    assert (cat.text, cat.label) == ("cat", "frequent")
    assert (cup.text, cup.label, cup.query_id) == ("coffee cup drink", "rare", "coffee_cup_(drink)")
    assert cat.judged == {"val2017/000000397133.jpg", "val2017/000000037777.jpg"}  # with it, and known to be without
    assert cup.judged == cup.relevant == {"val2017/000000397133.jpg"}


def test_nocaps_can_be_cut_to_a_domain(tmp_path: Path) -> None:
    found = _read("nocaps", tmp_path, split="in-domain")
    assert (len(found.pictures), len(found.queries), dict(found.skipped)) == (1, 1, {})


def test_senticap_reads_the_csv_too(tmp_path: Path) -> None:
    eval_fixtures.senticap(tmp_path)
    (tmp_path / "data" / "senticap_dataset.json").unlink()
    rows = ["filename,is_positive_sentiment,caption"]
    rows += [
        'COCO_val2014_000000000042.jpg,1,"a cute cat, asleep"',
        "COCO_val2014_000000000073.jpg,0,a nasty cup",
        "x.jpg,2,no",
    ]
    write_text(tmp_path / "data" / "senticap_dataset.csv", "\n".join(rows) + "\n")
    found = read_benchmark("senticap", tmp_path)
    assert [(query.text, query.label) for query in found.queries] == [
        ("a cute cat, asleep", "positive"),
        ("a nasty cup", "negative"),
    ]
    assert found.skipped == {"malformed rows": 1}
    with pytest.raises(NotFoundError, match="json"):
        read_benchmark("senticap", tmp_path, split="val")


def test_flickr8k_takes_the_split_s_pictures_alone(tmp_path: Path) -> None:
    eval_fixtures.flickr8k(tmp_path)
    write_text(tmp_path / "Flickr_8k.testImages.txt", "1000268201_693b08cb0e.jpg\n")
    found = read_benchmark("flickr8k", tmp_path)
    assert list(found.pictures) == ["1000268201_693b08cb0e.jpg"]
    assert found.captions == {"1000268201_693b08cb0e.jpg": ("a cat .", "a cup of coffee on a saucer .")}
    assert len(read_benchmark("flickr8k", tmp_path, split="all").pictures) == 1  # the other has no caption


def test_flickr30k_has_splits_in_karpathys_file_alone(tmp_path: Path) -> None:
    eval_fixtures.flickr30k(tmp_path)
    with pytest.raises(NotFoundError, match="dataset_flickr30k"):
        read_benchmark("flickr30k", tmp_path, split="test")
    assert read_benchmark("flickr30k", tmp_path).split == "all"


def test_pictures_of_a_pair_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    found = _read("cola", tmp_path)
    assert [pair.pictures for pair in found.pairs] == [
        ("pair_0000/2414605.jpg", "pair_0000/2414606.jpg"),
        ("pair_0001/2414606.jpg", "pair_0001/2414605.jpg"),
    ]
    assert found.pictures["pair_0000/2414605.jpg"] == found.pictures["pair_0001/2414605.jpg"]


def test_plain_captions_are_split_by_hash(tmp_path: Path) -> None:
    for number in range(24):
        eval_fixtures.save_photo(eval_fixtures.CAT, tmp_path / f"{number}.jpg") if number == 0 else shutil.copy(
            tmp_path / "0.jpg", tmp_path / f"{number}.jpg"
        )
    write_text(tmp_path / "captions.tsv", "file\tcaption\n" + "".join(f"{n}.jpg\tcaption {n}\n" for n in range(24)))
    parts = {
        split: set(read_benchmark("captions", tmp_path, split=split).pictures) for split in ("train", "validation", "test")
    }
    assert [len(part) for part in parts.values()] == [18, 2, 4]
    assert not parts["train"] & parts["test"]
