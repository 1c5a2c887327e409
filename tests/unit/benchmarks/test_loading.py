"""The load generator measures what users would feel, stays within its bounds, and judges answers and recoveries."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.loading import pages, plots
from benchmarks.loading.answers import Ranking, Reference
from benchmarks.loading.generator import NOT_OURS, STREAM, Generator, Question
from benchmarks.loading.outcomes import Outcome, Verdict, judged
from benchmarks.loading.questions import query_mix
from benchmarks.loading.recovery import Struck, aftermaths
from benchmarks.loading.schedule import MOST_REQUESTS, Arrival, Phase, arrivals
from benchmarks.loading.summary import by_phase, reasons, summarise

ANSWER = {"stage": "guides", "hits": [{"image_id": "a", "score": 1.0}, {"image_id": "b", "score": 0.5}]}
Reply = Callable[[dict[str, Any]], Awaitable[tuple[int, bytes, dict[str, str]]]]


@asynccontextmanager
async def answering(reply: Reply) -> AsyncIterator[str]:
    """A server on loopback whose answers `reply` makes of the request's JSON; closes each connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            status, body, headers = await reply(json.loads(await reader.readexactly(size)))
            if status:
                lines = [f"{name}: {value}" for name, value in {**headers, "Content-Length": len(body)}.items()]
                writer.write("\r\n".join([f"HTTP/1.1 {status} X", "Connection: close", *lines, "", ""]).encode() + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def saying(status: int, answer: Any, **headers: str) -> Reply:
    async def reply(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode(), headers

    return reply


def ask(deadline: float = 5.0, path: str = "/v1/search") -> Callable[[Arrival], Question]:
    return lambda arrival: Question({"query": str(arrival.number)}, deadline=deadline, path=path)


def due(*moments: float) -> list[Arrival]:
    return [Arrival(number, at, 0) for number, at in enumerate(moments)]


def outcome(number: int, at: float, verdict: Verdict, *, took: float = 0.1, **more: Any) -> Outcome:
    return Outcome(number, 0, at, at, at + took, 200, verdict, **more)


# When requests are sent


def test_a_seed_fixes_every_moment_and_another_seed_changes_them() -> None:
    phases = [Phase(20, 5), Phase(0, 2), Phase(50, 4)]
    once, again, other = (arrivals(phases, seed=seed) for seed in (3, 3, 4))
    assert once == again
    assert [one.at for one in once] != [one.at for one in other]
    assert [one.number for one in once] == list(range(300))
    assert [one.at for one in once] == sorted(one.at for one in once)
    assert sum(one.phase == 0 for one in once) == 100
    assert not [one for one in once if 5 <= one.at < 7]


def test_gaps_are_those_of_independent_users() -> None:
    gaps = np.diff([one.at for one in arrivals([Phase(100, 50)], seed=1)])
    assert np.mean(gaps) == pytest.approx(0.01, rel=0.02)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)  # exponential; a metronome's would be 0


@pytest.mark.parametrize("phases", [[Phase(MOST_REQUESTS, 2)], [Phase(1, 3_000), Phase(1, 3_000)]])
def test_a_load_is_bounded_in_requests_and_time(phases: list[Phase]) -> None:
    with pytest.raises(ValueError, match="bounded"):
        arrivals(phases, seed=0)


def test_questions_are_the_same_for_the_same_seed() -> None:
    first, again, other = (query_mix(deadline=2, seed=seed, streams=0.5) for seed in (1, 1, 2))
    several = [[(one.path, one.body["query"]) for one in map(maker, due(*range(40)))] for maker in (first, again, other)]
    assert several[0] == several[1] != several[2]
    assert {path for path, _ in several[0]} == {"/v1/search", STREAM}


# What is measured


async def test_a_stall_counts_against_every_request_that_was_due_meanwhile() -> None:
    """A closed loop would have sent one request into the stall and reported one slow answer."""
    everybody = asyncio.Barrier(5)  # nobody is answered before all have asked

    async def stalls(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        await everybody.wait()
        return 200, json.dumps(ANSWER).encode(), {}

    async with answering(stalls) as url:
        outcomes = await Generator(url).offer(due(0.0, 0.1, 0.2, 0.3, 0.4), ask())
    assert [one.verdict for one in outcomes] == [Verdict.COMPLETE] * 5
    for one in outcomes:
        assert one.latency >= 0.4 - one.due


async def test_latency_counts_from_when_a_request_was_due_however_late_it_was_sent() -> None:
    async with answering(saying(200, ANSWER)) as url:
        until = time.monotonic() + 3.25
        # The generator's own process is held up by the first answer, until after the last request was due.
        generator = Generator(url, observe=lambda _: time.sleep(max(0.0, until - time.monotonic())))
        outcomes = await generator.offer(due(0.0, 0.05, 3.0), ask())
    late = outcomes[-1]
    assert late.sent - late.due > 0.1
    assert late.latency >= late.sent - late.due
    assert summarise(outcomes, name="", seconds=1).lateness_p99 > 100


async def test_the_deadline_travels_with_the_request() -> None:
    seen: list[dict[str, Any]] = []

    async def reply(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        seen.append(body)
        return 200, json.dumps(ANSWER).encode(), {}

    async with answering(reply) as url:
        (one,) = await Generator(url).offer(due(0.0), ask(1.5))
    assert seen == [{"query": "0", "deadline_ms": 1500}]
    assert (one.hits, one.scores) == (("a", "b"), (1.0, 0.5))


@pytest.mark.parametrize(
    ("reply", "verdict", "code"),
    [
        (saying(200, ANSWER), Verdict.COMPLETE, ""),
        (saying(200, {**ANSWER, "stage": "text", "dropped": ["guides: the service is busy"]}), Verdict.TEXT_ONLY, ""),
        (
            saying(
                200, {**ANSWER, "stage": "text", "dropped": ["exact scores of all candidates: out of time", "guides: busy"]}
            ),
            Verdict.PARTIAL,
            "",
        ),
        (saying(200, {**ANSWER, "dropped": ["space 'bridge': out of time"]}), Verdict.PARTIAL, ""),
        (saying(429, {"code": "overloaded", "status": 429}, **{"Retry-After": "3"}), Verdict.SHED, "overloaded"),
        (saying(504, {"code": "deadline_exceeded"}), Verdict.EXPIRED, "deadline_exceeded"),
        (saying(408, b"Request timed out"), Verdict.EXPIRED, NOT_OURS),
        (saying(503, b"Request dropped"), Verdict.FAILED, NOT_OURS),
        (saying(500, {"code": "internal_error"}), Verdict.FAILED, "internal_error"),
        (saying(200, b"not json"), Verdict.FAILED, ""),
        (saying(200, {"no": "hits"}), Verdict.FAILED, ""),
        (saying(0, b""), Verdict.FAILED, ""),
    ],
)
async def test_every_end_of_a_request_has_its_verdict(reply: Reply, verdict: Verdict, code: str) -> None:
    async with answering(reply) as url:
        (one,) = await Generator(url).offer(due(0.0), ask())
    assert (one.verdict, one.code) == (verdict, code)
    assert one.retry_after == (3 if verdict == Verdict.SHED else None)
    assert bool(one.error) == (verdict == Verdict.FAILED and one.status == 0)


async def test_nobody_answering_is_a_failure_and_silence_is_a_hang_that_ends() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        (refused,) = await Generator(f"http://127.0.0.1:{taken.getsockname()[1]}").offer(due(0.0), ask())
    assert refused.verdict == Verdict.FAILED
    assert "ConnectionRefusedError" in refused.error

    async def silent(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        await asyncio.Event().wait()
        return 200, b"", {}

    async with answering(silent) as url:
        (hung,) = await Generator(url, grace=0.2).offer(due(0.0), ask(0.2))
    assert hung.verdict == Verdict.HUNG
    assert 0.4 <= hung.latency < 60


async def test_what_is_answered_after_the_deadline_is_late_and_no_goodput() -> None:
    async def slow(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        await asyncio.sleep(0.3)
        return 200, json.dumps(ANSWER).encode(), {}

    async with answering(slow) as url:
        outcomes = await Generator(url).offer(due(0.0, 0.0), ask(0.1))
    found = summarise(outcomes, name="", seconds=1)
    assert found.verdicts == {Verdict.LATE: 2}
    assert found.goodput == 0
    assert found.p50 >= 300  # late answers are part of the latency, or it would flatter


async def test_requests_beyond_the_bound_are_counted_and_never_delayed() -> None:
    gate = asyncio.Event()

    async def waits(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        await gate.wait()
        return 200, json.dumps(ANSWER).encode(), {}

    async with answering(waits) as url:
        generator = Generator(url, most_open=2, observe=lambda one: gate.set() if one.number == 3 else None)
        outcomes = await generator.offer(due(0.0, 0.05, 0.1, 0.15), ask())
    assert [one.verdict for one in outcomes] == [Verdict.COMPLETE] * 2 + [Verdict.UNSENT] * 2


async def test_a_stream_is_timed_to_its_first_results_and_to_its_end() -> None:
    def event(body: dict[str, Any]) -> str:
        return f"event: {body['type']}\ndata: {json.dumps(body)}\n\n"

    whole = event({"type": "plan"}) + event({"type": "results", "response": ANSWER})
    answer = (whole + event({"type": "done", "response": ANSWER})).encode()
    async with answering(saying(200, answer)) as url:
        (one,) = await Generator(url).offer(due(0.0), ask(path=STREAM))
    assert one.verdict == Verdict.COMPLETE
    assert one.first is not None
    assert one.due <= one.first <= one.ended
    async with answering(saying(200, whole.encode())) as url:
        (cut,) = await Generator(url).offer(due(0.0), ask(path=STREAM))
    assert (cut.verdict, "without its last event" in cut.error) == (Verdict.FAILED, True)
    problem = {"type": "error", "problem": {"status": 504, "code": "deadline_exceeded"}}
    async with answering(saying(200, (whole + event(problem)).encode())) as url:
        (late,) = await Generator(url).offer(due(0.0), ask(path=STREAM))
    assert (late.verdict, late.code) == (Verdict.EXPIRED, "deadline_exceeded")


async def test_a_closed_loop_asks_again_as_soon_as_it_is_answered() -> None:
    async with answering(saying(200, ANSWER)) as url:
        outcomes = await Generator(url).saturate(ask(), clients=2, seconds=3.0)
    assert len(outcomes) > 2
    assert [one.number for one in outcomes] == list(range(len(outcomes)))


@pytest.mark.parametrize("url", ["http://example.org", "http://10.0.0.1:7860", "https://192.0.2.7", "not a url", ""])
def test_load_is_sent_to_this_machine_alone(url: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        Generator(url)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "127.0.0.2"])
async def test_load_is_sent_to_this_machine_by_any_of_its_names(name: str) -> None:
    async with answering(saying(200, ANSWER)) as url:
        (outcome,) = await Generator(url.replace("127.0.0.1", name)).offer(due(0.0), ask())
    # Nothing listens at the second loopback address: the load was sent there, and refused by the machine, not by the generator.
    assert outcome.verdict is (Verdict.FAILED if name == "127.0.0.2" else Verdict.COMPLETE)


async def test_the_loopback_address_of_version_six_is_this_machine_too() -> None:
    (outcome,) = await Generator("http://[::1]:1").offer(due(0.0), ask())
    assert (outcome.number, outcome.verdict) == (0, Verdict.FAILED)  # nothing listens at port 1


# What is made of it


def test_a_request_belongs_to_the_phase_in_which_it_was_due() -> None:
    phases = [Phase(2, 1, "slow"), Phase(0, 5, measured=False), Phase(4, 1, "fast")]
    outcomes = [
        Outcome(number, one.phase, one.at, one.at, one.at + 3.0, 200, Verdict.COMPLETE)
        for number, one in enumerate(arrivals(phases, seed=0))
    ]
    slow, fast = by_phase(outcomes, phases)
    assert (slow.name, slow.requests, slow.offered) == ("slow", 2, 2)
    assert (fast.name, fast.requests, fast.goodput) == ("fast", 4, 4)


def test_percentiles_shares_and_the_histogram_agree() -> None:
    outcomes = [outcome(number, number, Verdict.COMPLETE, took=0.01 * (number + 1)) for number in range(100)]
    outcomes += [outcome(number, number, Verdict.SHED, took=0.001, retry_after=2.0) for number in range(100, 200)]
    found = summarise(outcomes, name="x", seconds=10)
    assert (found.offered, found.goodput) == (20, 10)
    assert found.p50 == pytest.approx(505, abs=10)
    assert found.p99 == pytest.approx(990, abs=10)
    assert found.share(Verdict.SHED) == 0.5
    assert found.share_of_answers(Verdict.TEXT_ONLY) == 0
    assert sum(found.histogram) == 100  # refusals are quick, and no answers
    assert found.retry_after == 2
    assert json.loads(json.dumps(found.as_json()))["verdicts"] == {"complete": 100, "shed": 100}


def test_nothing_answered_gives_no_latency() -> None:
    found = summarise([outcome(0, 0, Verdict.FAILED, error="x")], name="x", seconds=1)
    assert np.isnan(found.p50)
    assert found.as_json()["p50_ms"] is None
    assert reasons([outcome(0, 0, Verdict.FAILED, code="store_error")]) == "1 x 200 store_error"


def test_an_answer_without_hits_or_after_its_deadline_is_not_good() -> None:
    assert judged(200, latency=0.1, deadline=1, answer=ANSWER) == Verdict.COMPLETE
    assert judged(200, latency=1.1, deadline=1, answer=ANSWER) == Verdict.LATE
    late_record = {**ANSWER, "dropped": ["the record of this query, which comes late if at all: out of time"]}
    assert judged(200, latency=0.1, deadline=1, answer=late_record) == Verdict.COMPLETE


# Right and wrong


def test_answers_are_compared_picture_by_picture_but_for_ties() -> None:
    wanted = Ranking(("a", "b", "c"), (3.0, 2.0, 1.0))
    assert wanted.is_like(Ranking(("a", "b", "c"), (3.0, 2.00001, 1.0)))
    assert not wanted.is_like(Ranking(("a", "c", "b"), (3.0, 2.0, 1.0)))
    assert not wanted.is_like(Ranking(("a", "b", "x"), (3.0, 2.0, 0.5)))
    assert not wanted.is_like(Ranking(("a", "b"), (3.0, 2.0)))
    assert Ranking(("a", "b"), (3.0, -0.0001)).is_like(Ranking(("a", "b"), (3.0, 0.0001)))  # rounding, about nought
    tied = Ranking(("a", "b", "c"), (3.0, 2.0, 2.0))
    assert tied.is_like(Ranking(("a", "c", "b"), (3.0, 2.0, 2.0)))
    assert tied.is_like(Ranking(("a", "b", "x"), (3.0, 2.0, 2.0)))  # tied with what stood just below


def test_an_answer_is_held_to_what_it_says_of_itself() -> None:
    whole, words = Ranking(("a", "b"), (2.0, 1.0)), Ranking(("b", "a"), (2.0, 1.0))
    reference = Reference(lambda number: number % 1, {0: [whole]}, {0: words})

    def said(verdict: Verdict, ranking: Ranking, *left_out: str) -> bool:
        return reference.contradicted_by(outcome(0, 0, verdict, hits=ranking.hits, scores=ranking.scores, left_out=left_out))

    assert not said(Verdict.COMPLETE, whole)
    assert said(Verdict.COMPLETE, words)
    assert not said(Verdict.TEXT_ONLY, words, "guides: the service is busy")
    assert said(Verdict.TEXT_ONLY, whole, "guides: the service is busy")
    assert not said(Verdict.PARTIAL, words, "space 'bridge': out of time")
    assert said(Verdict.LATE, words)
    assert not said(Verdict.FAILED, words)


def test_recovery_runs_from_the_fault_to_the_first_good_answer_after_the_last_failure() -> None:
    verdicts = [Verdict.COMPLETE] * 10 + [Verdict.FAILED] * 3 + [Verdict.COMPLETE] + [Verdict.HUNG] + [Verdict.COMPLETE] * 15
    outcomes = [outcome(number, float(number), verdict) for number, verdict in enumerate(verdicts)]
    (found,) = aftermaths(outcomes, [Struck("a replica", 9.5)], end=30.0, reference=Reference(lambda number: number, {}, {}))
    assert (found.requests, found.failed, found.hung, found.wrong) == (20, 4, 1, 0)
    assert found.recovery == pytest.approx(15.1 - 9.5)
    assert found.silence == pytest.approx(13.1 - 9.5)
    assert found.recovered
    assert found.error_rate == pytest.approx(0.2)


def test_faults_are_told_apart_and_what_never_recovers_says_so() -> None:
    verdicts = [Verdict.COMPLETE] * 5 + [Verdict.COMPLETE] * 5 + [Verdict.FAILED] * 5
    outcomes = [outcome(number, float(number), verdict) for number, verdict in enumerate(verdicts)]
    harmless, fatal = aftermaths(
        outcomes,
        [Struck("one", 4.5, 6.0), Struck("two", 9.5)],
        end=15.0,
        reference=Reference(lambda number: 0, {0: [Ranking((), ())]}, {}),
    )
    assert (harmless.failed, harmless.recovery, harmless.recovered, harmless.wrong) == (0, 0.0, True, 0)
    assert (fatal.failed, fatal.recovery, fatal.recovered) == (5, pytest.approx(5.5), False)


def test_requests_under_way_when_the_fault_struck_are_its_own() -> None:
    outcomes = [outcome(0, 0.0, Verdict.FAILED, took=2.0), outcome(1, 0.1, Verdict.COMPLETE, took=2.0)]
    (found,) = aftermaths(outcomes, [Struck("x", 1.0)], end=5.0, reference=Reference(lambda number: 0, {}, {}))
    assert (found.requests, found.failed) == (1, 1)


def test_a_request_that_the_next_fault_cuts_off_is_not_the_former_ones() -> None:
    outcomes = [outcome(number, float(number), Verdict.COMPLETE) for number in range(5)]
    outcomes += [outcome(5, 4.5, Verdict.FAILED, took=1.0), outcome(6, 4.7, Verdict.HUNG, took=5.0)]
    outcomes += [outcome(number, float(number), Verdict.COMPLETE) for number in range(7, 12)]
    reference = Reference(lambda number: 0, {}, {})
    first, second = aftermaths(outcomes, [Struck("one", 0.5), Struck("two", 5.0)], end=12.0, reference=reference)
    assert (first.failed, first.hung) == (1, 1)  # it was silent since before
    assert (second.failed, second.recovered) == (1, True)


def test_who_waits_for_what_the_next_fault_struck_is_no_sign_of_the_former_one() -> None:
    outcomes = [outcome(number, float(number), Verdict.COMPLETE) for number in range(5)]
    outcomes += [outcome(number, 4.5 + number / 100, Verdict.EXPIRED, took=5.0) for number in range(5, 9)]
    outcomes += [outcome(number, float(number), Verdict.COMPLETE) for number in range(10, 15)]
    reference = Reference(lambda number: 0, {}, {})
    first, second = aftermaths(outcomes, [Struck("one", 0.5), Struck("two", 5.0)], end=15.5, reference=reference)
    assert (first.failed, first.recovered) == (0, True)
    assert (second.failed, second.recovered) == (4, True)


# Where it is written


def test_figures_replace_their_section_of_a_page_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "load.md"
    page.write_text("before\n<!-- one -->\nold\n<!-- /one -->\nafter\n")
    for _ in range(2):
        pages.put(page, "one", "new\n")
    assert page.read_text() == "before\n<!-- one -->\nnew\n<!-- /one -->\nafter\n"
    with pytest.raises(ValueError, match="two"):
        pages.put(page, "two", "new")


def test_every_plot_is_drawn_even_of_few_outcomes(tmp_path: Path) -> None:
    outcomes = [outcome(number, float(number), verdict) for number, verdict in enumerate(itertools.islice(Verdict, 9))]
    summaries = [summarise(outcomes, name="1 x", seconds=9.0), summarise(outcomes[:1], name="2 x", seconds=9.0)]
    plots.latency_against_load({"ours": summaries, "peer": summaries}, tmp_path / "a.png", title="t")
    plots.goodput_against_load({"ours": summaries}, tmp_path / "b.png", deadline=2.0, title="t")
    plots.timeline(outcomes, [Struck("a replica", 1.0), Struck("the catalog", 2.0, 3.0)], tmp_path / "c.png", title="t")
    plots.steps([(1.0, "step")], outcomes, [(0.0, 1, 1), (2.0, 2, 1), (3.0, 2, 2)], tmp_path / "d.png")
    assert all((tmp_path / f"{name}.png").stat().st_size > 5_000 for name in "abcd")
