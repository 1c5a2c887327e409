"""The gate judges what elementary methods found, says why, and calls complex what it cannot judge."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from lodestone.errors import ConfigurationError
from lodestone.query.deciding.gate import GateModel, Method, Term, features


def method(name: str, *ids: str, scores: list[float] | None = None) -> Method:
    return Method(name, ids, np.array([0.9 - 0.1 * place for place in range(len(ids))] if scores is None else scores))


MODEL = GateModel(
    intercept=0.5,
    terms={
        "bridge.answered": Term(1, 1, 0.0),
        "labels.answered": Term(0.5, 0.5, 0.0),
        "bridge.best": Term(0.5, 0.1, 0.1),
        "bridge&labels": Term(0.3, 0.2, 0.05),
    },
    threshold=0.6,
)


def test_features_are_what_the_first_results_of_each_method_look_like() -> None:
    found = features([method("b", "x", "y", scores=[0.8, 0.4]), method("a", "x", "z", "y", scores=[0.9, 0.7, 0.2])], k=2)

    assert found == pytest.approx(
        {
            "a.answered": 1,
            "a.best": 0.9,
            "a.mean": 0.8,
            "a.std": 0.1,
            "a.lead": 0.2,
            "b.answered": 1,
            "b.best": 0.8,
            "b.mean": 0.6,
            "b.std": 0.2,
            "b.lead": 0.4,
            "a&b": 1 / 3,
            "a&b.first": 1,
        }
    )


def test_features_do_not_depend_on_the_order_of_the_methods() -> None:
    methods = [method("b", "x", "y"), method("a", "y"), method("c")]

    assert features(methods) == features(methods[::-1])


def test_method_that_found_nothing_says_only_that() -> None:
    found = features([method("tags"), method("bridge", "x")])

    assert found["tags.answered"] == 0
    assert not [name for name in found if "tags" in name and name != "tags.answered"]


def test_strong_agreeing_methods_make_a_simple_query_and_weak_ones_a_complex_one() -> None:
    strong = MODEL.decide([method("bridge", "x", "y", scores=[0.8, 0.7]), method("labels", "x", "y")])
    weak = MODEL.decide([method("bridge", "x", "y", scores=[0.4, 0.3]), method("labels", "p", "q")])

    assert (strong.verdict, weak.verdict) == ("simple", "complex")
    assert strong.predicted_ap > 0.6 > weak.predicted_ap
    assert strong.features["bridge.best"] == pytest.approx(0.8)
    assert strong.model == MODEL.version


def test_reason_names_what_spoke_most_for_the_verdict() -> None:
    weak = MODEL.decide([method("bridge", "x", scores=[0.3]), method("labels", "y")])

    assert weak.why.startswith("complex: the text pass should reach")
    assert "the best match in bridge is weak" in weak.why
    assert "bridge and labels find different pictures" in weak.why


def test_threshold_of_the_caller_replaces_the_fitted_one() -> None:
    methods = [method("bridge", "x", scores=[0.5])]

    assert MODEL.decide(methods, threshold=0.4).verdict == "simple"
    assert MODEL.decide(methods, threshold=0.7).verdict == "complex"
    assert MODEL.decide(methods, threshold=0.7).threshold == 0.7


@pytest.mark.parametrize(("predicted", "verdict"), [(0.6, "simple"), (0.5999, "complex")])
def test_a_prediction_of_exactly_the_threshold_is_simple(predicted: float, verdict: str) -> None:
    exact = GateModel(intercept=predicted, terms={"bridge.answered": Term(1, 1, 0.0)}, threshold=0.6)

    assert exact.decide([method("bridge", "x")]).verdict == verdict


@pytest.mark.parametrize(
    "methods",
    [
        [],
        [method("bridge"), method("labels")],
        [method("bridge", "x", scores=[math.nan])],
        [method("bridge", "x", scores=[0.9]), method("labels", "y", scores=[math.inf])],
        [method("bridge", "x", "y", scores=[0.9])],
        [method("unheard-of", "x")],
    ],
    ids=["no methods", "nothing found", "nan", "infinite", "scores missing", "unknown method"],
)
def test_what_cannot_be_judged_is_complex(methods: list[Method]) -> None:
    decision = MODEL.decide(methods, threshold=0.0)

    assert decision.verdict == "complex"
    assert decision.predicted_ap == 0
    assert decision.why.startswith("complex: ")


def test_missing_method_counts_as_an_average_one() -> None:
    alone = MODEL.decide([method("bridge", "x", scores=[0.5])])

    assert alone.predicted_ap == pytest.approx(0.5)


def test_prediction_stays_a_precision_however_extreme_the_scores() -> None:
    assert MODEL.decide([method("bridge", "x", scores=[1e9])]).predicted_ap == 1
    assert MODEL.decide([method("bridge", "x", scores=[-1e9])]).predicted_ap == 0


def test_saved_model_decides_alike(tmp_path: Path) -> None:
    path = MODEL.save(tmp_path)
    loaded = GateModel.load(path)

    assert path.name == f"gate-{MODEL.version}.json"
    assert loaded == MODEL
    assert loaded.version == MODEL.version
    assert replace(MODEL, threshold=0.7).version != MODEL.version


@pytest.mark.parametrize("damage", ["not json", "{}", '{"format": 99}', "spread", "nan", "k"])
def test_damaged_model_is_refused(tmp_path: Path, damage: str) -> None:
    path = MODEL.save(tmp_path)
    content = json.loads(path.read_text())
    if damage == "spread":
        content["terms"]["bridge.best"]["spread"] = 0
    elif damage == "nan":
        content["intercept"] = math.nan
    elif damage == "k":
        content["k"] = 0
    path.write_text(json.dumps(content) if damage in {"spread", "nan", "k"} else damage)

    with pytest.raises(ConfigurationError) as caught:
        GateModel.load(path)
    assert str(path) in caught.value.message or "format" in caught.value.message


def test_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        GateModel.load(tmp_path / "gate.json")


def test_shipped_model_knows_the_embedded_profile_and_says_where_it_comes_from() -> None:
    model = GateModel.shipped()

    assert {"bridge", "labels", "captions", "tags"} <= model.methods
    assert 0 < model.threshold < 1
    assert "research" in model.provenance["licence_notice"]


def test_shipped_model_trusts_agreement_and_exact_tags() -> None:
    model = GateModel.shipped()
    ids = [f"p{number}" for number in range(20)]
    bridge = method("bridge", *ids, scores=list(np.linspace(0.25, 0.1, 20)))
    other = method("captions", *[f"q{number}" for number in range(20)], scores=list(np.linspace(0.5, 0.3, 20)))
    alike = method("captions", *ids, scores=list(np.linspace(0.9, 0.3, 20)))
    plain = model.decide([bridge, other]).predicted_ap

    assert model.decide([bridge, alike]).predicted_ap > plain
    assert model.decide([bridge, other, method("tags", "p0", scores=[1.0])]).predicted_ap > plain


@pytest.mark.parametrize("names", [("bridge",), ("labels",), ("bridge", "labels"), ("captions", "tags")])
def test_shipped_model_judges_whatever_methods_there_are(names: tuple[str, ...]) -> None:
    decision = GateModel.shipped().decide([method(name, "x", "y", "z") for name in names])

    assert 0 <= decision.predicted_ap <= 1
    assert "nan" not in decision.why


def test_deciding_looks_at_the_first_results_alone_however_long_the_lists_are() -> None:
    """What it costs depends on k: lists of a hundred thousand pictures are decided on by their first ten."""
    model = GateModel.shipped()

    class Counted(tuple[str, ...]):
        """Ids that count how many of them are looked at."""

        __slots__ = ()
        looks: ClassVar[int] = 0

        def __getitem__(self, place: Any) -> Any:
            found = super().__getitem__(place)
            Counted.looks += len(found) if isinstance(place, slice) else 1
            return found

        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("all ids were gone through")

    ids = Counted(str(number) for number in range(100_000))
    scores = np.linspace(1, 0, len(ids))
    names = ("bridge", "labels", "captions", "tags")
    long = model.decide([Method(name, ids, scores) for name in names])
    short = model.decide([Method(name, tuple(str(number) for number in range(10)), scores[:10]) for name in names])

    assert Counted.looks == len(names) * 11  # the first ten for the overlaps, the first one for the leader
    assert (long.predicted_ap, long.features) == (short.predicted_ap, short.features)


def test_of_threshold_one_no_query_is_simple_not_even_one_predicted_perfect() -> None:
    perfect = GateModel(intercept=7.0, terms={"bridge.answered": Term(1, 1, 0.0)}, threshold=0.5)
    found = [method("bridge", "x", "y")]

    assert (perfect.decide(found).verdict, perfect.decide(found).predicted_ap) == ("simple", 1.0)
    judged = perfect.decide(found, threshold=1.0)
    assert (judged.verdict, judged.predicted_ap) == ("complex", 1.0)
    assert judged.why == "complex: with threshold 1 every query is"
