"""Rows of the table of operations, and the methods that classes get by them.

A method that `answers` or `streams` decorates is a declaration: `Operation` and `Stream` hold its row and are descriptors, so
each class that inherits it has a method of that name, with those parameters and that answer. A `Performer` waits for the
answer, an `AsyncPerformer` returns it to be awaited. How it gets the answer is the performer's: over HTTP, or by a use case.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import WRAPPER_ASSIGNMENTS, cache, cached_property, wraps
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints, overload

from pydantic import BaseModel

from lodestone_schemas.access import Scope

P = ParamSpec("P")
T = TypeVar("T")

# Modules that hold the messages which the table names. They are imported when a type is asked for: a command need not wait.
_MESSAGES: Final = ("access", "api", "directories", "openai", "runs", "service", "swaps", "timeline")
IDEMPOTENCY_KEY: Final = "idempotency_key"
"""Name of the parameter of a write that is done once for each of its values."""


class CommandPlace(Enum):
    """Where a command for a home of this machine has an operation done."""

    HERE = "in the command's process: it needs the catalog alone, or models that are loaded for it"
    SERVICE_FIRST = "by the running service of the home, or in the command's process where none runs"


@dataclass(frozen=True, slots=True)
class Row:
    """What holds for an operation in all of its faces.

    Attributes:
        route: Method and path of its route, the path with parameters as a router declares them: `DELETE /v1/tags/{tag_id}`.
        use_case: Subject and method of its use case, `tags.remove`; empty for what only a service can answer.
        scopes: Scopes that a key needs, all of them, checked in this order.
        status: HTTP status of its answer; None: 200, or 204 where it answers nothing.
        once: Whether it is not sent again when nobody knows whether it was done.
        endless: Whether its answer is waited for as long as the service lives.
        where: Where a command for a home of this machine has it done.
        command: The command that asks for it, `tags remove`; empty where there is none.
        no_command: Why no command asks for it.
        media: Beginnings of the media types of an answer that is bytes.
    """

    route: str
    use_case: str = ""
    scopes: tuple[Scope, ...] = field(default=(), kw_only=True)
    status: int | None = field(default=None, kw_only=True)
    once: bool = field(default=False, kw_only=True)
    endless: bool = field(default=False, kw_only=True)
    where: CommandPlace = field(default=CommandPlace.HERE, kw_only=True)
    command: str = field(default="", kw_only=True)
    no_command: str = field(default="", kw_only=True)
    media: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def method(self) -> str:
        """Return the HTTP method of its route."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """Return the path of its route, with parameters as a router declares them."""
        return self.route.partition(" ")[2]


class Declared:
    """A declared operation: its row, name, parameters and docstring.

    Args:
        row: What holds for it.
        declared: The method that declares it. It is never called.
    """

    streams = False

    def __init__(self, row: Row, declared: Callable[..., Any]) -> None:
        self.row = row
        self.name = declared.__name__
        self.text = inspect.getdoc(declared) or ""
        self._declared = _knowing_messages(declared)
        signature = inspect.signature(declared)
        self.signature = signature.replace(parameters=[one for one in signature.parameters.values() if one.name != "self"])
        self._method = self._asked()

    def __repr__(self) -> str:
        return f"<operation {self.name}: {self.row.route}>"

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """Return the types of its parameters by name, and under `return` that of its answer."""
        return get_type_hints(self._declared)

    def values(self, arguments: inspect.BoundArguments) -> dict[str, Any]:
        """Return the value of every parameter by its name.

        A message that was left out is one of defaults; words in a message's place are a search for them.
        """
        values = {name: arguments.arguments.get(name, one.default) for name, one in self.signature.parameters.items()}
        for name, value in values.items():
            if (value is None or isinstance(value, str)) and (message := self.message(name)) is not None:
                values[name] = message() if value is None else message(query=value)
        return values

    def message(self, name: str) -> type[BaseModel] | None:
        """Return the class of the message that a parameter takes; None for one that takes none."""
        if not self.signature.parameters[name].annotation[0].isupper():  # `str | None`: nothing is imported to know it
            return None
        kind = self.types[name]
        kinds = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)]
        return kinds[0] if kinds else None

    @property
    def idempotent(self) -> bool:
        """Return whether a write with an idempotency key is done once, however often it is sent."""
        return IDEMPOTENCY_KEY in self.signature.parameters

    def _asked(self) -> Callable[..., Any]:
        """Return the method of this name of all faces, which has the face do the operation with the given arguments."""

        @wraps(self._declared)
        def asked(face: Performer | AsyncPerformer, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - see `__get__`
            arguments = self.signature.bind(*given, **named)
            perform = face._perform_steps if self.streams else face._perform  # noqa: SLF001 - no method of users
            return perform(self, arguments)

        return asked


class _ModuleNames(dict[str, Any]):
    """Names of a module and those of messages, whose modules are imported when `get_type_hints` asks for one."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - whatever a module holds
        return _messages()[name]


@cache
def _messages() -> Mapping[str, Any]:
    names: dict[str, Any] = {"Iterator": Iterator, "Sequence": Sequence}
    for module in _MESSAGES:
        names |= vars(import_module(f"lodestone_schemas.{module}"))
    return names


def _knowing_messages(declared: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function with annotations that resolve, although its module imports no messages."""
    function = cast("FunctionType", declared)
    known = FunctionType(function.__code__, _ModuleNames(function.__globals__), argdefs=function.__defaults__)
    known.__kwdefaults__ = function.__kwdefaults__
    for name in WRAPPER_ASSIGNMENTS:
        setattr(known, name, getattr(function, name))
    return known


class Performer:
    """A face that waits for each answer; its subclasses say how an operation is done."""

    def _perform(self, operation: Declared, arguments: inspect.BoundArguments) -> Any:  # noqa: ANN401 - the answer's type is the operation's
        """Return the answer to an operation."""
        raise NotImplementedError

    def _perform_steps(self, operation: Declared, arguments: inspect.BoundArguments) -> Iterator[Any]:
        """Yield the steps of an operation that streams."""
        raise NotImplementedError


class AsyncPerformer:
    """A face for asynchronous code; its subclasses say how an operation is done."""

    async def _perform(self, operation: Declared, arguments: inspect.BoundArguments) -> Any:  # noqa: ANN401 - as above
        """Return the answer to an operation."""
        raise NotImplementedError

    def _perform_steps(self, operation: Declared, arguments: inspect.BoundArguments) -> AsyncIterator[Any]:
        """Yield the steps of an operation that streams."""
        raise NotImplementedError


class Operation(Declared, Generic[P, T]):
    """An operation that answers once: with parameters `P`, and an answer of type `T`."""

    @overload
    def __get__(self, face: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, face: Performer, owner: type | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, face: AsyncPerformer, owner: type | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, face: Performer | AsyncPerformer | None, owner: type | None = None) -> Any:
        """Return the method of a face, as a function would be bound; of its class, the function."""
        return self._method if face is None else MethodType(self._method, face)


class Stream(Declared, Generic[P, T]):
    """An operation that answers step by step: with parameters `P`, and steps of type `T`."""

    streams = True

    @overload
    def __get__(self, face: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, face: Performer, owner: type | None = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, face: AsyncPerformer, owner: type | None = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, face: Performer | AsyncPerformer | None, owner: type | None = None) -> Any:
        """Return the method of a face, as a function would be bound; of its class, the function."""
        return self._method if face is None else MethodType(self._method, face)


def answers(row: Row) -> Callable[[Callable[Concatenate[Any, P], T]], Operation[P, T]]:
    """Return the decorator that makes an operation of a declared method: it answers once."""
    return lambda declared: Operation(row, declared)


def streams(row: Row) -> Callable[[Callable[Concatenate[Any, P], Iterator[T]]], Stream[P, T]]:
    """Return the decorator that makes an operation of a declared method: it answers step by step."""
    return lambda declared: Stream(row, declared)


def operations_of(face: type) -> dict[str, Declared]:
    """Return the operations that a class declares or inherits, by name."""
    return {name: one for kind in reversed(face.__mro__) for name, one in vars(kind).items() if isinstance(one, Declared)}
