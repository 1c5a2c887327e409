"""A client of a home in this process, with the methods and answers of `lodestone_client.Lodestone`.

A command holds a `LodestoneApi` and need not know whether the home is here or behind a service.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.services.dispatch import ask
from lodestone.services.lazy import lazy_services
from lodestone.services.sessions.in_process import InProcessSession
from lodestone_client.sync_api import LodestoneApi

if TYPE_CHECKING:
    from lodestone.directories.queue import RunQueue
    from lodestone.home.runtime import Runtime
    from lodestone.services.pictures import PictureFile
    from lodestone.services.queries import GuidePicture
    from lodestone.services.use_cases import Services
    from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest
    from lodestone_schemas.operation_rows import Declared


class LocalClient(LodestoneApi):
    """Does every operation by its use case in an opened home, for one thread. Close it, or use it as a context manager.

    Keys of idempotent writes are ignored: nothing is sent twice in one process. Searches load the models that they need once.

    Args:
        services: The use cases.
        caller: Who asks for them.
    """

    def __init__(self, services: Services, *, caller: Caller = LOCAL_CALLER) -> None:
        self._services = services
        self._caller = caller
        self._runner = asyncio.Runner()
        self._closed = False

    @classmethod
    def over(cls, runtime: Runtime, *, queue: RunQueue | None = None) -> Self:
        """Return a client of the home of `runtime`, for this machine's user.

        Args:
            runtime: The opened home. Closing the client does not close it.
            queue: What indexes directories; None: `index_directory` and `add_directory` with `index` raise
                ServiceUnavailableError.
        """
        return cls(lazy_services(InProcessSession(runtime, queue=queue)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the session of the use cases. Idempotent."""
        if not self._closed:
            self._closed = True
            self._runner.run(self._services.session.close())
            self._runner.close()

    def _perform(self, operation: Declared, arguments: inspect.BoundArguments) -> Any:  # noqa: ANN401 - the operation's answer
        values = operation.values(arguments)
        reshaped = _IN_SHAPES.get(operation.name)
        if reshaped is not None:
            return self._runner.run(reshaped(self._services, values["request"], self._caller))
        answer = ask(self._services, operation, values, self._caller)
        if inspect.iscoroutine(answer):
            answer = self._runner.run(answer)
        read = _CONTENTS.get(operation.name)
        return answer if read is None else read(answer)

    def _perform_steps(self, operation: Declared, arguments: inspect.BoundArguments) -> Iterator[Any]:
        return self._each(ask(self._services, operation, operation.values(arguments), self._caller))

    def _each(self, items: AsyncGenerator[Any, None]) -> Iterator[Any]:
        """Yield what an asynchronous generator yields; it is closed with this iterator."""

        async def next_item() -> Any:  # noqa: ANN401 - as above
            return await anext(items)

        try:
            while True:
                try:
                    yield self._runner.run(next_item())
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(items.aclose())


async def _embeddings(services: Services, request: EmbeddingsRequest, caller: Caller) -> EmbeddingList:
    from lodestone.services.openai_shapes import embedding_list, inputs_of

    inputs = inputs_of(request)
    return embedding_list(request, inputs, await services.models.embed(request.model, inputs, caller))


async def _drawings(services: Services, request: DrawingRequest, caller: Caller) -> DrawingList:
    from lodestone.services.openai_shapes import drawing_list

    return drawing_list(request, await services.models.draw(request, caller))


def _file_content(file: PictureFile) -> bytes:
    return file.source if isinstance(file.source, bytes) else b"".join(file.source.parts())


def _guide_content(picture: GuidePicture) -> bytes:
    return picture.data


# Operations whose answer has the shape of OpenAI's API -> how it is made.
_IN_SHAPES: Final[Mapping[str, Callable[..., Any]]] = {"embeddings": _embeddings, "generate_images": _drawings}
# Operations that answer with a picture -> its bytes.
_CONTENTS: Final[Mapping[str, Callable[..., bytes]]] = {
    "thumbnail": _file_content,
    "content": _file_content,
    "guide_picture": _guide_content,
}
