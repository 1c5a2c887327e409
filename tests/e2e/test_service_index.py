"""While pictures are indexed, the service answers every query, and then it finds the new pictures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.homes import Service, home_settings, index, running_service, write_pictures
from tests.support.photos import ROCKET, photo
from tests.support.pictures import encoded, write_photos

from lodestone.errors import LodestoneError
from lodestone_schemas.api import SearchFilters, SearchOptions, SearchRequest

pytestmark = [pytest.mark.ray, pytest.mark.slow]

FULL = 1_000  # one query a second from here on; set LODESTONE_E2E_PICTURES=1000 for it
PICTURES = int(os.environ.get("LODESTONE_E2E_PICTURES", "120"))
PERIOD_S = 1.0 if PICTURES >= FULL else 0.25

_INDEX = """
import sys
from lodestone_cli.main import main
sys.argv[0] = "lodestone"
main()
"""


@dataclass
class Asker(threading.Thread):
    """Asks in words, at a steady pace, until told to stop; keeps every answer's time and every error."""

    service: Service
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        words = ("a cat", "a rocket launch", "a cup of coffee", "a smiling person", "dots on a coloured ground")
        with self.service.client() as client:
            while not self.stop.is_set():
                started = time.perf_counter()
                try:
                    response = client.search(SearchRequest(query=words[len(self.seconds) % len(words)], limit=5))
                    if not response.hits:
                        self.errors.append("no hits")
                except LodestoneError as error:
                    self.errors.append(f"{error.code}: {error}")
                self.seconds.append(time.perf_counter() - started)
                self.stop.wait(max(0.0, PERIOD_S - self.seconds[-1]))


def test_indexing_beside_a_service_fails_no_query_and_its_pictures_appear(tmp_path: Path) -> None:
    write_pictures(tmp_path / "first", drawn=20)
    home = tmp_path / "home"
    settings = home_settings(home)
    index(settings, tmp_path / "first", corpus="first")
    write_photos(tmp_path / "second", PICTURES - 1)
    photo(ROCKET).resize((320, 213)).save(tmp_path / "second" / "launch.jpg")

    with running_service(home) as service:
        asker = Asker(service)
        asker.start()
        environment = {
            **os.environ,
            "LODESTONE_HOME": str(home),
            "LODESTONE_MODELS__CACHE": str(settings.models.cache),
            "LODESTONE_MODELS__THREADS": "1",
        }
        indexing = subprocess.run(
            [sys.executable, "-c", _INDEX, "index", str(tmp_path / "second"), "--corpus", "second"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        time.sleep(2 * PERIOD_S)
        asker.stop.set()
        asker.join(180)

        assert indexing.returncode == 0, indexing.stdout + indexing.stderr
        assert asker.errors == []
        assert len(asker.seconds) >= 5
        with service.client() as client:
            corpora = {corpus.name: corpus.images for corpus in client.corpora().corpora}
            assert corpora == {"first": 24, "second": PICTURES}
            only_new = SearchFilters(corpora=["second"])
            found = client.search(SearchRequest(query="a rocket launch", limit=10, filters=only_new))
            assert len(found.hits) == 10
            like = client.by_picture(encoded(photo(ROCKET), "JPEG"), SearchOptions(limit=3))
            assert {hit.uri for hit in like.hits} >= {"rocket.jpg", "launch.jpg"}
    slowest = max(asker.seconds)
    print(f"{len(asker.seconds)} queries while {PICTURES} pictures were indexed; slowest {slowest * 1000:.0f} ms, none failed")
