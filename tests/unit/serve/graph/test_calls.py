"""A call of another deployment ends by its deadline, goes with its caller, and fails as Lodestone's errors do."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.exceptions import BackPressureError, RequestCancelledError
from tests.support.engines import Editor

from lodestone.errors import (
    DeadlineExceededError,
    ModelUnavailableError,
    OverloadedError,
    ServiceUnavailableError,
)
from lodestone.generators.base import Guide, GuideRequest, PictureEdit
from lodestone.generators.engines.prior import Prior
from lodestone.query.contracts import EncodedTexts
from lodestone_serve.graph.adapters import Description, RemoteEncoder, RemoteGenerator
from lodestone_serve.graph.calls import StageCall, from_the_wire, on_the_wire


class Response:
    """As Serve's `DeploymentResponse`."""

    def __init__(self, work):
        self.work = work
        self.cancelled = False

    def __await__(self):
        return self.work().__await__()

    def cancel(self):
        self.cancelled = True


class Stream(Response):
    """As Serve's `DeploymentResponseGenerator`: of the items of a list."""

    def __init__(self, items):
        super().__init__(None)
        self.items = list(items)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.items:
            raise StopAsyncIteration
        return await _answered(self.items.pop(0))


async def _answered(answer):
    if isinstance(answer, float):
        await asyncio.sleep(answer)
    if isinstance(answer, BaseException):
        raise answer
    return answer


class Handle:
    """As Serve's handle; each answer is a value, an exception, or seconds to wait (a float), or a list of them for a stream."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked: list[tuple[str, tuple, dict]] = []
        self.responses: list[Response] = []

    def options(self, *, stream):
        assert stream
        return self

    def __getattr__(self, method):
        return _Method(self, method)


class _Method:
    def __init__(self, handle, method):
        self.handle, self.method = handle, method

    def remote(self, *arguments, **named):
        self.handle.asked.append((self.method, arguments, named))
        answer = self.handle.answers.pop(0)

        response = Stream(answer) if isinstance(answer, list) else Response(lambda: _answered(answer))
        self.handle.responses.append(response)
        return self.handle.responses[-1]


def raised_there(error: Exception) -> Exception:
    """What a caller gets of an error that the replica's method raised."""
    return RayTaskError("encode_texts", "Traceback …", error).as_instanceof_cause()


def stage(handle: Handle, *, again: bool = False) -> StageCall:
    return StageCall("Encoders", handle, again=again)


async def test_the_deadline_goes_along_as_a_time_of_day_and_ends_the_call():
    handle = Handle("fine", 60.0)
    before = time.time()
    assert await stage(handle).call("encode", "x", deadline=time.monotonic() + 5) == "fine"
    until = handle.asked[0][2]["until"]
    assert before + 4.9 < until < time.time() + 5.1
    with pytest.raises(TimeoutError):
        await stage(handle).call("encode", "x", deadline=time.monotonic() + 0.5)
    assert handle.responses[1].cancelled


async def test_nothing_is_asked_when_no_time_is_left():
    handle = Handle()
    with pytest.raises(TimeoutError):
        await stage(handle).call("encode", deadline=time.monotonic() - 1)
    assert handle.asked == []


async def test_a_caller_that_goes_away_takes_its_call_along():
    handle = Handle(60.0)
    task = asyncio.create_task(stage(handle, again=True).call("encode"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handle.responses[0].cancelled
    assert len(handle.asked) == 1


async def test_a_full_queue_is_an_overload_and_is_not_asked_again():
    handle = Handle(BackPressureError(9, 9))
    with pytest.raises(OverloadedError, match="Encoders") as caught:
        await stage(handle, again=True).call("encode")
    assert caught.value.status == 429
    assert len(handle.asked) == 1


@pytest.mark.parametrize("loss", [ActorDiedError(), RequestCancelledError("r"), asyncio.CancelledError()])
async def test_a_call_whose_replica_died_is_made_once_more_where_that_does_no_harm(loss):
    assert await stage(Handle(loss, "fine"), again=True).call("encode") == "fine"
    for handle, again in ((Handle(loss, "fine"), False), (Handle(loss, loss), True)):
        with pytest.raises(ServiceUnavailableError, match="Encoders"):
            await stage(handle, again=again).call("encode")


async def test_an_error_of_ours_comes_back_as_it_was_raised():
    error = ModelUnavailableError("no weights", hint="install them", package="open_clip")
    with pytest.raises(ModelUnavailableError) as caught:
        await stage(Handle(raised_there(error)), again=True).call("encode")
    assert type(caught.value) is ModelUnavailableError
    assert (caught.value.message, caught.value.hint, caught.value.details) == ("no weights", "install them", error.details)


async def test_what_was_dropped_there_for_its_deadline_is_a_time_out_here():
    for late in (DeadlineExceededError("too late"), TimeoutError("too late")):
        with pytest.raises(TimeoutError) as caught:
            await stage(Handle(raised_there(late)), again=True).call("encode")
        assert str(caught.value) == "too late"


async def test_an_encoder_sends_all_texts_of_a_query_in_one_call_with_the_collections_they_are_for():
    encoded = EncodedTexts({}, {"labels-1": np.zeros((2, 4), np.float32)})
    handle = Handle(encoded)
    encoder = RemoteEncoder(stage(handle), {})
    encoder._collections = {"labels": "labels-1"}
    assert await encoder.encode_texts(["a cat", "a dog"]) is encoded
    assert handle.asked[0][:2] == ("encode_texts", (["a cat", "a dog"], {"labels": "labels-1"}))


async def test_a_generator_is_asked_without_the_clock_of_this_process_and_tells_its_version():
    guide = Guide("prior/0", "prior", 0.5, {})
    handle = Handle([Description("v7", 2, cacheable=True), [guide]])
    generator = RemoteGenerator(stage(handle), Prior())
    assert not generator.cacheable and not generator.edits
    guides = await generator.generate(GuideRequest("a cat", "a cat", 1, deadline=time.monotonic() + 9))
    assert guides == [guide]
    (sent,) = handle.asked[0][1]
    assert sent.deadline is None
    assert handle.asked[0][2]["until"] > time.time() + 8
    assert (generator.version, generator.guides_a_call, generator.cacheable) == ("v7", 2, True)


async def test_a_picture_to_edit_is_sent_to_the_replica_of_an_engine_that_edits():
    handle = Handle([Description("v7", None, cacheable=True), [Guide("editor/0", "editor", 0.5, {})]])
    generator = RemoteGenerator(stage(handle), Editor(None))
    assert generator.edits
    edit = PictureEdit(np.zeros((2, 2, 3), np.uint8), 0.5)
    await generator.generate(GuideRequest("a cat", "a cat", 1, edit=edit))
    assert handle.asked[0][1][0].edit is edit


async def test_a_generator_that_may_sleep_is_not_woken_by_warming_up():
    awake, asleep = Handle(Description("v1", None, cacheable=True)), Handle()
    await RemoteGenerator(stage(awake), Prior()).warm_up()
    await RemoteGenerator(stage(asleep), Prior(), describe=False).warm_up()
    assert [method for method, _, _ in awake.asked] == ["describe"]
    assert asleep.asked == []


async def test_what_a_replica_yields_comes_one_by_one_and_a_reader_that_leaves_cancels_the_rest():
    handle = Handle(["first", "second", 60.0])
    items = stage(handle).streaming().stream("draw", "x", deadline=time.monotonic() + 30)
    assert [await anext(items), await anext(items)] == ["first", "second"]
    assert not handle.responses[0].cancelled
    await items.aclose()
    assert handle.responses[0].cancelled
    assert [item async for item in stage(Handle(["a", "b"])).stream("draw")] == ["a", "b"]


async def test_a_stream_ends_by_its_deadline_and_fails_as_calls_do():
    handle = Handle(["first", 60.0])
    items = stage(handle).stream("draw", deadline=time.monotonic() + 0.1)
    assert await anext(items) == "first"
    with pytest.raises(TimeoutError):
        await anext(items)
    assert handle.responses[0].cancelled
    with pytest.raises(TimeoutError):
        await anext(stage(Handle()).stream("draw", deadline=time.monotonic() - 1))
    for raised, expected in (
        (BackPressureError(9, 9), OverloadedError),
        (ActorDiedError(), ServiceUnavailableError),
        (asyncio.CancelledError(), ServiceUnavailableError),
        (raised_there(ModelUnavailableError("no weights")), ModelUnavailableError),
        (raised_there(DeadlineExceededError("too late")), TimeoutError),
    ):
        items = stage(Handle(["first", raised]), again=True).stream("draw")
        assert await anext(items) == "first"
        with pytest.raises(expected):
            await anext(items)


async def test_guides_that_a_replica_drew_before_it_failed_are_passed_on():
    guides = [Guide(f"prior/{number}", "prior", 0.5, {}) for number in range(2)]
    handle = Handle([Description("v7", 2, cacheable=True), [guides[0]], [guides[1]], ActorDiedError()])
    generator = RemoteGenerator(stage(handle), Prior())
    batches = generator.stream(GuideRequest("a cat", "a cat", 9))
    came = [await anext(batches), await anext(batches)]
    with pytest.raises(ServiceUnavailableError):
        await anext(batches)
    assert (came, generator.version) == ([[guides[0]], [guides[1]]], "v7")


async def test_a_generator_says_when_it_was_too_late_and_when_nothing_was_charged():
    request = GuideRequest("a cat", "a cat", 1, deadline=time.monotonic() + 0.05)
    with pytest.raises(DeadlineExceededError):
        await RemoteGenerator(stage(Handle([60.0])), Prior()).generate(request)
    with pytest.raises(OverloadedError) as caught:
        await RemoteGenerator(stage(Handle([BackPressureError(1, 1)])), Prior()).generate(GuideRequest("a", "a", 1))
    assert caught.value.details["charged"] is False


def test_a_deadline_survives_the_way_there_and_one_that_passed_is_now():
    deadline = time.monotonic() + 30
    assert from_the_wire(on_the_wire(deadline)) == pytest.approx(deadline, abs=0.05)
    assert from_the_wire(time.time() - 60) <= time.monotonic()
    assert on_the_wire(None) is None
    assert from_the_wire(None) is None
