"""Inclusion of routers under the table of policies: each route gets the check of the scopes that its row names.

A route with a JSON body gets the check of its texts too.

Check of all texts in a JSON body before a route sees them: half a surrogate pair is no character, and is refused. JSON can
spell one (as an escape), Python keeps it, and whatever then writes, hashes or encodes the text fails. One check at the door
holds for every member of every message, names of members included. Texts in addresses cannot hold one: the server replaces
what is no UTF-8 there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Host, Mount, Route, WebSocketRoute

from lodestone_schemas.access import Scope
from lodestone_serve.auth.principal import needs
from lodestone_serve.policy import JSON, TABLE, RoutePolicy, RoutePolicyError

_HINT: Final = "correct the route, or the table in lodestone_serve/policy.py (see docs/recipes/add-a-route.md)"


def include_guarded(app: FastAPI, routers: Iterable[APIRouter], *, table: Iterable[RoutePolicy] = TABLE) -> None:
    """Add the routes of the routers to the app, each behind the check of the scopes that its row names.

    Args:
        app: The application, with the routes that it declares itself.
        routers: Routers that were made for this app; the check is added to their routes.
        table: The rows.

    Raises:
        RoutePolicyError: A route has no row, a row has no route, the two differ in their method, or a route that needs scopes
            is declared where the check cannot be added. The app must not start then.
    """
    rows = {(row.method, row.path): row for row in table}
    given = list(routers)
    included = [route for router in given for route in router.routes]
    own = [route for route in app.routes if _serves(route)]
    check_routes([*included, *own], rows.values())
    for route in _guardable(own):
        if _scopes(route, rows):
            raise RoutePolicyError(
                f"the row of {route.path!r} names scopes: declare its route in a router, where they are checked"
            )
    for route in _guardable(included):
        # Before what the route itself depends on. FastAPI reads the list when the router is included.
        checks = [needs(scope) for scope in _scopes(route, rows)]
        if _takes_json(route, rows):
            checks.append(needs_whole_texts())
        route.dependencies[:0] = checks
    for router in given:
        app.include_router(router)


def check_routes(routes: Iterable[BaseRoute], table: Iterable[RoutePolicy]) -> None:
    """Compare the routes with the rows.

    Raises:
        RoutePolicyError: They differ; the message names each difference.
    """
    mistakes: list[str] = []
    served: dict[str, set[str]] = {}
    for route in routes:
        if not isinstance(route, APIRoute):
            mistakes.append(f"{getattr(route, 'path', type(route).__name__)!r} is no route of FastAPI, so nothing guards it")
            continue
        methods = set(route.methods or ())
        if len(methods) != 1 or methods & served.get(route.path, set()):
            mistakes.append(f"the route {_listed(methods)} {route.path!r} must be declared once, and once for each method")
        served.setdefault(route.path, set()).update(methods)
    rows: dict[str, set[str]] = {}
    for row in table:
        rows.setdefault(row.path, set()).add(row.method)
    for path in sorted(served.keys() | rows.keys()):
        mistakes.extend(_differences(path, served.get(path, set()), rows.get(path, set())))
    if mistakes:
        raise RoutePolicyError(f"routes and policies differ: {'; '.join(mistakes)}: {_HINT}")


def _differences(path: str, served: set[str], rows: set[str]) -> Iterator[str]:
    missing, unused = served - rows, rows - served
    if missing and unused:
        yield f"the route {path!r} takes {_listed(missing)}, and its row says {_listed(unused)}"
    elif missing:
        yield f"the route {_listed(missing)} {path!r} has no row"
    elif unused:
        yield f"the row {_listed(unused)} {path!r} has no route"


def _serves(route: BaseRoute) -> bool:
    """Return whether a route of the app answers by itself; what FastAPI keeps there for an included router does not."""
    return isinstance(route, (Route, Mount, Host, WebSocketRoute))


def _guardable(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    return (route for route in routes if isinstance(route, APIRoute))


def _scopes(route: APIRoute, rows: Mapping[tuple[str, str], RoutePolicy]) -> list[Scope]:
    return [scope for method in route.methods or () for scope in rows[method, route.path].scopes]


def _takes_json(route: APIRoute, rows: Mapping[tuple[str, str], RoutePolicy]) -> bool:
    """Return whether FastAPI reads a JSON message for this route."""
    kinds = {rows[method, route.path].body.media_type for method in route.methods or ()}
    return route.body_field is not None and JSON.media_type in kinds


def _listed(methods: set[str]) -> str:
    return ", ".join(sorted(methods))


_HALF: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def half_pair_in(value: object) -> tuple[tuple[str | int, ...], str] | None:
    """Return the place of the first text with half a surrogate pair, and which half; None where all texts are whole.

    Args:
        value: What a JSON document holds, nested to any depth.
    """
    left: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while left:
        place, current = left.pop()
        if isinstance(current, str):
            if found := _HALF.search(current):
                return place, f"U+{ord(found[0]):04X}"
        elif isinstance(current, dict):
            for name, inner in current.items():
                if found := _HALF.search(name):
                    return (*place, _HALF.sub(_REPLACEMENT, name)), f"U+{ord(found[0]):04X}"
                left.append(((*place, name), inner))
        elif isinstance(current, list):
            left.extend(((*place, number), inner) for number, inner in enumerate(current))
    return None


async def _check(request: Request) -> None:
    """Refuse the body if one of its texts is none.

    Raises:
        RequestValidationError: It names the member.
    """
    found = half_pair_in(await request.json()) if await request.body() else None
    if found is not None:
        place, half = found
        message = f"this text holds half a surrogate pair ({half}), which is no character"
        raise RequestValidationError([{"type": "string_unicode", "loc": ("body", *place), "msg": message}])


def needs_whole_texts() -> Any:  # noqa: ANN401 - FastAPI's own type of dependencies
    """Return the dependency of a route with a JSON body: it refuses texts with half a surrogate pair."""
    return Depends(_check)
