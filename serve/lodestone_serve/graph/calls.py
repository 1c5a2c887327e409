"""Calls of other deployments: each has a deadline, is cancelled with its caller, and fails with our own errors.

Serve passes on no deadline and raises Ray's errors. Here the time left limits every call, a cancelled caller cancels its call
(even one that waits in a queue), and every error is a `LodestoneError` with a code.

Conversion of deadlines between machines: a call carries a time of day, which each process turns into its own clock. In a
process a deadline is absolute on `time.monotonic()`'s clock, which means nothing in another process. On the wire it is
absolute on the wall clock, so that time spent in queues and in transit counts. The clocks of a cluster's nodes must agree (NTP
ensures it).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import grpc
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError

from lodestone.clock import remaining
from lodestone.errors import DeadlineExceededError, OverloadedError, ServiceUnavailableError
from lodestone_serve.telemetry.tracing import Carrier, carrier

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator

_END: Final = object()
_log = logging.getLogger(__name__)
# Errors of a call whose replica crashed or no longer exists; the call may or may not have been carried out.
_GONE = (RayActorError, grpc.aio.AioRpcError, RequestCancelledError, RayServeException)


@dataclass(frozen=True, slots=True)
class StageCall:
    """A deployment, as its callers see it.

    Attributes:
        name: Name of the deployment.
        handle: Serve handle that calls it.
        again: Whether a call whose replica crashed may be repeated, because it costs nothing and changes nothing.
    """

    name: str
    handle: DeploymentHandle[Any]
    again: bool = False

    async def call(self, method: str, *arguments: Any, deadline: float | None = None, **named: Any) -> Any:  # noqa: ANN401
        """Return the result of `method` of a replica; it also receives `until`, the deadline on the wall clock, and `trace`.

        Args:
            method: Name of the method.
            arguments: Positional arguments of the method; picklable.
            deadline: Absolute, on this process's monotonic clock; None for none.
            named: Keyword arguments of the method.

        Raises:
            TimeoutError: the deadline passed, here or in the replica.
            OverloadedError: too many calls wait for the stage.
            ServiceUnavailableError: its replica crashed, and so did the next one where the call was repeated; or there is none.
            LodestoneError: as the method raised it.
        """
        if remaining(deadline) <= 0:
            raise TimeoutError(f"no time left for the stage {self.name!r}")
        for last in (not self.again, True):
            try:
                return await self._once(method, arguments, {**named, "until": on_the_wire(deadline), **_trace()}, deadline)
            except BackPressureError as error:
                raise self._overloaded(error) from error
            except _GONE as error:
                gone = self._gone(error)
                if last:
                    raise gone from error
        raise AssertionError("the last try returns or raises")

    def streaming(self) -> StageCall:
        """Return the same deployment, to be called by `stream`. Needs a running event loop; costs a router, so keep it."""
        return replace(self, handle=self.handle.options(stream=True))

    async def stream(
        self,
        method: str,
        *arguments: Any,  # noqa: ANN401
        deadline: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield what a generator method of a replica yields; closing the iterator cancels the call there. It is never repeated.

        Args:
            method: Name of the method, which is an async generator.
            arguments: Positional arguments of the method; picklable.
            deadline: As for `call`.

        Raises:
            TimeoutError: the deadline passed, here or in the replica.
            OverloadedError: too many calls wait for the stage; nothing was yielded.
            ServiceUnavailableError: its replica crashed, or there is none.
            LodestoneError: as the method raised it.
        """
        if remaining(deadline) <= 0:
            raise TimeoutError(f"no time left for the stage {self.name!r}")
        items = getattr(self.handle, method).remote(*arguments, until=on_the_wire(deadline), **_trace())
        try:
            while True:
                with self._own_errors():
                    async with asyncio.timeout(None if deadline is None else remaining(deadline)):
                        item = await anext(items, _END)
                if item is _END:
                    return
                yield item
        except (asyncio.CancelledError, GeneratorExit, TimeoutError):
            _cancel(items)
            raise

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Raise our own errors in place of Ray's."""
        try:
            with _causes():
                yield
        except BackPressureError as error:
            raise self._overloaded(error) from error
        except _GONE as error:
            raise self._gone(error) from error

    def _overloaded(self, error: BackPressureError) -> OverloadedError:
        return OverloadedError(
            f"{error.args[0]} calls wait for the stage {self.name!r} already", hint="try again in a moment", stage=self.name
        )

    def _gone(self, error: Exception) -> ServiceUnavailableError:
        _log.warning("a call of %s was lost: %s", self.name, type(error).__name__)
        return ServiceUnavailableError(
            f"the stage {self.name!r} does not answer: {type(error).__name__}",
            hint="a replica of it died or is being replaced: try again in a moment",
            stage=self.name,
        )

    async def _once(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any], deadline: float | None) -> Any:  # noqa: ANN401
        response: DeploymentResponse[Any] | None = None
        try:
            with _causes():
                async with asyncio.timeout(None if deadline is None else remaining(deadline)):
                    response = getattr(self.handle, method).remote(*arguments, **named)
                    return await response
        except (asyncio.CancelledError, TimeoutError):
            _cancel(response)
            raise


@contextmanager
def _causes() -> Iterator[None]:
    """Raise the errors of a replica's method as it raised them, and `RequestCancelledError` where the replica cancelled it."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RequestCancelledError from None  # cancelled by the replica, which is being stopped
    except RayTaskError as error:  # the method's own error; Ray derives it from both classes
        cause = error.cause
        if isinstance(cause, (TimeoutError, DeadlineExceededError)):
            raise TimeoutError(str(cause)) from cause
        if isinstance(cause, asyncio.CancelledError):
            raise RequestCancelledError from None
        raise cause from None


def _trace() -> dict[str, Carrier]:
    context = carrier()
    return {"trace": context} if context else {}


def _cancel(response: DeploymentResponse[Any] | DeploymentResponseGenerator[Any] | None) -> None:
    if response is not None:
        response.cancel()  # type: ignore[no-untyped-call]


def on_the_wire(deadline: float | None) -> float | None:
    """Convert a deadline of this process's monotonic clock to seconds since 1970; None stays None."""
    return None if deadline is None else time.time() + remaining(deadline)


def from_the_wire(until: float | None) -> float | None:
    """Convert seconds since 1970 to a deadline of this process's monotonic clock; one that has passed becomes now."""
    return None if until is None else time.monotonic() + max(0.0, until - time.time())
