"""Every face of Lodestone has every operation of the table; what one lacks is named here with its reason."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
import typer
from pydantic import BaseModel

from lodestone.services import use_cases
from lodestone.services.dispatch import arguments_of
from lodestone.services.local import LocalClient
from lodestone.services.use_cases import Services
from lodestone_cli.home_client import HomeClient
from lodestone_cli.main import _load_commands, app
from lodestone_client import AsyncLodestone, Lodestone
from lodestone_schemas.operation_rows import IDEMPOTENCY_KEY, Declared, Row, answers, operations_of
from lodestone_schemas.operations import OPERATIONS, SERVICE_OPERATIONS, Operations
from lodestone_serve.policy import TABLE

EVERYWHERE = [pytest.param(operation, id=name) for name, operation in OPERATIONS.items()]
EVERY = [*EVERYWHERE, *(pytest.param(operation, id=name) for name, operation in SERVICE_OPERATIONS.items())]
SUBJECTS = {field: kind for field, kind in get_type_hints(Services, vars(use_cases)).items() if field != "session"}

# Use cases that no operation asks for.
WITHOUT_OPERATION = {
    "operations.facts": "the service samples them for its metrics",
    "keys.store": "the service checks keys by it",
    "pictures.paths": "the service's own pages ask for it, on its machine alone",
    "writes.claim": "the service's ledger of writes",
    "writes.answer": "the service's ledger of writes",
    "writes.forget": "the service's ledger of writes",
    "rates.take": "the service's rates",
}
# Routes that no operation has.
WITHOUT_ROW = {
    "GET /v1/search": "POST /v1/search, spelt for a browser or a shell",
    "GET /v1/search/stream/{query_id}": "`resume` of the clients over HTTP: a home in this process has no broken connections",
    "POST /v1/search/batch": "`search_many` of the clients over HTTP: a body that is streamed",
    "POST /v1/images/paths": "for the service's own pages, on its machine alone",
    "GET /v1/access": "for the service's own pages",
    "POST /v1/session": "for browsers: programs send their key",
    "DELETE /v1/session": "for browsers",
    "POST /v1/session/unlock": "for browsers",
    "GET /metrics": "for Prometheus; `metrics` of the clients over HTTP",
    "GET /openapi.json": "the document itself",
    "GET /": "a page",
    "GET /manage": "a page",
    "GET /docs": "a page",
    "GET /docs/assets/{name}": "files of pages",
    "GET /web/files/{name:path}": "files of pages",
}


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        yield f"{prefix}{name}"
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")


@pytest.fixture(scope="module")
def known_commands() -> set[str]:
    _load_commands()
    return set(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("face", [LocalClient, HomeClient, Lodestone, AsyncLodestone])
@pytest.mark.parametrize("operation", EVERYWHERE)
def test_every_face_has_the_operation_as_it_is_declared(face: type, operation: Declared) -> None:
    method = getattr(face, operation.name, None)
    assert method is getattr(Operations, operation.name), f"{face.__name__} lacks {operation.name}, or has another"
    assert list(inspect.signature(method).parameters) == ["self", *operation.signature.parameters]
    assert operation.text.endswith("."), f"{operation.name} says nothing of itself"


@pytest.mark.parametrize("operation", EVERYWHERE)
def test_the_use_case_takes_what_the_operation_says_and_answers_it(operation: Declared) -> None:
    subject, _, name = operation.row.use_case.partition(".")
    use_case = getattr(SUBJECTS[subject], name, None)
    assert use_case is not None, f"{operation.name}: there is no use case {operation.row.use_case!r}"
    if operation.name in {"embeddings", "generate_images"}:
        return  # OpenAI's shapes around it
    page = {"limit": 1, "offset": 0, "cursor": None}
    given = {*arguments_of(operation, {one: page.get(one) for one in operation.signature.parameters}), "caller"}
    taken = {one.name: one for one in inspect.signature(use_case).parameters.values() if one.name != "self"}
    assert given <= taken.keys(), f"{operation.row.use_case} does not take {given - taken.keys()}"
    left_out = {one for one, parameter in taken.items() if parameter.default is parameter.empty} - given
    assert left_out == set(), f"{operation.row.use_case} also wants {left_out}"
    for one in given & operation.signature.parameters.keys():
        takes, says = (kind.annotation.split(" | ") for kind in (taken[one], operation.signature.parameters[one]))
        assert set(takes) <= set(says), f"{operation.name}: {one}"
    gives = inspect.signature(use_case).return_annotation
    if operation.streams:
        assert gives.replace("AsyncGenerator", "Iterator").replace(", None]", "]") == operation.signature.return_annotation
    elif not operation.row.media:
        assert gives == operation.signature.return_annotation, f"{operation.row.use_case} answers with {gives}"


@pytest.mark.parametrize("operation", EVERY)
def test_the_row_of_the_route_is_that_of_the_operation(operation: Declared) -> None:
    row = next((row for row in TABLE if row.name == operation.row.route), None)
    assert row is not None, f"{operation.name} has no route {operation.row.route}"
    assert (row.scopes, row.idempotent, row.streams) == (operation.row.scopes, operation.idempotent, operation.streams)


@pytest.mark.parametrize("operation", EVERY)
def test_a_command_asks_for_the_operation_or_the_table_says_why_none_does(
    operation: Declared, known_commands: set[str]
) -> None:
    row = operation.row
    assert bool(row.command) != bool(row.no_command), f"{operation.name} names a command, or the reason why there is none"
    assert not row.command or row.command in known_commands, f"{operation.name}: there is no command {row.command!r}"


def test_every_use_case_is_an_operation_or_has_a_reason() -> None:
    asked = {operation.row.use_case for operation in OPERATIONS.values()}
    there = {
        f"{subject}.{name}"
        for subject, kind in SUBJECTS.items()
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert there - asked == set(WITHOUT_OPERATION)


def test_every_route_is_an_operations_or_has_a_reason() -> None:
    named = {operation.row.route for operation in (*OPERATIONS.values(), *SERVICE_OPERATIONS.values())}
    assert {row.name for row in TABLE} - named == set(WITHOUT_ROW)


@pytest.mark.parametrize("operation", EVERY)
def test_what_an_operation_takes_and_gives_are_messages_that_resolve(operation: Declared) -> None:
    kind = operation.types["return"]
    if operation.row.media:
        assert kind is bytes
    elif not operation.streams:
        assert kind is type(None) or issubclass(kind, BaseModel)
    assert operation.types.keys() == {*operation.signature.parameters, "return"}
    assert (IDEMPOTENCY_KEY in operation.signature.parameters) <= (not operation.row.once), "done once, and never sent twice"


@pytest.mark.parametrize("operation", EVERY)
def test_the_annotations_of_the_clients_methods_resolve_to_the_types_of_the_operation(operation: Declared) -> None:
    for face in (Lodestone, AsyncLodestone):
        assert get_type_hints(getattr(face, operation.name)) == operation.types


def test_a_new_operation_is_in_every_face_at_once() -> None:
    class More(Operations):
        @answers(Row("GET /v1/sizes", "pictures.sizes"))
        def sizes(self, corpus: str) -> int:  # type: ignore[empty-body]
            """Return how large pictures are."""

    assert set(operations_of(More)) - set(OPERATIONS) == {"sizes"}
    assert operations_of(More)["sizes"].row.path == "/v1/sizes"
