"""Client of the home on this machine for commands: its running service does what needs the store or models, if there is one.

Everything else is read from the catalog in this process, so that a command starts quickly and works beside a service.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.services.lazy import lazy_services
from lodestone.services.local import LocalClient
from lodestone.services.sessions.in_process import InProcessSession
from lodestone_schemas.operation_rows import CommandPlace, Declared

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.services.use_cases import Services
    from lodestone_client import Lodestone
    from lodestone_schemas.directories import DirectoryAdded, DirectoryRelocation, DirectoryRequest

    FindService = Callable[[], Lodestone | None]


class HomeClient(LocalClient):
    """Does every operation for a home on this machine, for one thread.

    Args:
        services: The use cases.
        caller: Who asks for them.
        find_service: Returns a client of the service that owns this home; None when none is running.
    """

    def __init__(self, services: Services, *, caller: Caller = LOCAL_CALLER, find_service: FindService = lambda: None) -> None:
        super().__init__(services, caller=caller)
        self._find_service = find_service

    @classmethod
    def over(cls, runtime: Runtime, *, queue: RunQueue | None = None, find_service: FindService = lambda: None) -> Self:
        """Return a client of the opened home of `runtime`, for this machine's user; see `LocalClient.over`."""
        return cls(lazy_services(_CommandSession(runtime, queue, find_service)), find_service=find_service)

    def _perform(self, operation: Declared, arguments: inspect.BoundArguments) -> Any:  # noqa: ANN401 - the operation's answer
        """Return the answer to an operation: from the service where its row says so and one runs, else from here."""
        if operation.name == "add_directory":
            return self._add_directory(operation, arguments)
        service = self._find_service() if _asks_service(operation, arguments) else None
        if operation.name == "relocate_directory":
            request: DirectoryRelocation = arguments.arguments["request"]
            # Without a service nothing is indexed. Not resolve(): a linked folder keeps its name.
            path = os.path.abspath(Path(request.path).expanduser())  # noqa: PTH100
            arguments.arguments["request"] = request.model_copy(update={"index": False} if service is None else {"path": path})
        if service is not None:
            return getattr(service, operation.name)(*arguments.args, **arguments.kwargs)
        if operation.name == "jobs":  # of a service alone
            return operation.types["return"](jobs=[])
        return super()._perform(operation, arguments)

    def _perform_steps(self, operation: Declared, arguments: inspect.BoundArguments) -> Iterator[Any]:
        service = self._find_service() if _asks_service(operation, arguments) else None
        if service is None:
            return super()._perform_steps(operation, arguments)
        steps: Iterator[Any] = getattr(service, operation.name)(*arguments.args, **arguments.kwargs)
        return steps

    def _add_directory(self, operation: Declared, arguments: inspect.BoundArguments) -> DirectoryAdded:
        """Add a folder here; the service indexes it in the background. Without one there is no job, and nothing is indexed."""
        request: DirectoryRequest = arguments.arguments["request"]
        arguments.arguments["request"] = request.model_copy(update={"index": False})
        added: DirectoryAdded = super()._perform(operation, arguments)
        service = self._find_service() if request.index else None
        if service is None:
            return added
        directory_id = added.directory.directory_id
        job = service.index_directory(directory_id, idempotency_key=arguments.arguments.get("idempotency_key"))
        return added.model_copy(update={"directory": self.directory(directory_id), "job": job})


def _asks_service(operation: Declared, arguments: inspect.BoundArguments) -> bool:
    if operation.name == "replay":  # its record is in the catalog
        return bool(arguments.arguments.get("fresh"))
    return operation.row.where is CommandPlace.SERVICE_FIRST


class _CommandSession(InProcessSession):
    """The home of a command, beside a service or without one."""

    def __init__(self, runtime: Runtime, queue: RunQueue | None, find_service: FindService) -> None:
        super().__init__(runtime, queue=queue)
        self._find_service = find_service

    async def tags_changed(self) -> None:
        """Have the tags that have just changed found: by the service, or by delivering them here."""
        await asyncio.to_thread(deliver_tags, self.runtime, self._find_service())


def deliver_tags(runtime: Runtime, service: Lodestone | None) -> None:
    """Bring the tags' collection up to date: in the service, or else in this process, which then needs the store.

    Raises:
        StoreLockedError: another process owns the store.
    """
    if service is None:
        runtime.deliver_tags()
        return
    for _ in service.sync():
        pass
