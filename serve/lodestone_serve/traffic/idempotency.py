"""Writes with an `Idempotency-Key`, which are done once however often a client sends them.

The key is claimed in the catalog before the work begins, so that two replicas never both do it. The answer is kept there for a
day, and is kept before it is sent. It belongs to the name and the rights of whoever sent the first request: the same key sent
by anybody else, or with other rights, is another write, about which the routes decide anew. An answer that may differ the next
time (too busy, failed) is not kept, and its key is free again. The rows of `lodestone_serve.policy` say which routes take one.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.catalog.records import WriteKey, WriteRecord
from lodestone.errors import IdempotencyConflictError, InvalidRequestError, LodestoneError
from lodestone_serve.policy import MAX_JSON_BYTES, policy_of
from lodestone_serve.responses.problems import problem_of, problem_response
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.askers import asker_of

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
MOST_ANSWER_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"[!-~]{1,255}")
_AGAIN: Final = frozenset({401, 403, 408, 409, 413, 421, 429})  # answers to the moment or the asker, not to the write
_RETRY_AFTER_S: Final = 1
_log = structlog.get_logger("lodestone.serve")
T = TypeVar("T")


@runtime_checkable
class WriteLedger(Protocol):
    """The place where keys and answers are kept: the catalog, which all replicas share."""

    def claim_write(self, write: WriteKey) -> Coroutine[Any, Any, WriteRecord | None]:
        """Claim a key, as `IdempotencyRows.claim_write` does; return the earlier record of it, if there is one."""

    async def answer_write(self, write: WriteKey, *, status: int, body: bytes) -> None:
        """Keep the answer of a claimed key, as `IdempotencyRows.answer_write` does."""

    async def forget_write(self, write: WriteKey) -> None:
        """Free a claimed key that has no answer, as `IdempotencyRows.forget_write` does."""


class Idempotency:
    """Middleware that does a write with an `Idempotency-Key` once, and gives the same answer however often it is sent.

    Args:
        app: The application that does the work.
        ledger: Keeps the keys and the answers.
        metrics: Counts the replays.
    """

    def __init__(self, app: ASGIApp, *, ledger: WriteLedger, metrics: Metrics) -> None:
        self._app = app
        self._ledger = ledger
        self._metrics = metrics
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        key = Headers(scope=scope).get(HEADER) if scope["type"] == "http" else None
        if key is None or not policy_of(scope).idempotent:
            await self._app(scope, receive, send)
            return
        try:
            await self._once(key, scope, receive, send)
        except LodestoneError as error:  # of the ledger: the app answers its own
            await problem_response(problem_of(error, instance=scope["path"]))(scope, receive, send)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        if not _KEY.fullmatch(key):
            raise InvalidRequestError(
                f"{HEADER} {key[:100]!r} cannot be used", hint="1 to 255 visible ASCII characters, such as a UUID"
            )
        read = await _read(receive)
        if not read.whole:  # larger than any write, or cut off: refused further in
            await self._app(scope, read.again(receive), send)
            return
        write = WriteKey(asker_of(scope).authority, key, _fingerprint(scope, read.body))
        before = await self._claim(write)
        if before is not None:
            await self._again(before, write.fingerprint, send)
            return
        # A client that leaves meanwhile will ask again: what was begun is finished, and its answer kept.
        work = self._kept(asyncio.create_task(self._work(scope, read.again(receive), write)))
        for message in (await asyncio.shield(work)).messages:
            await send(message)

    async def _claim(self, write: WriteKey) -> WriteRecord | None:
        """Claim a key; a request that is cancelled meanwhile gives it back, as nobody would work under it."""
        claim = self._kept(asyncio.create_task(self._ledger.claim_write(write)))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            self._kept(asyncio.create_task(self._unclaim(claim, write)))
            raise

    async def _unclaim(self, claim: asyncio.Task[WriteRecord | None], write: WriteKey) -> None:
        try:
            if await claim is None:  # it was free, so now it is claimed by a request that has ended
                await self._ledger.forget_write(write)
        except LodestoneError as error:  # the claim runs out by itself
            _log.warning("a claimed key cannot be given back", code=error.code, detail=error.message)

    def _kept(self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """Hold a task until it ends: the event loop itself holds it only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, scope: Scope, receive: Receive, write: WriteKey) -> _Answer:
        answer = _Answer()
        kept = False
        try:
            await self._app(scope, receive, answer)
            if answer.is_final:
                await self._ledger.answer_write(write, status=answer.status, body=answer.packed())
                kept = True
        finally:
            if not kept:
                await self._ledger.forget_write(write)
        return answer

    async def _again(self, before: WriteRecord, fingerprint: str, send: Send) -> None:
        if before.fingerprint != fingerprint:
            raise IdempotencyConflictError(
                f"{HEADER} {before.key!r} came with another request before", hint="use a new key for another request"
            )
        if before.status is None:
            raise IdempotencyConflictError(
                f"the first request with {HEADER} {before.key!r} is still being worked on",
                hint="ask again in a moment, with the same key",
                retry_after=_RETRY_AFTER_S,
            )
        self._metrics.idempotent_replays.inc()
        kind, _, body = (before.body or b"").partition(b"\n")
        start: Message = {"type": "http.response.start", "status": before.status, "headers": []}
        headers = MutableHeaders(scope=start)
        headers[REPLAYED] = "true"
        if kind:
            headers["Content-Type"] = kind.decode("latin-1")
        if body:
            headers["Content-Length"] = str(len(body))
        await send(start)
        await send({"type": "http.response.body", "body": body})


class _Answer:
    """Collects a whole answer, so that it can be kept before it is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.status = 0
        self._size = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._size += len(message.get("body", b""))
        self.messages.append(message)

    @property
    def is_final(self) -> bool:
        """Return whether the same request would get the same answer again."""
        return 200 <= self.status < 500 and self.status not in _AGAIN and self._size <= MOST_ANSWER_BYTES

    def packed(self) -> bytes:
        """Return the media type, a line feed, and the body."""
        kind = Headers(raw=self.messages[0]["headers"]).get("content-type", "")
        return kind.encode("latin-1") + b"\n" + b"".join(message.get("body", b"") for message in self.messages[1:])


class _Read:
    """The messages of a body that was read ahead."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.body = b""
        self.whole = False

    def again(self, receive: Receive) -> Receive:
        """Return a `receive` that gives the same messages once more, then those that follow."""
        left = list(self.messages)

        async def replayed() -> Message:
            return left.pop(0) if left else await receive()

        return replayed


async def _read(receive: Receive) -> _Read:
    read = _Read()
    while len(read.body) <= MAX_JSON_BYTES:
        message = await receive()
        read.messages.append(message)
        if message["type"] != "http.request":
            break
        read.body += message.get("body", b"")
        if not message.get("more_body", False):
            read.whole = len(read.body) <= MAX_JSON_BYTES
            break
    return read


def _fingerprint(scope: Scope, body: bytes) -> str:
    digest = hashlib.sha256()
    for part in (scope["method"].encode(), scope.get("raw_path") or scope["path"].encode(), scope["query_string"], body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
