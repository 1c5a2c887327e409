"""A query is worked on, waits or is refused by slots, deadline and priority, and no slot ever gets lost."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from lodestone.config.serve import LoadSettings, ServeSettings
from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone_schemas.api import SearchResponse
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission import BUSY, Admission
from lodestone_serve.traffic.concurrency_limiter import ConcurrencyLimiter
from lodestone_serve.traffic.tickets import Priority, Ticket

LONG = 60.0


def make(*, ongoing: int = 2, queued: int = 4, **load: float) -> Admission:
    limits = ServeSettings(max_ongoing=ongoing, max_queued=queued, load=LoadSettings(**load))
    return Admission(limits=limits, metrics=Metrics())


def shed(admission: Admission, reason: str) -> float:
    return admission._metrics.registry.get_sample_value("lodestone_queries_shed_total", {"reason": reason}) or 0.0


def known(admission: Admission, seconds: float) -> None:
    """Answers to words take so long."""
    for _ in range(8):
        admission.words_s.add(seconds)


async def started(admission: Admission, count: int, **options) -> list[Ticket]:
    """Tickets that have their slots."""
    tickets = [admission.enter(**options) for _ in range(count)]
    for ticket in tickets:
        await ticket.start(admission.clock() + LONG)
    return tickets


async def queued(admission: Admission, *, seconds: float = LONG, **options) -> tuple[Ticket, asyncio.Task[None]]:
    """A ticket that waits in the queue, and the task that waits for it."""
    ticket = admission.enter(**options)
    before = admission.waiting
    task = asyncio.create_task(ticket.start(admission.clock() + seconds))
    while admission.waiting == before and not task.done():
        await asyncio.sleep(0)
    return ticket, task


async def test_slots_then_the_queue_then_refusal_with_a_time_to_come_back() -> None:
    admission = make(ongoing=2, queued=1, retry_after_s=3)
    running = await started(admission, 2)
    waiting, task = await queued(admission)
    assert (admission.running, admission.waiting) == (2, 1)
    with pytest.raises(OverloadedError) as refused:
        admission.enter()
    assert refused.value.details["retry_after"] == 3
    assert shed(admission, "overloaded") == 1
    running[0].release()
    await task
    assert (admission.running, admission.waiting) == (2, 0)
    for ticket in (*running, waiting):
        ticket.release()
        ticket.release()  # more than once changes nothing
    assert (admission.running, admission.places) == (0, 0)


async def test_interactive_queries_go_before_batches_and_batches_have_few_slots() -> None:
    admission = make(ongoing=3, queued=8, batch_ongoing=1)
    (batch,) = await started(admission, 1, priority=Priority.BATCH)
    second, second_turn = await queued(admission, priority=Priority.BATCH)
    assert admission.running == 1, "a slot is free, but not for a second batch"
    interactive = await started(admission, 2)
    third, third_turn = await queued(admission)
    batch.release()
    await third_turn
    assert not second_turn.done(), "whoever came later but is interactive goes first"
    for ticket in (third, *interactive):
        ticket.release()
    await second_turn
    second.release()
    assert admission.places == 0


async def test_a_full_queue_lets_a_waiting_batch_go_for_an_interactive_query() -> None:
    admission = make(ongoing=1, queued=2)
    (running,) = await started(admission, 1)
    first, first_turn = await queued(admission, priority=Priority.BATCH)
    _, second_turn = await queued(admission, priority=Priority.BATCH)
    with pytest.raises(OverloadedError):
        admission.enter(Priority.BATCH)
    _, mine = await queued(admission)
    with pytest.raises(OverloadedError, match="interactive"):
        await second_turn
    assert not first_turn.done()
    running.release()
    await mine
    assert admission.running == 1
    first.release()
    with contextlib.suppress(asyncio.CancelledError):
        first_turn.cancel()
        await first_turn


async def test_a_query_that_expires_in_the_queue_is_dropped_and_frees_its_place() -> None:
    admission = make(ongoing=1)
    (running,) = await started(admission, 1)
    _, task = await queued(admission, seconds=0.02)
    with pytest.raises(DeadlineExceededError, match="waited for its turn"):
        await task
    assert (admission.waiting, admission.places) == (0, 1)
    assert shed(admission, "deadline") == 1
    ticket = admission.enter()
    with pytest.raises(DeadlineExceededError):
        await ticket.start(admission.clock() - 0.001)
    running.release()
    assert admission.places == 0


async def test_a_query_whose_turn_would_come_too_late_is_refused_at_once() -> None:
    admission = make(ongoing=1, queued=100)
    admission.held_s.add(1.0)  # slots are held for a second
    known(admission, 1.0)
    (running,) = await started(admission, 1)
    patient, patient_turn = await queued(admission, seconds=10)
    with pytest.raises(OverloadedError, match="too many for an answer"):
        await admission.enter().start(admission.clock() + 2.0)
    assert shed(admission, "overloaded") == 1
    assert admission.retry_after() == 2
    assert admission.places == 2
    running.release()
    await patient_turn
    patient.release()


async def test_a_query_whose_turn_leaves_no_time_for_the_text_pass_is_refused_at_once() -> None:
    admission = make(ongoing=1, queued=100)
    admission.held_s.add(1.0)  # its turn would come in a second
    known(admission, 2.0)  # and the text pass takes two, or three
    (running,) = await started(admission, 1)
    with pytest.raises(OverloadedError, match="too many for an answer"):
        await admission.enter().start(admission.clock() + 3.5)
    assert admission.waiting == 0
    patient, turn = await queued(admission, seconds=8.0)
    running.release()
    await turn
    patient.release()


async def test_a_query_that_could_not_be_answered_in_time_any_more_is_not_begun() -> None:
    admission = make(ongoing=1, queued=100)
    (running,) = await started(admission, 1)
    _, doomed = await queued(admission, seconds=5.0)
    known(admission, 30.0)  # answers have become slow meanwhile
    running.release()
    with pytest.raises(OverloadedError, match="cannot be answered in time"):
        await doomed
    assert (admission.running, admission.places) == (0, 0)


async def test_from_its_share_of_the_queue_on_queries_get_no_guides() -> None:
    admission = make(ongoing=1, queued=4, text_only_from=0.5)
    (running,) = await started(admission, 1)
    waiting = [await queued(admission) for _ in range(3)]
    said = []
    for ticket, turn in waiting:
        running.release()
        await turn
        said.append(ticket.text_only)
        running = ticket
    running.release()
    assert said == [BUSY, BUSY, ""], "with three and two in the queue, and not with one"
    assert shed(admission, "text_only") == 2


async def test_who_waited_half_of_the_time_allowed_gets_no_guides() -> None:
    admission = make(ongoing=1, queued=1_000, text_only_from=0.5)
    (running,) = await started(admission, 1)
    ticket, turn = await queued(admission, seconds=2.0)
    await asyncio.sleep(1.1)
    running.release()
    await turn
    assert ticket.text_only == BUSY
    ticket.release()


async def test_while_queries_are_refused_the_others_are_answered_by_words() -> None:
    admission = make(ongoing=2, queued=0)
    first, second = await started(admission, 2)
    with pytest.raises(OverloadedError):
        admission.enter()
    first.release()
    (third,) = await started(admission, 1)
    assert (first.text_only, second.text_only, third.text_only) == ("", "", BUSY)
    for ticket in (second, third):
        ticket.release()


@pytest.mark.parametrize("when", ["before its turn", "at its turn", "before the first step"])
async def test_a_cancelled_query_leaves_no_slot_behind(when: str) -> None:
    admission = make(ongoing=1, queued=4)
    (running,) = await started(admission, 1)
    if when == "before the first step":
        ticket = admission.enter()
        task = asyncio.create_task(ticket.start(admission.clock() + LONG))
    else:
        ticket, task = await queued(admission)
    if when == "at its turn":
        running.release()  # the slot is given, and nobody has taken note yet
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ticket.release()
    running.release()
    assert (admission.running, admission.waiting, admission.places) == (0, 0, 0)
    async with admission.slot(deadline=admission.clock() + 1):
        assert admission.running == 1
    assert admission.places == 0


async def test_slots_survive_a_storm_of_failures_and_cancellations() -> None:
    admission = make(ongoing=3, queued=20)

    async def query(number: int) -> None:
        async with admission.slot(
            deadline=admission.clock() + (0.002 if number % 5 == 0 else LONG),
            priority=Priority.BATCH if number % 3 == 0 else Priority.INTERACTIVE,
        ):
            await asyncio.sleep(0.001 * (number % 4))
            if number % 7 == 0:
                raise ValueError(number)

    tasks = []
    for number in range(300):
        tasks.append(asyncio.create_task(query(number)))
        if number % 4 == 0:
            await asyncio.sleep(0.001)
        if number % 11 == 0:
            tasks[number // 2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (admission.running, admission.waiting, admission.places) == (0, 0, 0)
    registry = admission._metrics.registry
    assert registry.get_sample_value("lodestone_queries_in_flight") == 0
    assert registry.get_sample_value("lodestone_queries_waiting") == 0


# -- how many at once ----------------------------------------------------------------------------------------------------------


def crowd(pace: ConcurrencyLimiter, *, clients: int, alone_s: float, cores: int, queries: int, allowed_s: float = 10.0) -> int:
    """Slots after so many queries of a service whose cores are shared by all that are at work."""
    for _ in range(10):
        pace.took(alone_s, beside=1, allowed_s=allowed_s)
    for _ in range(queries):
        at_work = min(clients, pace.slots)
        pace.took(alone_s * max(1.0, at_work / cores), beside=at_work, allowed_s=allowed_s)
    return pace.slots


def test_as_many_queries_run_at_once_as_do_not_slow_each_other_down() -> None:
    assert crowd(ConcurrencyLimiter(64, cpus=2), clients=200, alone_s=0.05, cores=2, queries=2_000) in range(6, 11)
    assert crowd(ConcurrencyLimiter(64, cpus=2), clients=200, alone_s=0.05, cores=8, queries=2_000) in range(28, 37)
    assert crowd(ConcurrencyLimiter(64, cpus=2), clients=200, alone_s=0.05, cores=1_000, queries=4_000) == 64
    hasty = crowd(ConcurrencyLimiter(64, cpus=2), clients=200, alone_s=0.05, cores=8, queries=2_000, allowed_s=0.4)
    assert hasty in range(14, 19), "a quarter of what they allow is twice what one takes alone"


def test_there_are_always_some_and_never_more_than_set() -> None:
    slow = ConcurrencyLimiter(64, cpus=2)
    slow.took(0.01, beside=1, allowed_s=10.0)
    for _ in range(500):
        slow.took(10.0, beside=slow.slots, allowed_s=10.0)
    assert slow.slots == 2
    assert ConcurrencyLimiter(3, cpus=8).slots == 3
    fixed = ConcurrencyLimiter(64, adaptive=False, cpus=2)
    assert crowd(fixed, clients=200, alone_s=0.05, cores=1, queries=500) == 64


def test_few_clients_change_nothing() -> None:
    pace = ConcurrencyLimiter(64, cpus=2)
    before = pace.slots
    assert crowd(pace, clients=3, alone_s=0.05, cores=2, queries=500) == before


async def test_what_guides_wait_for_slows_nobody_down() -> None:
    admission = make(ongoing=64, queued=8)
    (ticket,) = await started(admission, 1)
    spent = {"total": 3_000.0, "generate": 2_000.0, "guides": 900.0}
    answer = SearchResponse(query_id="q", stage="guides", hits=[], fusion="rrf", space_weights={}, timings_ms=spent)
    ticket.answered(answer)
    assert ticket.words_s == pytest.approx(0.1, abs=0.02)
    ticket.release()


def answer(total_s: float) -> SearchResponse:
    return SearchResponse(
        query_id="q", stage="text", hits=[], fusion="rrf", space_weights={}, timings_ms={"total": total_s * 1000}
    )


async def test_an_answer_must_be_ready_earlier_the_longer_sending_takes() -> None:
    now = [100.0]
    admission = Admission(limits=ServeSettings(max_ongoing=2), metrics=Metrics(), clock=lambda: now[0])
    (first,) = await started(admission, 1)
    assert first.due == first.deadline - 0.25, "what lies before this process takes its share"
    first.release()
    for _ in range(20):
        (ticket,) = await started(admission, 1)
        ticket.answered(answer(0.0))
        now[0] += 0.3  # until the last byte is sent
        ticket.release()
    assert admission.way_back_s(2.0) == pytest.approx(0.2 + 0.3, abs=0.05)
    assert admission.way_back_s(0.4) == 0.1, "most of a short deadline stays for the work"


async def test_who_has_only_the_way_back_left_is_not_begun() -> None:
    admission = make(ongoing=2)
    ticket = admission.enter()
    ticket.arrived -= 9.8  # of ten seconds
    with pytest.raises(DeadlineExceededError):
        await ticket.start(ticket.arrived + 10.0)
    assert admission.places == 0


async def test_streams_and_batches_say_nothing_of_how_long_sending_takes() -> None:
    admission = make(ongoing=2)
    for _ in range(20):
        async with admission.slot(deadline=admission.clock() + LONG, priority=Priority.BATCH) as ticket:
            ticket.answered(answer(0.0))
        assert ticket.sending_s is None
