"""The generator hub: who is asked for how many guides, in which order, at what cost, and what a failure costs."""

import asyncio
import threading
import time

import numpy as np
import pytest
from tests.support.engines import Drawer, Editor, Recorder, drawn, engine, hub_of, ids

from lodestone.catalog.records import EngineState
from lodestone.config.settings import Settings
from lodestone.errors import CatalogError, ConfigurationError, ModelUnavailableError, ServiceUnavailableError, UnknownNameError
from lodestone.generators.assembly import make_hub
from lodestone.generators.base import Guide, GuideRequest, PictureEdit
from lodestone.generators.cache import GuideCache
from lodestone.generators.registry import GeneratorContext
from lodestone.query_notes import QueryNotes


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A cancelled call has stopped when its query ends: a busy machine may need longer for that than it gets."""
    monkeypatch.setattr("lodestone.generators.engine_call.CANCEL_GRACE_S", 120.0)


async def test_engines_of_one_priority_share_the_guides_and_the_first_take_the_remainder():
    hub = hub_of(*(engine(name, Drawer()) for name in "abc"))
    assert ids(await drawn(hub, n=5)) == ["a/0", "a/1", "b/0", "b/1", "c/0"]
    assert ids(await drawn(hub, n=1)) == ["a/0"]
    assert await drawn(hub, n=0) == []


async def test_an_engine_with_a_number_of_its_own_keeps_to_it_and_the_others_share_the_rest():
    hub = hub_of(engine("few", Drawer(), guides=1), engine("a", Drawer()), engine("b", Drawer()))
    assert ids(await drawn(hub, n=6)) == ["a/0", "a/1", "a/2", "b/0", "b/1", "few/0"]
    greedy = hub_of(engine("a", Drawer(), guides=9), engine("b", Drawer(), guides=9))
    assert len(await drawn(greedy, n=4)) == 4  # never more than the query wants


async def test_pictures_are_edited_by_engines_that_can_and_the_next_one_takes_over():
    edit = PictureEdit(np.zeros((8, 8, 3), np.uint8), 0.5)
    asking = GuideRequest("a cat", "a cat", 1, edit=edit)
    picture = np.full((16, 16, 3), 7, np.uint8)
    only_draws, fails, spare = Drawer(), Editor(picture, error=ServiceUnavailableError("broken")), Editor(picture)
    hub = hub_of(engine("a", only_draws), engine("b", fails, priority=1), engine("c", spare, priority=2))
    assert [hub.edits(name) for name in "abc"] == [False, True, True]
    log = QueryNotes()
    (guide,) = await drawn(hub, request=asking, log=log)
    assert guide.guide_id == "c/0" and (guide.pixels == 7).all()
    assert only_draws.asked == [] and spare.asked[0].edit is edit
    assert log.warnings == ["generator 'b' gave nothing: broken"]
    assert ids(await drawn(hub, n=1)) == ["a/0"]  # without a picture as before


async def test_edited_pictures_are_kept_by_the_picture_and_the_strength(tmp_path):
    editor = Editor(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8))
    hub = hub_of(engine("b", editor), cache=GuideCache(tmp_path, limit_bytes=2**20))
    picture = np.zeros((8, 8, 3), np.uint8)

    async def cached(edit):
        (guide,) = await drawn(hub, request=GuideRequest("a cat", "a cat", 1, edit=edit))
        return guide.cached

    assert [await cached(edit) for edit in (PictureEdit(picture, 0.5), PictureEdit(picture.copy(), 0.5))] == [None, "exact"]
    assert [await cached(edit) for edit in (PictureEdit(picture, 0.6), PictureEdit(picture + 1, 0.5), None)] == [None] * 3


async def test_engines_are_asked_at_the_same_time():
    everybody = asyncio.Barrier(3)  # nobody answers before all are asked

    class Meeting(Drawer):
        async def generate(self, request):
            await everybody.wait()
            return await super().generate(request)

    assert len(await drawn(hub_of(*(engine(name, Meeting()) for name in "abc")), n=3)) == 3


async def test_guides_come_as_they_are_made():
    hub = hub_of(engine("slow", Drawer(delay=0.3)), engine("fast", Drawer()))
    assert [guide.engine for guide in await drawn(hub, n=2)] == ["fast", "slow"]


class Streaming(Drawer):
    """Gives its guides one by one; the next one waits for `more`, or fails, or is not drawn at all."""

    def __init__(self, *, then=None):
        super().__init__()
        self.more, self.then, self.given, self.ended = asyncio.Event(), then, 0, False

    async def stream(self, request):
        try:
            for number in range(request.first, request.first + request.n):
                if self.given and self.then is not None:
                    raise self.then
                if self.given:
                    await self.more.wait()
                self.given += 1
                yield [self._guide(number, request)]
        finally:
            self.ended = True


async def test_guides_of_one_call_come_one_by_one():
    engine_of, observer = Streaming(), Recorder()
    draw = hub_of(engine("a", engine_of), observer=observer).draw(
        GuideRequest("q", "q", 3), deadline=time.monotonic() + 30, log=QueryNotes()
    )
    assert ids(await anext(draw)) == ["a/0"]
    assert (engine_of.given, engine_of.ended, observer.calls) == (1, False, [])
    engine_of.more.set()
    rest = [guide async for batch in draw for guide in batch]
    assert ids(rest) == ["a/1", "a/2"]
    assert [call[1:2] + call[3:] for call in observer.calls] == [("ok", 3, 0.0)]


async def test_a_reader_that_leaves_between_two_guides_ends_the_call():
    engine_of, observer = Streaming(), Recorder()
    hub = hub_of(engine("a", engine_of, concurrency=1, cost=2.0), observer=observer)
    draw = hub.draw(GuideRequest("q", "q", 3), deadline=time.monotonic() + 30, log=QueryNotes())
    await anext(draw)
    await draw.aclose()
    assert engine_of.ended
    assert observer.outcomes("a") == ["cancelled"]
    engine_of.more.set()
    assert len(await drawn(hub, n=2)) == 2  # its turn is free


@pytest.mark.parametrize("settings", [{}, {"timeout_s": 0.3}])
async def test_guides_that_came_before_a_failure_count(settings):
    failing = Streaming(then=None if settings else ServiceUnavailableError("down"))
    log, observer = QueryNotes(), Recorder()
    hub = hub_of(engine("a", failing, breaker_failures=1, **settings), engine("spare", Drawer(), priority=1), observer=observer)
    assert ids(await drawn(hub, n=3, log=log)) == ["a/0", "spare/0", "spare/1"]
    assert log.warnings[0].startswith("generator 'a' gave only 1 of 3 guides: ")
    assert observer.outcomes("a") == ["timeout" if settings else "error"]
    assert failing.ended and hub.status().engines[0].breaker == "open"


async def test_higher_numbers_are_not_asked_while_the_lowest_deliver():
    spare = Drawer()
    assert ids(await drawn(hub_of(engine("first", Drawer()), engine("spare", spare, priority=1)), n=3)) == [
        "first/0", "first/1", "first/2",
    ]  # fmt: skip
    assert spare.asked == []


@pytest.mark.parametrize("broken", [Drawer(error=ServiceUnavailableError("down")), Drawer(error=KeyError("x")), Drawer(has=0)])
async def test_the_next_number_fills_exactly_what_is_missing(broken):
    last = Drawer()
    hub = hub_of(
        engine("last", last, priority=9),
        engine("well", Drawer(), priority=0),
        engine("broken", broken, priority=0),
        engine("spare", Drawer(), priority=5, guides=1),
    )
    assert ids(await drawn(hub, n=4)) == ["last/0", "spare/0", "well/0", "well/1"]
    assert [asked.n for asked in last.asked] == [1]


async def test_an_engine_that_has_fewer_guides_is_no_failure():
    log, observer = QueryNotes(), Recorder()
    hub = hub_of(engine("a", Drawer(has=1)), engine("none", Drawer(has=0)), observer=observer)
    assert ids(await drawn(hub, n=6, log=log)) == ["a/0"]
    assert log.warnings == [] and observer.outcomes("none") == ["empty"]
    assert [one.failures for one in hub.status().engines] == [0, 0]


async def test_a_round_with_fewer_guides_does_not_end_the_rounds():
    class Withholding(Drawer):
        async def generate(self, request):
            return [guide for guide in await super().generate(request) if not guide.guide_id.endswith("/1")]

    hub = hub_of(engine("a", Withholding()))
    assert ids(await drawn(hub, n=6, batch=2)) == ["a/0", "a/2", "a/3", "a/4", "a/5"]


async def test_an_engine_that_returns_no_guides_at_all_is_a_failure_not_a_crash():
    class Odd(Drawer):
        async def generate(self, request):
            return None

    log = QueryNotes()
    assert ids(await drawn(hub_of(engine("odd", Odd()), engine("well", Drawer())), n=2, log=log)) == ["well/0"]
    assert "'odd' failed: TypeError" in log.warnings[0]


@pytest.mark.parametrize("batch", [1, 2, 3, 100, None])
async def test_rounds_of_any_size_give_the_same_guides(batch):
    make = lambda: hub_of(engine("a", Drawer()), engine("b", Drawer(guides_a_call=1)), engine("c", Drawer(), priority=1))  # noqa: E731
    whole, rounds = await drawn(make(), n=7), await drawn(make(), n=7, batch=batch)
    assert ids(rounds) == ids(whole) == [*(f"a/{i}" for i in range(4)), *(f"b/{i}" for i in range(3))]
    pixels = {guide.guide_id: guide.pixels for guide in whole}
    assert all(np.array_equal(guide.pixels, pixels[guide.guide_id]) for guide in rounds)


async def test_a_round_is_asked_for_only_when_the_one_before_was_used():
    a, b = Drawer(), Drawer()
    hub = hub_of(engine("a", a), engine("b", b))
    draw = hub.draw(GuideRequest("q", "q", 8), batch=2, deadline=time.monotonic() + 30, log=QueryNotes())
    got: list[Guide] = []
    while len(got) < 2:
        got += await anext(draw)
    assert ids(got) == ["a/0", "b/0"]
    await draw.aclose()
    assert sum(asked.n for asked in a.asked + b.asked) == 2


async def test_an_engine_that_failed_in_one_round_is_not_asked_in_the_next():
    broken, well = Drawer(error=ServiceUnavailableError("down")), Drawer()
    hub = hub_of(engine("broken", broken), engine("well", well), engine("spare", Drawer(), priority=1))
    guides = await drawn(hub, n=6, batch=2)
    assert len(broken.asked) == 1
    assert [asked.n for asked in well.asked] == [1, 2]  # its place in the next round is not left empty
    assert ids(guides) == ["spare/0", "spare/1", "spare/2", "well/0", "well/1", "well/2"]


async def test_failures_are_told_once_and_cost_nothing_but_their_guides():
    log = QueryNotes()
    hub = hub_of(
        engine("a", Drawer(error=ModelUnavailableError("no weights", hint="install them"), guides_a_call=1)),
        engine("b", Drawer(error=KeyError("x"))),
        engine("c", Drawer()),
    )
    assert ids(await drawn(hub, n=9, log=log)) == ["c/0", "c/1", "c/2"]
    assert log.warnings[0] == "generator 'a' gave nothing: no weights (install them)"
    assert log.warnings[1].startswith("generator 'b' failed: KeyError")
    assert len(log.warnings) == 2


async def test_a_query_with_every_engine_down_gets_nothing_and_is_told_why():
    log = QueryNotes()
    hub = hub_of(*(engine(name, Drawer(error=ServiceUnavailableError(f"{name} is down"))) for name in "ab"))
    assert await drawn(hub, log=log) == []
    assert len(log.warnings) == 2


async def test_an_engine_over_its_time_is_given_up_and_the_others_are_heard():
    log, observer, slow = QueryNotes(), Recorder(), Drawer(delay=60)
    hub = hub_of(engine("slow", slow, timeout_s=0.2), engine("fast", Drawer()), observer=observer)
    assert ids(await drawn(hub, n=2, log=log)) == ["fast/0"]
    assert "'slow'" in log.warnings[0] and "0.2 s" in log.warnings[0]
    assert observer.outcomes("slow") == ["timeout"]
    assert slow.cancelled == 1 and slow.running == 0


async def test_the_querys_deadline_cuts_engines_off_and_keeps_time_for_the_search():
    log, slow = QueryNotes(), Drawer(delay=3600)
    hub = hub_of(engine("slow", slow))
    deadline = time.monotonic() + 5.0
    assert await drawn(hub, log=log, seconds=5.0) == []
    assert time.monotonic() < deadline
    assert log.dropped == ["generator 'slow': out of time", "guides: out of time"] and log.warnings == []
    assert slow.asked[0].deadline < deadline
    (status,) = hub.status().engines
    assert (status.failures, status.breaker) == (0, "closed")  # it had some seconds: no fair trial


async def test_no_time_left_asks_nobody():
    log, one = QueryNotes(), Drawer()
    assert await drawn(hub_of(engine("a", one)), seconds=-1, log=log) == []
    assert one.asked == [] and log.dropped


async def test_closing_the_iterator_cancels_what_runs_and_leaves_no_task():
    observer, slow, other = Recorder(), Drawer(delay=60, guides_a_call=1), Drawer(delay=60)
    hub = hub_of(engine("fast", Drawer()), engine("slow", slow), engine("other", other), observer=observer)
    before = asyncio.all_tasks()
    draw = hub.draw(GuideRequest("q", "q", 6), deadline=time.monotonic() + 30, log=QueryNotes())
    assert (await anext(draw))[0].engine == "fast"
    await draw.aclose()
    assert asyncio.all_tasks() == before
    assert slow.cancelled == 2 and other.cancelled == 1 and slow.running == other.running == 0
    assert observer.outcomes("slow") == ["cancelled", "cancelled"]


async def test_cancelling_the_query_cancels_the_engines():
    slow = Drawer(delay=60)
    hub = hub_of(engine("slow", slow))
    task = asyncio.create_task(drawn(hub))
    while not slow.running:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.cancelled == 1 and slow.running == 0


async def test_an_engine_that_does_not_listen_is_left_behind_and_keeps_its_turn(monkeypatch):
    monkeypatch.setattr("lodestone.generators.engine_call.CANCEL_GRACE_S", 0.1)
    deaf = Drawer(delay=3600, deaf=True)
    hub = hub_of(engine("deaf", deaf, timeout_s=0.1, concurrency=1, breaker_failures=100))
    assert await drawn(hub, n=1) == []
    assert deaf.running == 1
    log = QueryNotes()
    assert await drawn(hub, n=1, seconds=0.3, log=log) == []  # still busy: nobody asks it twice at once
    assert len(deaf.asked) == 1 and "out of time" in log.dropped[0]
    (left,) = (task for task in asyncio.all_tasks() if "generate" in task.get_name())
    deaf.deaf = False
    left.cancel()
    await asyncio.wait({left})
    assert deaf.running == 0


async def test_no_more_calls_at_once_than_allowed_over_all_queries():
    one = Drawer(delay=0.05, guides_a_call=1)
    hub = hub_of(engine("one", one, concurrency=2))
    answers = await asyncio.gather(*(drawn(hub, n=4, query=f"q{i}") for i in range(3)))
    assert [len(guides) for guides in answers] == [4, 4, 4]
    assert one.most_running == 2 and len(one.asked) == 12


async def test_a_budget_is_never_exceeded_by_engines_in_parallel():
    observer, log = Recorder(), QueryNotes()
    hub = hub_of(
        *(engine(name, Drawer(delay=0.02, guides_a_call=1), cost=0.1) for name in "abc"),
        engine("free", Drawer(), priority=1),
        observer=observer,
    )
    guides = await drawn(hub, n=9, budget=0.3, log=log)
    paid = [guide for guide in guides if guide.engine != "free"]
    assert len(paid) == 3 and sum(guide.cost for guide in paid) == pytest.approx(0.3)
    assert len(guides) == 9  # what money does not buy, the free engine fills
    assert observer.cost == pytest.approx(0.3)
    assert any("budget" in one for one in log.dropped)


async def test_what_a_silent_engine_may_have_charged_stays_spent():
    spent = Recorder()
    hub = hub_of(
        engine("slow", Drawer(delay=60), cost=1.0, timeout_s=0.1),
        engine("next", Drawer(), cost=1.0, priority=1),
        observer=spent,
    )
    assert await drawn(hub, n=2, budget=2.0) == []
    assert spent.cost == 2.0
    refusing = Drawer(error=ServiceUnavailableError("500", charged=False))
    hub = hub_of(engine("refusing", refusing, cost=1.0), engine("next", Drawer(), cost=1.0, priority=1))
    assert ids(await drawn(hub, n=2, budget=2.0)) == ["next/0", "next/1"]


async def test_nothing_is_bought_with_an_empty_purse():
    paid = Drawer()
    assert await drawn(hub_of(engine("paid", paid, cost=0.01)), budget=0.0) == []
    assert paid.asked == []


@pytest.mark.parametrize("budget", [float("inf"), 1e30, 1e308])
async def test_a_budget_may_be_of_any_size(budget):
    log = QueryNotes()
    assert len(await drawn(hub_of(engine("a", Drawer(), cost=0.01)), n=3, budget=budget, log=log)) == 3
    assert log.cost == pytest.approx(0.03) and not log.warnings


async def test_a_cache_on_a_disk_that_hangs_does_not_hold_the_query(tmp_path):
    class Hanging(GuideCache):
        def find(self, *_, **__):
            answers.wait(240)
            return {}

    answers, log = threading.Event(), QueryNotes()
    hub = hub_of(engine("a", Drawer()), cache=Hanging(tmp_path, limit_bytes=2**20))
    try:
        async with asyncio.timeout(200):
            await drawn(hub, n=2, seconds=0.5, log=log)
    finally:
        answers.set()
    assert any("the guide cache" in one for one in log.dropped)


def test_states_that_cannot_be_read_stay_as_they_were(monkeypatch):
    def locked():
        raise CatalogError("the catalog is locked")

    hub = hub_of(engine("a", Drawer()), states={"a": EngineState(enabled=False)}, source=locked)
    monkeypatch.setattr("lodestone.generators.hub._REFRESH_S", -1.0)
    hub.refresh()
    assert not hub.enabled("a")


async def test_disabled_engines_are_not_asked_and_states_change_order_and_use():
    a, b = Drawer(), Drawer()
    hub = hub_of(engine("a", a, enabled=False), engine("b", b), states={})
    assert ids(await drawn(hub, n=2)) == ["b/0", "b/1"]
    log = QueryNotes()
    assert await drawn(hub, n=2, engines=["a"], log=log) == [] and "disabled" in log.dropped[0]
    hub.apply({"a": EngineState(enabled=True), "b": EngineState(priority=3)})
    assert ids(await drawn(hub, n=2)) == ["a/0", "a/1"]
    assert [(one.name, one.enabled, one.priority) for one in hub.status().engines] == [("a", True, 0), ("b", True, 3)]


async def test_unknown_names_are_told():
    log = QueryNotes()
    assert await drawn(hub_of(engine("a", Drawer())), engines=["a", "nowhere"], n=1, log=log)
    assert "nowhere" in log.warnings[0]


async def test_the_status_tells_how_engines_fare():
    hub = hub_of(
        engine("well", Drawer(), cost=0.5), engine("ill", Drawer(error=ServiceUnavailableError("down")), breaker_failures=1)
    )
    await drawn(hub, n=4)
    well, ill = hub.status().engines
    assert (well.guides, well.failures, well.breaker, well.cost) == (2, 0, "closed", 0.5)
    assert (ill.guides, ill.failures, ill.breaker, ill.last_error) == (0, 1, "open", "down")


async def test_warming_up_survives_engines_that_cannot_run(caplog):
    hub = hub_of(engine("ill", Drawer(error=ModelUnavailableError("no weights"))), engine("well", Drawer()))
    await hub.warm_up()
    assert "no weights" in caplog.text and hub.status().engines[0].last_error == "no weights"
    await hub.close()
    assert all(one.generator.closed == 1 for one in hub.engines.values())


async def test_guides_are_called_after_the_engine_and_keep_their_numbers():
    guides = await drawn(hub_of(engine("mine", Drawer(), cost=0.25)), request=GuideRequest("q", "q", 2, first=3))
    assert ids(guides) == ["mine/3", "mine/4"] and {guide.engine for guide in guides} == {"mine"}
    assert {guide.cost for guide in guides} == {0.25}


def test_a_hub_is_made_of_profile_and_settings(tmp_path):
    settings = Settings(
        home=tmp_path,
        generators={"paint": {"kind": "openai", "model": "x"}, "own": {"kind": "http", "url": "http://localhost:1"}},
    )
    hub = make_hub(
        settings, ["exemplar"], lambda: {"own": EngineState(priority=2)}, GeneratorContext(None, None), tmp_path / "guides"
    )
    assert hub.names == ("exemplar", "paint", "own")
    assert hub.cache is not None and not (tmp_path / "guides").exists()
    off = settings.model_copy(update={"guide_cache": settings.guide_cache.model_copy(update={"limit_mb": 0})})
    assert make_hub(off, [], dict, GeneratorContext(None, None), tmp_path).cache is None


@pytest.mark.parametrize(
    ("section", "error", "says"),
    [
        ({"kind": "nothing"}, UnknownNameError, "nothing"),
        ({"kind": "http"}, ConfigurationError, "address"),
        ({"kind": "http", "url": "ftp://x/y"}, ConfigurationError, "address"),
        ({"kind": "http", "url": "http://me:secret@x/y"}, ConfigurationError, "user or password"),
        ({"kind": "imagen"}, ConfigurationError, "model"),
        ({"kind": "replicate", "options": {"poll_s": -1}}, ConfigurationError, "poll_s"),
        ({"kind": "openai", "options": {"colour": 1}}, ConfigurationError, "colour"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_the_start(tmp_path, section, error, says):
    settings = Settings(home=tmp_path, generators={"x": section})
    with pytest.raises(error) as raised:
        make_hub(settings, [], dict, GeneratorContext(None, None), tmp_path)
    assert says in raised.value.message and "secret" not in f"{raised.value.message}{raised.value.hint}{raised.value.details}"


async def test_a_switched_off_engine_is_asked_no_more_without_a_restart(monkeypatch):
    monkeypatch.setattr("lodestone.generators.hub._REFRESH_S", 0.0)
    states: dict[str, EngineState] = {}
    hub = hub_of(engine("a", Drawer()), engine("b", Drawer()), source=lambda: states)
    hub.refresh()
    assert ids(await drawn(hub, n=2)) == ["a/0", "b/0"]
    states["a"] = EngineState(enabled=False)
    hub.refresh()
    assert ids(await drawn(hub, n=2)) == ["b/0", "b/1"]
