"""The step from an operation of the table to its use case: which method is called, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lodestone.access.caller import Caller
from lodestone.paging import PageRequest
from lodestone_schemas.operation_rows import IDEMPOTENCY_KEY

if TYPE_CHECKING:
    from lodestone.services.use_cases import Services
    from lodestone_schemas.operation_rows import Declared

_PAGE: Final = ("limit", "offset", "cursor")


def ask(services: Services, operation: Declared, values: Mapping[str, Any], caller: Caller) -> Any:  # noqa: ANN401 - the use case's answer
    """Call the use case of an operation and return what it returns: an answer, a coroutine, or a generator of steps.

    Args:
        services: The use cases of a home.
        operation: The operation.
        values: Value of each of its parameters, by name.
        caller: Whoever asks.
    """
    return use_case_of(services, operation)(**arguments_of(operation, values), caller=caller)


def use_case_of(services: Services, operation: Declared) -> Callable[..., Any]:
    """Return the method that answers an operation.

    Raises:
        AttributeError: there is no such use case.
    """
    subject, _, method = operation.row.use_case.partition(".")
    found: Callable[..., Any] = getattr(getattr(services, subject), method)
    return found


def arguments_of(operation: Declared, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the use case: those of the operation, with its page and its filters each in one value.

    Args:
        operation: The operation.
        values: Value of each of its parameters, by name.
    """
    left = {name: value for name, value in values.items() if name != IDEMPOTENCY_KEY}
    if "offset" in left or "cursor" in left:
        left["page"] = PageRequest(**{name: left.pop(name) for name in _PAGE if name in left})
    gather = _GATHERED.get(operation.name)
    return left if gather is None else gather(left)


def _tag_filters(values: dict[str, Any]) -> dict[str, Any]:
    from lodestone.services.tags import TagFilters

    page = values.pop("page")
    return {"filters": TagFilters(**values), "page": page}


def _run_filters(values: dict[str, Any]) -> dict[str, Any]:
    from lodestone.services.runs import RunFilters

    page, corpus = values.pop("page"), values.pop("corpus")
    return {"filters": RunFilters(None if corpus is None else frozenset({corpus}), **values), "page": page}


# Operations whose use case takes several parameters as one value -> how they are gathered.
_GATHERED: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {"tags": _tag_filters, "runs": _run_filters}
