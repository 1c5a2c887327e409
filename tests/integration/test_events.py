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
    for day in range(3):  # not far from any home, because there is none
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
            ("Bergen, Easter 2018", 3),
            ("Christmas 2017", 3),
        ]
        easter = events[3]
        assert easter["place"].startswith("Bergen") and easter["place"].endswith("Norway")
        assert (easter["first_local"], easter["last_local"]) == ("2018-04-01T12:00:00", "2018-04-01T12:20:00")
        assert (round(easter["latitude"], 1), round(easter["longitude"], 1)) == (60.4, 5.3)
        assert events[4]["place"] is None and events[4]["latitude"] is None
        for event in events:
            filters = {name: event[name] for name in ("taken_from", "taken_to")}
            found = (await http.post("/v1/images/browse", json={"filters": filters})).json()["images"]
            assert len(found) == event["pictures"] and event["cover"] in {image["image_id"] for image in found}
            assert {image["taken_local"][:10] for image in found} == {event["first_local"][:10]}

        first = await listed(limit=2)
        second = await listed(limit=2, cursor=first["next_cursor"])
        last = await listed(limit=2, cursor=second["next_cursor"])
        assert [*first["events"], *second["events"], *last["events"]] == events and last["next_cursor"] is None
        assert [event["title"] for event in (await listed(filters={"taken_to": "2018"}))["events"]] == ["Christmas 2017"]
        assert (await listed(kind="trip"))["events"] == []  # nobody knows from where
        refused = await http.post("/v1/events", json={"filters": {"where": {"place": ["Bergen"]}}})
        assert refused.status_code == 422 and "path_prefix" in refused.json()["hint"]
        assert (await http.post("/v1/events", json={"cursor": "nonsense"})).status_code == 422
        assert (await http.post("/v1/events", json={"filters": {"corpora": ["nobody"]}})).status_code == 404


def test_the_command_lists_events_and_says_how_to_see_one(indexed: Path, tmp_path: Path) -> None:
    copied(indexed, tmp_path)
    home = tmp_path / "home"
    shown = run_here("events", "--to", "2018-12-31", home=home).out.splitlines()
    assert shown[:3] == [
        "2018-04-01  Bergen, Easter 2018  (3 pictures)",
        "2017-12-25  Christmas 2017  (3 pictures)",
        "2 events",
    ]
    options = shown[3].partition("lodestone ")[2].split()
    assert len(run_here(*options, "--output", "json", home=home).json["images"]) == 3
    assert run_here("events", "--trips", home=home).out == "0 trips\n"
    assert run_here("events", "-n", "1", home=home).out.splitlines()[1] == "1 event, and more: --limit shows them"
    assert len(run_here("events", "--output", "json", home=home).json["events"]) == 5
