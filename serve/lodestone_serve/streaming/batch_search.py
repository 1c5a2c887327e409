"""Batches of queries in one request: one line of JSON for each query and each answer, streamed, and cancelled with the reader.

Lines are read as fast as they come, so that a client may send all of them before it reads anything; the limit of the body
bounds what that costs. Answers wait for the client: while it does not read, no further query begins. The queries of all
batches share `serve.load.batch_ongoing` turns, each of which then asks for a slot behind the interactive queries.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from lodestone.errors import InvalidRequestError, LodestoneError, OverloadedError
from lodestone.query.asking.request_context import RequestContext
from lodestone_schemas.api import Problem, SearchRequest, SearchResponse
from lodestone_schemas.batch import BatchAnswer, BatchLine
from lodestone_serve.policy import NDJSON
from lodestone_serve.responses.pages import FieldSelection
from lodestone_serve.responses.problems import Refusal, problem_of, unexpected, validation_problem
from lodestone_serve.traffic.admission import Admission
from lodestone_serve.traffic.askers import asker_of
from lodestone_serve.traffic.tickets import Priority

MAX_LINE_BYTES: Final = 64 * 1024
_IDLE_S: Final = 60.0  # without a byte from the client, or to it
_PATIENCE_S: Final = 600.0  # that a question waits for its turn
_SHARED: Final = 0.75  # share of the open batches that named senders may have who have one already
_log = structlog.get_logger("lodestone.serve")


class Ask(Protocol):
    """Answers one question: `SearchUseCases.answer` for one caller."""

    def __call__(self, request: SearchRequest, *, request_context: RequestContext) -> Awaitable[SearchResponse]:
        """Return the final answer; raise as `SearchUseCases.answer`."""


class Batches:
    """All batches of a replica, for one event loop.

    Args:
        ongoing: Number of queries worked on at once, of all batches together.
        most: Number of batches open at once.
        most_lines: Largest number of lines in one batch.
    """

    def __init__(self, *, ongoing: int, most: int = 16, most_lines: int = 10_000) -> None:
        self._turns = asyncio.Semaphore(ongoing)
        self._open: Counter[str] = Counter()  # by sender
        self._most = most
        self.ongoing = ongoing
        self.most_lines = most_lines

    def enter(self, sender: str, admission: Admission) -> None:
        """Count one more open batch. The last places are for senders without one: nobody keeps all others out.

        Args:
            sender: Name of the sender; "" where nobody has to say who they are.
            admission: Words the refusal.

        Raises:
            OverloadedError: As many batches are open as may be.
        """
        count, own = self._open.total(), self._open[sender]
        if count >= self._most:
            raise admission.refusal(f"{count} batches are being answered")
        if sender and own and count >= _SHARED * self._most:
            raise admission.refusal(f"{own} of your batches are being answered, and the last places are for others")
        self._open[sender] += 1

    def leave(self, sender: str) -> None:
        """Count one open batch less."""
        self._open[sender] -= 1
        if not self._open[sender]:
            del self._open[sender]

    async def ask(self, ask: Ask, request: SearchRequest, admission: Admission) -> SearchResponse:
        """Return the answer of a query once it has its turn; its own deadline counts from then."""
        give_up = time.monotonic() + _PATIENCE_S
        async with self._turns:
            while True:
                try:
                    async with admission.slot(deadline=give_up, priority=Priority.BATCH) as ticket:
                        request_context = RequestContext(arrived=time.monotonic(), text_only=ticket.text_only)
                        response = await ask(request, request_context=request_context)
                        ticket.answered(response)
                        return response
                except OverloadedError as error:
                    pause = float(error.details.get("retry_after", 1))
                    if time.monotonic() + pause > give_up:
                        raise
                    await asyncio.sleep(pause)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    content: bytes


class _LeftError(Exception):
    """Raised when the client disconnected, or when its whole batch is refused."""


class BatchResponse(Response):
    """Answers the lines of a request's body, in the order in which answers are ready.

    Args:
        batches: Gives turns.
        ask: Answers one query.
        admission: Gives slots.
        request_id: Id of the request, for the log.
        fields: The members of the answers that are sent.
        observe: Called with every answer.
    """

    def __init__(
        self,
        batches: Batches,
        ask: Ask,
        *,
        admission: Admission,
        request_id: str,
        fields: FieldSelection,
        observe: Callable[[SearchResponse], None],
    ) -> None:
        super().__init__(media_type=NDJSON)
        self._batches = batches
        self._ask = ask
        self._admission = admission
        self._request_id = request_id
        self._include: dict[str, Any] | None = (
            None if fields.include is None else {"line": True, "id": True, "response": fields.include}
        )
        self._observe = observe
        self._lines: asyncio.Queue[_Line | None] = asyncio.Queue()
        self._answers: asyncio.Queue[BatchAnswer | None] = asyncio.Queue(maxsize=batches.ongoing)
        self._broken: LodestoneError | Refusal | None = None
        self._count = 0
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answers; raises what makes the whole request impossible, as long as nothing has been sent."""
        sender = asker_of(scope).owner
        self._batches.enter(sender, self._admission)
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(self._read(receive))
                tasks.create_task(self._work())
                await self._send(send)
                reading.cancel()
        except* (_LeftError, OSError) as left:  # nobody reads on
            if self._broken is None:
                _log.info("a batch was left", request_id=self._request_id, why=repr(left.exceptions[0]))
        finally:
            self._batches.leave(sender)
        if self._broken is not None and not self._started:
            raise self._broken

    # -- in ------------------------------------------------------------------------------------------------------------------

    async def _read(self, receive: Receive) -> None:
        try:
            await self._take_in(receive)
            if self._count == 0:
                raise InvalidRequestError("there is no question in the batch", hint="send one SearchRequest a line")
        except (LodestoneError, Refusal) as error:
            self._broken = error
            if not self._started:
                raise _LeftError from error  # nothing is known of it outside: it can be refused as a whole
        self._lines.put_nowait(None)
        while (await receive())["type"] != "http.disconnect":
            pass
        raise _LeftError

    async def _take_in(self, receive: Receive) -> None:
        number, rest, more = 0, b"", True
        while more:
            message = await self._next(receive)
            if message["type"] == "http.disconnect":
                raise _LeftError
            more = message.get("more_body", False)
            *lines, rest = (rest + message.get("body", b"")).split(b"\n")
            for line in [*lines, rest] if not more else lines:
                number += 1
                self._take(_Line(number, line))
            if len(rest) > MAX_LINE_BYTES:
                raise _too_long(number + 1)

    async def _next(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(_IDLE_S):
                return await receive()
        except TimeoutError as error:
            raise Refusal(400, f"nothing more came for {_IDLE_S:.0f} s", hint="send the lines without pauses") from error

    def _take(self, line: _Line) -> None:
        if not line.content.strip():
            return
        if len(line.content) > MAX_LINE_BYTES:
            raise _too_long(line.number)
        if self._count >= self._batches.most_lines:
            raise Refusal(
                413,
                f"the batch has more than {self._batches.most_lines} questions",
                hint="send several batches, one after another",
                limit=self._batches.most_lines,
            )
        self._count += 1
        self._lines.put_nowait(line)

    # -- between -------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._batches.ongoing):
                workers.create_task(self._worker())
        await self._answers.put(None)

    async def _worker(self) -> None:
        while (line := await self._lines.get()) is not None:
            await self._answers.put(await self._answered(line))
        self._lines.put_nowait(None)  # for the next worker

    async def _answered(self, line: _Line) -> BatchAnswer:
        question: BatchLine | None = None
        try:
            question = BatchLine.model_validate_json(line.content)
            response = await self._batches.ask(self._ask, question.search(), self._admission)
        except ValidationError as error:
            problem = validation_problem(error.errors(include_url=False))
        except LodestoneError as error:
            problem = problem_of(error)
        except Exception:  # noqa: BLE001 - one line's defect spoils no other's answer; logged in full
            _log.exception("unexpected error in a batch", request_id=self._request_id, line=line.number)
            problem = unexpected(self._request_id)
        else:
            self._observe(response)
            return BatchAnswer(line=line.number, id=question.id, response=response)
        return BatchAnswer(line=line.number, id=question.id if question else _id_of(line), problem=problem)

    # -- out -----------------------------------------------------------------------------------------------------------------

    async def _send(self, send: Send) -> None:
        while (answer := await self._answers.get()) is not None:
            await self._sent(send, answer)
        if self._broken is not None:
            await self._sent(send, BatchAnswer(line=self._count + 1, problem=_problem(self._broken)))
        await self._start(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _sent(self, send: Send, answer: BatchAnswer) -> None:
        include = self._include if answer.problem is None else None
        body = answer.model_dump_json(include=include, exclude_none=False).encode() + b"\n"
        async with asyncio.timeout(_IDLE_S):
            await self._start(send)
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})


def _too_long(number: int) -> Refusal:
    return Refusal(413, f"line {number} is longer than {MAX_LINE_BYTES} bytes", hint="one question a line", line=number)


def _problem(error: LodestoneError | Refusal) -> Problem:
    return error.problem if isinstance(error, Refusal) else problem_of(error)


def _id_of(line: _Line) -> str | None:
    """Return the id of a line that holds no valid query."""
    with suppress(ValueError):
        return _OnlyId.model_validate_json(line.content).id
    return None


class _OnlyId(BaseModel):
    id: str | None = Field(None, max_length=200)
