"""Events and trips are listed over HTTP and on the command line, with bounds by which their pictures are found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime, settings_for
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.pictures import BERGEN, SYDNEY, Position, write_taken
from tests.support.upkeep import copied

from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

EASTER = datetime(2018, 4, 1, 12, tzinfo=UTC)
CHRISTMAS = datetime(2017, 12, 25, 18, tzinfo=UTC)
AUTUMN = datetime(2018, 10, 2, 21, tzinfo=UTC)
SUMMER = datetime(2019, 1, 10, 9, tzinfo=UTC)


def taken(folder: Path, name: str, begin: datetime, *, pictures: int = 3, at: Position | None = None) -> None:
    """Write photos that were taken ten minutes after each other."""
    for number in range(pictures):
        when = begin + timedelta(minutes=10 * number)
        seed = int(begin.timestamp()) % 10_000 + number
        write_taken(folder / f"{name}{number}.jpg", seed, taken=f"{when:%Y:%m:%d %H:%M:%S}", at=at)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    pictures = folder / "pictures"
    taken(pictures, "easter", EASTER, at=BERGEN)
    taken(pictures, "christmas", CHRISTMAS)
    taken(pictures, "stray", datetime(2018, 8, 1, 12, tzinfo=UTC), pictures=2)
    for day in range(6):
        taken(pictures, f"evening{day}-", AUTUMN + timedelta(days=day), at=BERGEN)
    for day in range(3):
        taken(pictures, f"sydney{day}-", SUMMER + timedelta(days=day), at=SYDNEY)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((pictures,)))
    return folder


async def test_events_have_titles_and_bounds_that_find_their_pictures(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)
    settings = settings_for(tmp_path)
    async with opened_services(settings) as services, client_of(app_of(services, settings)) as http:

        async def listed(**body: Any) -> dict[str, Any]:
            answer = await http.post("/v1/events", json=body)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        events = (await listed())["events"]
        assert [(event["title"], event["pictures"]) for event in events] == [
            ("Sydney, 12 January 2019", 3),
            ("Sydney, 11 January 2019", 3),
            ("Sydney, 10 January 2019", 3),
            *((f"Bergen, {day} October 2018", 3) for day in range(7, 1, -1)),
            ("Bergen, Easter 2018", 3),
            ("Christmas 2017", 3),
        ]
        easter = events[9]
        assert easter["place"].startswith("Bergen") and easter["place"].endswith("Norway")
        assert (easter["first_local"], easter["last_local"]) == ("2018-04-01T12:00:00", "2018-04-01T12:20:00")
        assert (round(easter["latitude"], 1), round(easter["longitude"], 1)) == (60.4, 5.3)
        assert events[10]["place"] is None and events[10]["latitude"] is None
        for event in events:
            filters = {name: event[name] for name in ("taken_from", "taken_to")}
            found = (await http.post("/v1/images/browse", json={"filters": filters})).json()["images"]
            assert len(found) == event["pictures"] and event["cover"] in {image["image_id"] for image in found}
            assert {image["taken_local"][:10] for image in found} == {event["first_local"][:10]}

        paged, cursor = [], None
        while not paged or cursor is not None:
            page = await listed(limit=4, cursor=cursor)
            paged += page["events"]
            cursor = page["next_cursor"]
        assert paged == events
        assert [event["title"] for event in (await listed(filters={"taken_to": "2018"}))["events"]] == ["Christmas 2017"]
        for filters in ({}, {"taken_from": "2019"}):  # home is known whatever is asked for
            (trip,) = (await listed(kind="trip", filters=filters))["events"]
            assert (trip["title"], trip["pictures"], trip["kind"]) == ("Sydney, 10–12 January 2019", 9, "trip")
        assert (await listed(kind="trip", filters={"taken_to": "2019"}))["events"] == []
        other = (await listed(limit=1))["next_cursor"]
        assert (await http.post("/v1/events", json={"kind": "trip", "cursor": other})).status_code == 422
        refused = await http.post("/v1/events", json={"filters": {"where": {"place": ["Bergen"]}}})
        assert refused.status_code == 422 and "path_prefix" in refused.json()["hint"]
        assert (await http.post("/v1/events", json={"cursor": "nonsense"})).status_code == 422
        assert (await http.post("/v1/events", json={"filters": {"corpora": ["nobody"]}})).status_code == 404


def test_the_command_lists_events_and_says_how_to_see_one(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)
    home = tmp_path / "home"
    shown = run_here("events", "--to", "2018-06-30", "--corpus", "default", home=home).out.splitlines()
    assert shown[:3] == [
        "2018-04-01  Bergen, Easter 2018  (3 pictures)",
        "2017-12-25  Christmas 2017  (3 pictures)",
        "2 events",
    ]
    options = shown[3].partition("lodestone ")[2].split()
    assert options[:3] == ["browse", "--corpus", "default"]
    assert len(run_here(*options, "--output", "json", home=home).json["images"]) == 3
    trips = run_here("events", "--trips", home=home).out.splitlines()
    assert trips[:2] == ["2019-01-10  Sydney, 10–12 January 2019  (9 pictures)", "1 trip"]
    assert run_here("events", "-n", "1", home=home).out.splitlines()[1] == "1 event, and more: --limit shows them"
    told = run_here("events", "-n", "3", "--output", "json", home=home).json
    assert (len(told["events"]), told["more"]) == (3, True)
