"""A code that was handed over once unlocks the service for its own user, on this machine alone, and nothing else."""

from __future__ import annotations

import html
import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.support.fake_services import FakeServices

from lodestone.config.home import Home
from lodestone.config.serve import ServeSettings
from lodestone.home import unlocking
from lodestone.home.running_service.address import TOKEN_HEADER
from lodestone.home.unlocking import VALID_S, offer, redeem, withdraw
from lodestone_serve.auth import passes
from lodestone_serve.http.application import create_app

URL = "http://127.0.0.1:7860"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(unlocking, "time", made)
    monkeypatch.setattr(passes, "time", made)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def client(tmp_path: Path, token: str = "a-secret", **settings: object) -> httpx.AsyncClient:
    services = FakeServices(tmp_path)
    services.runtime = SimpleNamespace(**vars(services.runtime), home=Home(tmp_path))
    services.session.runtime = services.runtime
    app = create_app(services, settings=ServeSettings.model_validate(settings), token=token)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL)


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with client(tmp_path) as made:
        yield made


def offered(home: Home, url: str = URL) -> str:
    """The code of a new offer, as the page beside it has it."""
    found = re.search(r"#unlock=([\w-]+)", html.unescape(offer(home, url).read_text()))
    assert found is not None
    return found.group(1)


def test_what_is_offered_is_for_the_eyes_of_its_owner(home: Home) -> None:
    page = offer(home, "https://127.0.0.1:7860/")
    assert "https://127.0.0.1:7860/#unlock=" in page.read_text()
    for file in home.path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    code = re.findall(r"#unlock=([\w-]+)", page.read_text())[0]
    assert len(code) >= 43, "256 bits"
    assert code not in (home.path / "unlock.json").read_text()


def test_a_code_counts_once_and_leaves_nothing(home: Home) -> None:
    code = offered(home)
    assert not redeem(home, "x" * len(code))
    assert redeem(home, code)
    assert list(home.path.iterdir()) == []
    assert not redeem(home, code)


def test_a_later_offer_takes_the_place_of_an_earlier_one(home: Home) -> None:
    first, second = offered(home), offered(home)
    assert not redeem(home, first)
    assert redeem(home, second)


@pytest.mark.parametrize(("passed", "counts"), [(0, True), (VALID_S - 1, True), (VALID_S, False), (-1, False)])
def test_a_code_counts_for_two_minutes_and_not_when_the_clock_went_back(
    home: Home, clock: Clock, passed: float, counts: bool
) -> None:
    code = offered(home)
    clock.now += passed
    assert redeem(home, code) is counts


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"sha256": 1}',
        '{"sha256": "a", "expires_at": "soon"}',
        '{"sha256": "%s", "expires_at": NaN}',
        "[" * 9_999,
    ]
    + [f'{{"sha256": "{digest}", "expires_at": 1800000060}}' for digest in ("\xe9", "\\ud800", "a")],
)
def test_a_damaged_offer_lets_nobody_in(home: Home, clock: Clock, content: str) -> None:
    offer(home, URL)
    (home.path / "unlock.json").write_text(content, encoding="utf-8")
    assert not redeem(home, "a" * 43)
    assert withdraw(home)
    assert not withdraw(home)


async def unlocked(http: httpx.AsyncClient, code: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return await http.post("/v1/session/unlock", json={"code": code}, headers=OWN_PAGE if headers is None else headers)


async def scopes(http: httpx.AsyncClient, token: str, headers: dict[str, str] | None = None) -> list[str]:
    answer = await http.get("/v1/access", headers={TOKEN_HEADER: token, **(headers or OWN_PAGE)})
    return list(answer.json().get("scopes", []))


async def test_a_code_is_exchanged_for_a_pass_of_this_machines_user_once(http: httpx.AsyncClient, home: Home) -> None:
    code = offered(home)
    answer = await unlocked(http, code)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers, "cookies go to every port of the machine"
    token = answer.json()["token"]
    assert "admin" in await scopes(http, token)
    assert "a-secret" not in answer.text
    again = await unlocked(http, code)
    assert again.status_code == 403
    assert "used before" in again.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {**OWN_PAGE, "X-Forwarded-For": "10.0.0.7"},
        {**OWN_PAGE, "Forwarded": "for=10.0.0.7"},
        {"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_neither_code_nor_pass_counts_from_elsewhere(
    http: httpx.AsyncClient, home: Home, headers: dict[str, str]
) -> None:
    code = offered(home)
    assert (await unlocked(http, code, headers)).status_code == 403
    token = (await unlocked(http, code)).json()["token"]
    assert "admin" not in await scopes(http, token, headers)


@pytest.mark.parametrize("settings", [{"auth": {"keys": True}}, {"public_hosts": ["pictures.example"], "auth": {"keys": True}}])
async def test_a_service_that_asks_for_keys_is_not_unlocked(tmp_path: Path, home: Home, settings: dict[str, object]) -> None:
    async with client(tmp_path, **settings) as keyed:
        assert (await unlocked(keyed, offered(home))).status_code in {401, 403}


async def test_a_pass_ends_after_hours_with_the_service_and_when_it_is_changed(
    http: httpx.AsyncClient, tmp_path: Path, home: Home, clock: Clock
) -> None:
    token = (await unlocked(http, offered(home))).json()["token"]
    begin, _, signature = token.rpartition(".")
    expires = int(begin.split(".")[1])
    later = begin.replace(str(expires), str(expires + 60))
    for changed in (f"{later}.{signature}", f"{begin}.{signature[:-1]}0", f"{begin}.", "pass.x.y.z", f"{begin}.~"):
        if changed != token:
            assert "admin" not in await scopes(http, changed), changed
    async with client(tmp_path, token="another") as other:
        assert "admin" not in await scopes(other, token)
    clock.now += passes.HOLDS_S - 1
    assert "admin" in await scopes(http, token)
    clock.now += 1
    assert "admin" not in await scopes(http, token)


def test_the_offer_holds_a_digest_and_an_end(home: Home, clock: Clock) -> None:
    offer(home, URL)
    record = json.loads((home.path / "unlock.json").read_text())
    assert set(record) == {"sha256", "expires_at"}
    assert record["expires_at"] == clock.now + VALID_S
