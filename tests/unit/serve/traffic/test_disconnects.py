"""Work on a request ends when its client leaves: not before its body is here, and not once its answer is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from lodestone_serve.traffic.arrivals import BODY
from lodestone_serve.traffic.disconnects import CancelDisconnected

BEGUN: Message = {"type": "http.response.start", "status": 200, "headers": []}
END: Message = {"type": "http.response.body", "body": b"", "more_body": False}
LEFT: Message = {"type": "http.disconnect"}


def body(text: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": text, "more_body": more}


class Client:
    """Messages of a client, each as soon as it is asked for; then nothing until `leave`."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self._gone = asyncio.Event()
        self.sent: list[Message] = []

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop(0)
        await self._gone.wait()
        return LEFT

    async def send(self, message: Message) -> None:
        self.sent.append(message)


class Application:
    """Reads the body, says what it got, and then does `work`."""

    def __init__(self, work: Callable[[Receive, Send], Any]) -> None:
        self._work = work
        self.got = b""
        self.cancelled = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.got += message.get("body", b"")
            if not message.get("more_body", False):
                break
        try:
            await self._work(receive, send)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def forever(_receive: Receive, _send: Send) -> None:
    await asyncio.Event().wait()


async def call(application: Any, client: Client, *, carried: bytes | None = None) -> None:
    scope: dict[str, Any] = {"type": "http"} if carried is None else {"type": "http", BODY: carried}
    async with asyncio.timeout(10):
        await CancelDisconnected(application)(scope, client.receive, client.send)


async def test_a_client_that_leaves_ends_the_work_for_it() -> None:
    for carried in (None, b"one two"):
        client, application = Client(body(b"one ", more=True), body(b"two")), Application(forever)
        asyncio.get_running_loop().call_later(0.01, client.leave)
        await call(application, client, carried=carried)
        assert (application.got, application.cancelled, client.sent) == (b"one two", True, [])


async def test_who_asks_for_more_after_the_body_learns_that_the_client_left() -> None:
    told: list[Message] = []

    async def listen(receive: Receive, send: Send) -> None:
        await send(BEGUN)
        await send(END)
        told.append(await receive())

    client = Client(body(b""))
    application = Application(listen)
    asyncio.get_running_loop().call_later(0.01, client.leave)
    await call(application, client)
    assert (told, application.cancelled) == ([LEFT], False)


async def test_what_follows_a_complete_answer_is_not_cut_off() -> None:
    """uvicorn reports a disconnect as soon as the last message is sent, and background tasks come after it."""
    done = asyncio.Event()

    async def answer_and_go_on(_receive: Receive, send: Send) -> None:
        await send(BEGUN)
        await send(END)
        client.leave()
        await asyncio.sleep(0.02)
        done.set()

    client = Client(body(b""))
    application = Application(answer_and_go_on)
    await call(application, client)
    assert done.is_set() and not application.cancelled


async def test_an_answer_that_has_only_begun_is_cut_off() -> None:
    async def begin(_receive: Receive, send: Send) -> None:
        await send(BEGUN)
        await send({**END, "more_body": True})
        await asyncio.Event().wait()

    client = Client(body(b""))
    application = Application(begin)
    asyncio.get_running_loop().call_later(0.01, client.leave)
    await call(application, client)
    assert application.cancelled


async def test_half_a_body_is_the_applications_to_judge() -> None:
    client = Client(body(b"half", more=True))
    seen: list[Message] = []

    async def read(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.extend([await receive(), await receive()])
        await asyncio.sleep(0.02)
        seen.append(body(b"judged"))

    client.leave()
    await call(read, client)
    assert seen == [body(b"half", more=True), LEFT, body(b"judged")]


async def test_a_time_limit_of_the_applications_own_is_its_error() -> None:
    async def late(_receive: Receive, _send: Send) -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await call(Application(late), Client(body(b"")))


async def test_an_outer_time_limit_still_cancels() -> None:
    application = Application(forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await CancelDisconnected(application)({"type": "http"}, (client := Client(body(b""))).receive, client.send)
    assert application.cancelled


async def test_a_lifespan_passes() -> None:
    seen: list[str] = []

    async def lifespan(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    client = Client()
    await CancelDisconnected(lifespan)({"type": "lifespan"}, client.receive, client.send)
    assert seen == ["lifespan"]
