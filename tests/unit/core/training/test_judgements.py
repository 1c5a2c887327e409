"""Judgements from tables, JSON and feedback are read or refused, and a gate is fitted to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.use_records import QueryRecord
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError, InvalidRequestError
from lodestone.home.runtime import Runtime
from lodestone.query.deciding.gate import GateModel
from lodestone.query_log.trace import Trace
from lodestone.retrieval.fusion import FusedList, RankedList
from lodestone.training.judgements import observations_of_feedback, precision_of, read_judgements, resolve
from lodestone.training.retrain_gate import TRAINING, train_complexity
from lodestone_schemas.api import GateDecision


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_table_and_json_say_the_same(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", 'query\tfile\na dog\ta.jpg\na dog\tb.jpg\n\n"quoted" cat\tc.jpg\n')
    commas = write(tmp_path / "a.csv", 'query,file\na dog,a.jpg\na dog,b.jpg\n"""quoted"" cat",c.jpg\n')
    tree = write(tmp_path / "a.json", '{"a dog": ["a.jpg", "b.jpg"], "\\"quoted\\" cat": ["c.jpg"], "nothing": []}')

    expected = {"a dog": ["a.jpg", "b.jpg"], '"quoted" cat': ["c.jpg"]}
    assert read_judgements(table) == read_judgements(commas) == read_judgements(tree) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", ""),
        ("a.tsv", "query\tfile\n"),
        ("a.tsv", "file\tcaption\nx\ty\n"),
        ("a.tsv", "query\tfile\na dog\n"),
        ("a.tsv", "query\tfile\n\ta.jpg\n"),
        ("a.json", "[1, 2]"),
        ("a.json", '{"a dog": "a.jpg"}'),
        ("a.json", "{"),
    ],
)
def test_what_is_no_judgement_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        read_judgements(write(tmp_path / name, text))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError):
        read_judgements(tmp_path / "none.tsv")


def test_pictures_are_named_by_path_bare_name_or_id(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    one, two, twin = (picture(root, uri) for uri in ("summer/one.jpg", "two.jpg", "winter/two.jpg"))
    catalog.add_images([one, two, twin])

    judged, unknown = resolve(
        {"a  dog": ["one.jpg", "summer/one.jpg"], "a cat": [two.image_id], "twins": ["two.jpg", "gone.jpg"]}, catalog
    )

    assert [(query.text, set(query.relevant)) for query in judged] == [("a dog", {one.image_id}), ("a cat", {two.image_id})]
    assert unknown == ["gone.jpg", "two.jpg"]


def test_precision_counts_what_was_never_found() -> None:
    assert precision_of(["a", "b", "c"], frozenset({"a", "c"})) == pytest.approx((1 + 2 / 3) / 2)
    assert precision_of(["a"], frozenset({"a", "z"})) == pytest.approx(0.5)
    assert precision_of([], frozenset({"z"})) == 0


def record(catalog: Catalog, query_id: str, *, stage: str = "guides", features: dict[str, float] | None = None) -> None:
    """A recorded answer: the text pass put b first, guides put a first."""
    text = RankedList("text", "bridge", 1.0, ("b", "a"), np.array([0.5, 0.4], np.float32))
    captions = RankedList("text", "captions", 9.0, ("a",), np.array([3.0], np.float32))  # of the guided stage, in spreads
    trace = Trace(
        query_id=query_id,
        created_at=datetime(2024, 5, 1, tzinfo=UTC),
        kind="words",
        text=f"query {query_id}",
        request={},
        plan={},
        fusion="mean_distance",
        depths=(100,),
        space_weights={"bridge": 1.0},
        ranking=FusedList(("a", "b"), np.array([1.0, 0.5])),
        gate=None
        if features is None
        else GateDecision(verdict="complex", predicted_ap=0.1, threshold=0.5, why="", features=features),
        lists=(text, RankedList("exemplar/0", "bridge", 0.5, ("a",), np.array([0.9], np.float32)), captions),
        stage=stage,
    )
    catalog.add_query(QueryRecord(query_id, trace.created_at, "words", trace.text, None, {}, trace.to_bytes()), 1_000)


def test_feedback_says_what_text_pass_and_guides_were_worth(catalog: Catalog) -> None:
    record(catalog, "q1", features={"bridge.best": 0.5})
    record(catalog, "q2", stage="text")
    record(catalog, "q3")
    catalog.add_feedback("q1", ["a"], [], 0.2)
    catalog.add_feedback("q2", ["b"], [], 0.2)
    catalog.add_feedback("q3", [], ["a"], 0.2)
    catalog.add_feedback("forgotten", ["a"], [], 0.2)

    first, second = observations_of_feedback(catalog)

    assert (first.features, first.ap, first.guided) == ({"bridge.best": 0.5}, 0.5, 1.0)
    assert (second.ap, second.guided) == (1.0, None)
    assert second.features["bridge.best"] == pytest.approx(0.5)
    assert not [name for name in second.features if "captions" in name]


@dataclass
class Home:
    """Settings for a home in a folder."""

    folder: Path
    changed: dict[str, object] = field(default_factory=lambda: dict(TRAINING))

    def runtime(self) -> Runtime:
        return Runtime.open(Settings(home=self.folder / "home", **self.changed))  # type: ignore[arg-type]


def test_gate_fitted_from_feedback_is_kept_and_in_force(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Home(tmp_path).runtime() as runtime:
        for number in range(40):
            record(runtime.catalog, f"q{number}", features={"bridge.answered": 1.0, "bridge.best": float(rng.random())})
            runtime.catalog.add_feedback(f"q{number}", ["a" if number % 2 else "b"], [], 0.2)

        dry = train_complexity(runtime, None, dry_run=True)
        assert not dry.promoted
        assert runtime.gate().version == GateModel.shipped().version

        report = train_complexity(runtime, None)

        assert (report.judged, report.feedback, report.promoted) == (0, 40, True)
        assert runtime.gate().version == report.fit.version == dry.fit.version
        assert runtime.gate().provenance["profile"] in PROFILES


def test_too_little_to_learn_from_changes_nothing(tmp_path: Path) -> None:
    with Home(tmp_path).runtime() as runtime:
        with pytest.raises(InvalidRequestError, match="0 judged queries"):
            train_complexity(runtime, None)
        assert runtime.catalog.active_artifact("gate") is None


def test_home_that_would_learn_from_the_training_queries_is_refused(tmp_path: Path) -> None:
    with Home(tmp_path, {}).runtime() as runtime, pytest.raises(ConfigurationError, match="opened"):
        train_complexity(runtime, {"a dog": ["a.jpg"]})
