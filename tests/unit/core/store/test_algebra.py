"""Set algebra of filters, compared with sets of points that are evaluated one by one."""

from __future__ import annotations

import random
from itertools import product

import pytest

from lodestone.store.algebra import EVERY_POINT, NO_POINT, all_of, any_of, by_owner, complement, fields_of
from lodestone.store.base import AnyOf, Between, Condition, Filter, HasId, MatchAny

POINTS = [{"id": f"{row}", "a": a, "b": b} for row, (a, b) in enumerate(product("xyz", (None, 1, 2, 3)))]


def holds(condition: Condition, point: dict) -> bool:
    match condition:
        case MatchAny(field, values):
            return point[field] in values
        case Between(field, gte, lt, None):
            value = point[field]
            return value is not None and (gte is None or value >= gte) and (lt is None or value < lt)
        case HasId(ids):
            return point["id"] in ids
        case AnyOf(filters):
            return any(point["id"] in matched(one) for one in filters)
    raise AssertionError(condition)


def matched(filter_: Filter) -> set[str]:
    return {
        point["id"]
        for point in POINTS
        if all(holds(one, point) for one in filter_.must) and not any(holds(one, point) for one in filter_.must_not)
    }


def random_filter(rng: random.Random) -> Filter:
    conditions = [
        MatchAny("a", tuple(rng.sample("xyz", rng.randint(0, 2)))),
        Between("b", gte=rng.choice([None, 2]), lt=rng.choice([None, 3])),
        HasId(tuple(rng.sample([point["id"] for point in POINTS], rng.randint(0, 5)))),
    ]
    return Filter(tuple(rng.sample(conditions, rng.randint(0, 2))), tuple(rng.sample(conditions, rng.randint(0, 2))))


def test_random_expressions_match_what_sets_of_points_say():
    rng, everything = random.Random(5), {point["id"] for point in POINTS}
    known = [(one, matched(one)) for one in (EVERY_POINT, NO_POINT, *(random_filter(rng) for _ in range(20)))]
    assert [ids for _, ids in known[:2]] == [everything, set()]
    for _ in range(500):
        chosen = rng.sample(known, rng.randint(0, 3))
        filters, ids = [one for one, _ in chosen], [ids for _, ids in chosen]
        made = rng.choice(
            [
                (all_of(filters), everything.intersection(*ids)),
                (any_of(filters), set().union(*ids)),
                *((complement(filters[0]), everything - ids[0]) for _ in ids[:1]),
            ]
        )
        assert matched(made[0]) == made[1], filters
        if len(known) < 60:  # expressions of expressions, and no deeper ones
            known.append(made)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            complement(complement(Filter((HasId(("a",)),), (MatchAny("b", ("c",)),)))),
            Filter((HasId(("a",)),), (MatchAny("b", ("c",)),)),
        ),
        (complement(Filter(must=(HasId(("a",)),))), Filter(must_not=(HasId(("a",)),))),
        (complement(complement(Filter(must=(HasId(("a",)),)))), Filter(must=(HasId(("a",)),))),
        (complement(Filter(must=(AnyOf((Filter(must=(HasId(("a",)),)),)),))), Filter(must_not=(HasId(("a",)),))),
        (
            complement(Filter(must_not=(AnyOf((Filter(must=(HasId(("a",)),)), Filter(must=(HasId(("b",)),)))),))),
            Filter(must=(AnyOf((Filter(must=(HasId(("a",)),)), Filter(must=(HasId(("b",)),)))),)),
        ),
        (all_of([Filter(must=(HasId(("a",)),))] * 2), Filter(must=(HasId(("a",)),))),
        (any_of([Filter(must=(HasId(("a",)),))] * 2), Filter(must=(HasId(("a",)),))),
        (any_of([Filter(must=(HasId(("a",)),)), EVERY_POINT]), EVERY_POINT),
    ],
)
def test_simple_expressions_stay_simple(made, expected):
    assert made == expected


def test_a_filter_of_pictures_becomes_one_of_the_points_that_belong_to_them():
    conditions = (HasId(("a",)), MatchAny("corpus", ("b",)))
    nested = Filter(must=(AnyOf((Filter(conditions), Filter(must_not=conditions))),), must_not=conditions[:1])
    owned = (MatchAny("image", ("a",)), MatchAny("corpus", ("b",)))
    assert by_owner(nested) == Filter(must=(AnyOf((Filter(owned), Filter(must_not=owned))),), must_not=owned[:1])
    assert by_owner(None) is None


def test_the_fields_of_a_filter_are_those_of_its_conditions_at_any_depth() -> None:
    inner = Filter(must=(Between("b", 1),), must_not=(AnyOf((Filter(must=(MatchAny("c", ("x",)),)),)),))
    assert fields_of(Filter(must=(HasId(("1",)), MatchAny("a", ("x",))), must_not=(AnyOf((inner,)),))) == {"a", "b", "c"}
    assert fields_of(None) == fields_of(EVERY_POINT) == set()
