"""Events, home and trips: on simulated albums, and where one ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.support.albums import DAY, HOUR, Album, pairwise_f1, simulated_album

from lodestone.timeline.events import HomePosition, Span, events_of, home_of, trips_of

BERLIN, ROME = (52.52, 13.40), (41.90, 12.50)
MINUTE = 60


def columns(album: Album) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    known = np.array([shot.position or (np.nan, np.nan) for shot in album.shots])
    return np.array([shot.taken for shot in album.shots]), known[:, 0], known[:, 1]


def groups(spans: Sequence[Span], count: int) -> list[int | None]:
    found: list[int | None] = [None] * count
    for number, span in enumerate(spans):
        found[span.first : span.end] = [number] * len(span)
    return found


def events(*taken: float, at: Sequence[tuple[float, float] | None] | None = None) -> list[Span]:
    known = np.array([place or (np.nan, np.nan) for place in at or [None] * len(taken)]).reshape(-1, 2)
    return events_of(np.array(taken, np.int64), known[:, 0], known[:, 1])


def burst(begin: float, pictures: int = 3, every: float = 10 * MINUTE) -> list[float]:
    return [begin + number * every for number in range(pictures)]


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_events_home_and_trips_of_a_simulated_album_are_found(seed: int) -> None:
    album = simulated_album(seed)
    taken, latitudes, longitudes = columns(album)
    truth = [shot.event for shot in album.shots]
    found = events_of(taken, latitudes, longitudes)
    score = pairwise_f1(groups(found, len(taken)), truth)
    assert score >= 0.9
    plain = np.split(np.arange(len(taken)), np.flatnonzero(np.diff(taken) > 4 * HOUR) + 1)
    by_pauses = [Span(int(part[0]), int(part[-1]) + 1) for part in plain if len(part) >= 3]
    assert score > pairwise_f1(groups(by_pauses, len(taken)), truth)
    home = home_of(taken, latitudes, longitudes)
    assert home is not None
    assert abs(home.latitude - album.home[0]) < 0.005 and abs(home.longitude - album.home[1]) < 0.008
    trips = trips_of(found, taken, latitudes, longitudes, home)
    pictures = [Span(found[trip.first].first, found[trip.end - 1].end) for trip in trips]
    assert pairwise_f1(groups(pictures, len(taken)), [shot.trip for shot in album.shots]) >= 0.9


def test_without_pictures_there_is_nothing() -> None:
    assert events() == []
    nothing = np.array([])
    assert home_of(nothing.astype(np.int64), nothing, nothing) is None


def test_three_pictures_are_an_event_and_two_are_none() -> None:
    assert events(0, 60, 120) == [Span(0, 3)]
    assert events(0, 60) == []
    assert events(*burst(0), 10 * HOUR, 10 * HOUR + 1, *burst(20 * HOUR)) == [Span(0, 3), Span(5, 8)]


def test_a_pause_of_more_than_four_hours_ends_an_event_also_at_one_place() -> None:
    slow = [0, 4 * HOUR, 8 * HOUR]
    assert events(*slow) == [Span(0, 3)]
    assert events(*slow, at=[BERLIN] * 3) == [Span(0, 3)]
    assert events(*slow[:2], 8 * HOUR + 1, 8 * HOUR + 2, 8 * HOUR + 3, at=[BERLIN] * 5) == [Span(2, 5)]


@pytest.mark.parametrize(("pause", "count"), [(2 * HOUR, 1), (2 * HOUR + 60, 2)])
def test_among_quick_pictures_a_pause_of_more_than_two_hours_ends_one(pause: float, count: int) -> None:
    first = burst(0, 12, 30)
    assert len(events(*first, *burst(first[-1] + pause, 12, 30))) == count


@pytest.mark.parametrize(("every", "count"), [(5 * MINUTE, 2), (12 * MINUTE, 1)])
def test_how_long_a_pause_must_be_depends_on_the_pictures_around_it(every: float, count: int) -> None:
    first = burst(0, 12, every)
    assert len(events(*first, *burst(first[-1] + 3 * HOUR, 12, every))) == count


@pytest.mark.parametrize(("pause", "count"), [(17 * 500 - 5, 1), (17 * 500 + 5, 2)])
def test_a_pause_is_compared_with_the_gaps_around_it_without_itself(pause: float, count: int) -> None:
    first = burst(0, 12, 500)
    assert len(events(*first, *burst(first[-1] + pause, 12, 500))) == count


@pytest.mark.parametrize(("metres", "count"), [(900, 1), (1_200, 2)])
def test_a_short_pause_ends_nothing_where_people_stay(metres: float, count: int) -> None:
    first = burst(0, 12, 30)
    there = (BERLIN[0] + metres / 111_195, BERLIN[1])
    assert len(events(*first, *burst(first[-1] + 3 * HOUR, 12, 30), at=[BERLIN] * 12 + [there] * 12)) == count


@pytest.mark.parametrize(("kilometres", "count"), [(49, 1), (51, 2)])
def test_another_place_is_another_event_without_a_pause(kilometres: float, count: int) -> None:
    there = (BERLIN[0] + kilometres / 111.195, BERLIN[1])
    assert len(events(*burst(0, 8), at=[BERLIN] * 4 + [there] * 4)) == count


@pytest.mark.parametrize("wrong", range(9))
def test_one_wrong_position_ends_nothing_wherever_it_is(wrong: int) -> None:
    places = [BERLIN] * 9
    places[wrong] = ROME
    assert events(*burst(0, 9), at=places) == [Span(0, 9)]


def test_missing_positions_end_nothing() -> None:
    assert events(*burst(0, 9), at=[BERLIN, None, None, BERLIN, None, None, None, BERLIN, None]) == [Span(0, 9)]


def test_among_pictures_without_positions_a_change_of_place_is_at_the_longest_gap() -> None:
    camera = [number * 30.0 for number in range(500)]
    moments = [*burst(-3_000, 3), *camera[:200], *(moment + HOUR for moment in camera[200:]), *burst(camera[-1] + 2 * HOUR, 3)]
    assert events(*moments, at=[BERLIN] * 3 + [None] * 500 + [ROME] * 3) == [Span(0, 203), Span(203, 506)]


def test_two_people_who_photograph_far_apart_at_one_time_are_one_event() -> None:
    assert events(*burst(0, 40), at=[BERLIN, ROME] * 20) == [Span(0, 40)]
    assert events(*burst(0, 40), at=[BERLIN, BERLIN, ROME, ROME] * 10) == [Span(0, 40)]


def test_pictures_of_one_second_stay_together() -> None:
    assert events(0, 1, 2, 2, 3, 4, at=[BERLIN] * 3 + [ROME] * 3) == [Span(0, 6)]


def test_where_people_were_before_a_long_pause_says_nothing_of_a_short_one() -> None:
    next_day = [DAY, *burst(DAY + 2.5 * HOUR)]
    assert events(*burst(0), *next_day, at=[BERLIN] * 3 + [ROME] * 4) == [Span(0, 3), Span(3, 7)]


def test_a_place_before_a_long_pause_joins_nothing_after_it() -> None:
    first = burst(DAY, 12, 30)
    moments = [*burst(0), *first, *burst(first[-1] + 3 * HOUR, 12, 30)]
    places = [BERLIN] * 3 + [None] * 12 + [BERLIN] * 12
    assert events(*moments, at=places) == [Span(0, 3), Span(3, 15), Span(15, 27)]


def test_a_change_of_place_is_told_by_what_lies_within_its_stretch() -> None:
    moments = [*burst(0), *burst(DAY, 6)]
    assert events(*moments, at=[ROME] * 3 + [None, BERLIN, BERLIN] + [ROME] * 3) == [Span(0, 3), Span(3, 6), Span(6, 9)]
    there_again = [None, BERLIN, BERLIN, ROME, ROME, ROME]
    moments = [*burst(0, 6), *burst(DAY)]
    assert events(*moments, at=[*there_again[::-1][:3], BERLIN, BERLIN, None, *[ROME] * 3]) == [
        Span(0, 3),
        Span(3, 6),
        Span(6, 9),
    ]


def test_a_home_on_the_edges_of_cells_is_one_home() -> None:
    latitudes = np.repeat([52.5175, 52.5225, 52.5275], 2)
    for known in ((latitudes, np.full(6, 13.4025)), (np.full(6, 52.5225), latitudes)):
        assert home_of(np.arange(6) * DAY, *known) is not None


def test_home_is_where_pictures_were_taken_on_most_days_and_nights_count_more() -> None:
    days = np.arange(6) * DAY
    local = np.concatenate([days + 21 * HOUR, days + 12 * HOUR, days + 13 * HOUR])  # evenings in Rome, noon in Berlin
    places = np.array([ROME] * 6 + [BERLIN] * 12)
    home = home_of(local, places[:, 0], places[:, 1])
    assert home is not None and (round(home.latitude, 2), round(home.longitude, 2)) == ROME


def test_a_place_of_four_days_or_of_few_among_many_is_no_home() -> None:
    four = np.arange(4) * DAY + 21 * HOUR
    assert home_of(four, np.full(4, 52.52), np.full(4, 13.4)) is None
    assert home_of(np.append(four, 4 * DAY), np.full(5, 52.52), np.full(5, 13.4)) is not None
    for days, found in ((50, True), (51, False)):
        latitudes = np.where(np.arange(days) < 5, 52.52, 10 + np.arange(days) / 10)
        assert (home_of(np.arange(days) * DAY, latitudes, np.full(days, 13.4)) is not None) is found


def journey(*hours: tuple[float, tuple[float, float] | None]) -> tuple[list[Span], np.ndarray, np.ndarray, np.ndarray]:
    """Events that begin at these hours, at these places."""
    taken = np.array([moment for hour, _ in hours for moment in burst(hour * HOUR)], np.int64)
    known = np.array([place or (np.nan, np.nan) for _, place in hours for _ in range(3)])
    return [Span(3 * number, 3 * number + 3) for number in range(len(hours))], taken, known[:, 0], known[:, 1]


AT_HOME = HomePosition(*BERLIN)


@pytest.mark.parametrize(
    ("hours", "trips"),
    [
        ([(0, BERLIN), (10, ROME), (30, ROME), (60, BERLIN)], [Span(1, 3)]),
        ([(0, ROME), (8, ROME)], []),  # back before the night
        ([(0, ROME), (20, None), (40, ROME), (60, None)], [Span(0, 3)]),
        ([(0, ROME), (20, BERLIN), (40, ROME), (60, ROME)], [Span(2, 4)]),
        ([(0, ROME), (20, ROME), (93, ROME), (113, ROME)], [Span(0, 2), Span(2, 4)]),
        ([(0, ROME), (20, ROME), (92, ROME)], [Span(0, 3)]),
        ([(0, None), (20, None)], []),
        ([(59.9 * number, ROME) for number in range(37)], [Span(0, 37)]),  # 90 days
        ([(59.9 * number, ROME) for number in range(38)], []),  # who lives there
    ],
)
def test_trips_are_events_far_from_home_over_a_night_that_follow_each_other(hours, trips) -> None:
    assert trips_of(*journey(*hours), AT_HOME) == trips


@pytest.mark.parametrize(("kilometres", "count"), [(59, 0), (61, 1)])
def test_what_is_near_home_is_no_trip(kilometres: float, count: int) -> None:
    there = (BERLIN[0] + kilometres / 111.195, BERLIN[1])
    assert len(trips_of(*journey((0, there), (20, there)), AT_HOME)) == count
