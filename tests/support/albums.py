"""Simulated albums: the life of somebody with a phone, and the truth of what belongs together, of home and of trips.

Days are drawn without a look at how events are found: work days with a few pictures at home or in town, outings at weekends,
journeys of days or weeks, single pictures at any time, positions that are missing for a picture or for a whole event.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

HOUR, DAY = 3_600, 86_400
FAR = ((48.86, 2.35), (41.9, 12.5), (35.68, 139.7), (40.71, -74.0), (-33.87, 151.2), (60.39, 5.32), (38.72, -9.14))


@dataclass(frozen=True)
class Shot:
    """A picture: when and where it was taken, and which event and trip it belongs to (None: to none)."""

    taken: int
    position: tuple[float, float] | None
    event: int | None
    trip: int | None


@dataclass
class Album:
    """Pictures in the order of time."""

    home: tuple[float, float]
    shots: list[Shot] = field(default_factory=list)


class _Life:
    def __init__(self, seed: int, home: tuple[float, float]) -> None:
        self.dice = random.Random(seed)
        self.album = Album(home)
        self.events = 0

    def near(self, place: tuple[float, float], least_km: float, most_km: float) -> tuple[float, float]:
        distance, direction = self.dice.uniform(least_km, most_km), self.dice.uniform(0, 2 * math.pi)
        north = distance * math.cos(direction) / 111.2
        east = distance * math.sin(direction) / (111.2 * math.cos(math.radians(place[0])))
        return place[0] + north, place[1] + east

    def event(self, begin: float, hours: float, place: tuple[float, float], *, trip: int | None = None) -> float:
        """Take the pictures of an event, and return when it ends."""
        indoors = self.dice.random() < 0.1
        now, where, shots = begin, place, []
        end = begin + hours * HOUR
        pause = self.dice.uniform(0.3, 0.7) * hours * HOUR if hours > 3 and self.dice.random() < 0.4 else None
        while now < end or len(shots) < 3:
            for _ in range(self.dice.choice((1, 1, 1, 2, 5))):
                located = not indoors and self.dice.random() < 0.85
                noisy = self.near(where, 0, 0.05)
                shots.append(Shot(int(now), noisy if located else None, self.events, trip))
                now += self.dice.uniform(1, 15)
            now += min(self.dice.lognormvariate(math.log(240), 1.1), 80 * 60)
            where = self.near(where, 0, 0.4)
            if pause is not None and now - begin > pause:
                now, pause = now + self.dice.uniform(20, 170) * 60, None
        self.album.shots += shots
        self.events += 1
        return now

    def stray(self, day: int) -> None:
        """Take one or two pictures that belong to nothing: a parking place, a receipt."""
        now = day + self.dice.uniform(8, 22) * HOUR
        for _ in range(self.dice.choice((1, 1, 2))):
            self.album.shots.append(Shot(int(now), self.near(self.album.home, 0, 8), None, None))
            now += self.dice.uniform(5, 60)

    def day_at_home(self, day: int, weekday: int) -> None:
        dice, home = self.dice, self.album.home
        if weekday >= 5 and dice.random() < 0.6:
            end = self.event(day + dice.uniform(9, 13) * HOUR, dice.uniform(1, 5), self.near(home, 2, 40))
            evening = day + dice.uniform(18.5, 20) * HOUR
            if evening - end > 3 * HOUR and dice.random() < 0.3:
                self.event(evening, dice.uniform(1, 3), self.near(home, 0, 6))
        elif dice.random() < 0.3:
            place = home if dice.random() < 0.6 else self.near(home, 1, 10)
            self.event(day + dice.uniform(17.5, 20.5) * HOUR, dice.uniform(0.1, 1.5), place)
        elif dice.random() < 0.4:
            self.stray(day)

    def journey(self, day: int, days: int, trip: int) -> None:
        base = self.near(self.dice.choice(FAR), 0, 10)
        for number in range(days):
            now = day + number * DAY + self.dice.uniform(8.5, 11) * HOUR
            for _ in range(self.dice.choice((1, 2, 2, 3))):
                now = self.event(now, self.dice.uniform(0.5, 3), self.near(base, 0, 15), trip=trip)
                now += self.dice.uniform(1.2, 5) * HOUR
                if now > day + number * DAY + 22 * HOUR:
                    break


def simulated_album(seed: int, *, days: int = 365, home: tuple[float, float] = (52.52, 13.40)) -> Album:
    """An album of so many days of one life."""
    life = _Life(seed, home)
    day, trips = 0, 0
    while day < days:
        if life.dice.random() < 0.015:
            length = life.dice.randint(3, 12)
            life.journey(day * DAY, length, trips)
            day, trips = day + length, trips + 1
        else:
            life.day_at_home(day * DAY, day % 7)
        day += 1
    life.album.shots.sort(key=lambda shot: shot.taken)
    return life.album


def pairwise_f1(found: Sequence[int | None], truth: Sequence[int | None]) -> float:
    """F1 of the pairs of pictures that are said to belong together."""

    def pairs(groups: Iterator[object]) -> int:
        sizes: dict[object, int] = {}
        for group in groups:
            if group is not None:
                sizes[group] = sizes.get(group, 0) + 1
        return sum(size * (size - 1) // 2 for size in sizes.values())

    both = pairs(None if one is None or other is None else (one, other) for one, other in zip(found, truth, strict=True))
    precision, recall = both / max(pairs(iter(found)), 1), both / max(pairs(iter(truth)), 1)
    return 2 * precision * recall / max(precision + recall, 1e-9)
