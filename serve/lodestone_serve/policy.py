"""Table of what holds for each HTTP route: its scopes, its body, its time, and the limits that apply to it.

Every route of the service has one row here; those of operations are made of the table of operations. The middlewares, the
check of scopes, the proxies and the OpenAPI document read the row; none of them knows a path. A path that is no route has the
row `NO_ROUTE`, with the usual limits. `create_app` refuses to start when a route has no row, or a row has no route. The recipe
docs/recipes/add-a-route.md shows how to add both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from re import Pattern
from typing import Any, Final

from starlette.routing import compile_path
from starlette.types import Scope as AsgiScope

from lodestone.config.serve import ServeSettings
from lodestone_schemas.access import Scope
from lodestone_schemas.operation_rows import Declared
from lodestone_schemas.operations import OPERATIONS, READ, SERVICE_OPERATIONS

MAX_JSON_BYTES: Final = 64 * 1024
"""Largest body in bytes of a route that takes an ordinary JSON message."""

UPLOAD_SLACK_BYTES: Final = 256 * 1024
"""Bytes that a form may have beside its picture: the boundaries between its parts, and the field `options`."""

NDJSON: Final = "application/x-ndjson"
"""Media type of bodies and answers that hold one JSON value a line."""

WRITING_METHODS: Final = frozenset({"POST", "PATCH", "DELETE"})
"""Methods that may change something."""

_METHODS: Final = WRITING_METHODS | {"GET"}
_ROW_IN_SCOPE: Final = "lodestone.policy"
_FIXED_SEGMENTS: Final = 2  # of a path with parameters: they choose the few patterns that are tried


class RoutePolicyError(ValueError):
    """Raised while the application is built, when the rows of this table contradict each other or the routes."""


class AccessRule(Enum):
    """Who may call a route, where the service asks for keys."""

    KEY = "whoever sends a valid key or token"
    METRICS = "holders of the scope admin, or everybody where serve.auth.open_metrics says so"
    OPEN = "everybody; credentials are not even read"


class AdmissionRule(Enum):
    """How a request gets its place in the queue of queries."""

    NONE = "it needs none"
    QUERY = "it takes a place before its body is read, and a slot when its deadline is known"
    LINES = "each line of its body takes a place and a slot of its own"


class DeadlineRule(Enum):
    """How long a proxy waits for an answer to begin. A deadline that the request names counts instead, except for `ENDLESS`."""

    PATIENCE = "serve.patience_s"
    QUERY = "query.deadline_ms"
    LINES = "query.deadline_ms, and the longest time that a line may wait for its turn"
    LONGEST = "the longest deadline that a request may name"
    ENDLESS = "as long as the work takes"


class BodyPace(Enum):
    """How fast a body must arrive."""

    PROMPT = "all of it within a few seconds"
    LARGE = "as PROMPT, or within a minute when it is larger than a JSON message"
    STREAMED = "the route reads it while it works, and watches the time itself"


@dataclass(frozen=True, slots=True)
class BodyRule:
    """What a body may be.

    Attributes:
        media_type: Its `Content-Type`, without parameters.
        max_bytes: Returns its largest size in bytes, as the settings of the service allow it.
        pace: How fast it must arrive.
    """

    media_type: str
    max_bytes: Callable[[ServeSettings], int]
    pace: BodyPace = BodyPace.PROMPT


JSON: Final = BodyRule("application/json", lambda _: MAX_JSON_BYTES)
"""A JSON message: the body of nearly all routes, and the limit of those that take none."""

LARGE_JSON: Final = BodyRule("application/json", lambda settings: settings.max_upload_mb * 2**20, BodyPace.LARGE)
"""A JSON message that may hold pictures or many texts."""

PICTURE: Final = BodyRule(
    "multipart/form-data", lambda settings: settings.max_upload_mb * 2**20 + UPLOAD_SLACK_BYTES, BodyPace.LARGE
)
"""A form with one picture."""

LINES: Final = BodyRule(NDJSON, lambda settings: settings.load.batch_mb * 2**20, BodyPace.STREAMED)
"""Lines of JSON that are answered one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePolicy:
    """What holds for one route.

    Attributes:
        method: Its method. HEAD is answered as GET.
        path: Its path, with parameters as the router declares them: `/v1/images/{image_id}`.
        scopes: Scopes that the principal must have, all of them, checked in this order.
        access: Who may call it.
        admission: How a request gets its place in the queue of queries.
        idempotent: Whether a write with an `Idempotency-Key` is done once and its answer kept.
        deadline: How long an answer may take to begin.
        body: What its body may be.
        streams: Whether its answer is sent piece by piece, while the work goes on.
        probe: Whether it is asked by whatever keeps the service running: without a key, and by an address instead of a name.
        rate_limited: Whether its requests count against the rate of the key or the address.
        observed: Whether its requests are logged and traced. They are always counted.
        openai_errors: Whether its problems also carry the member `error` that clients of OpenAI's API read.
        problems: HTTP statuses of its problems, for the OpenAPI document: those that do not follow from the other attributes.
    """

    method: str
    path: str
    scopes: tuple[Scope, ...] = ()
    access: AccessRule = AccessRule.KEY
    admission: AdmissionRule = AdmissionRule.NONE
    idempotent: bool = False
    deadline: DeadlineRule = DeadlineRule.PATIENCE
    body: BodyRule = JSON
    streams: bool = False
    probe: bool = False
    rate_limited: bool = True
    observed: bool = True
    openai_errors: bool = False
    problems: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Return method and path, as errors name the row."""
        return f"{self.method} {self.path}"

    @property
    def has_parameters(self) -> bool:
        """Return whether the path has parameters."""
        return "{" in self.path

    def contradiction(self) -> str | None:
        """Return what is wrong with the row by itself; None for a sound one."""
        mistakes = {
            f"its method is none of {', '.join(sorted(_METHODS))}": self.method not in _METHODS,
            "a path begins with a slash": not self.path.startswith("/"),
            f"the first {_FIXED_SEGMENTS} segments of a path are fixed": "{" in _stem(self.path),
            "a route that only reads needs no Idempotency-Key": self.idempotent and self.method not in WRITING_METHODS,
            "an answer that is streamed cannot be kept for an Idempotency-Key": self.idempotent and self.streams,
            "a probe is answered without a key": self.probe and self.access is not AccessRule.OPEN,
            "a route that needs no key cannot need a scope": bool(self.scopes) and self.access is not AccessRule.KEY,
        }
        return next((mistake for mistake, made in mistakes.items() if made), None)


NO_ROUTE: Final = RoutePolicy(method="", path="")
"""What holds for requests to paths that are no route."""

_QUERY: Final = {"admission": AdmissionRule.QUERY, "deadline": DeadlineRule.QUERY}
_OPEN: Final = {"access": AccessRule.OPEN, "rate_limited": False}
_NOT_FOUND: Final = frozenset({404})
_NOT_SENDABLE: Final = frozenset({409, 413})  # a picture that is not embedded yet, or is too large
_UNREADABLE_PLACE: Final = frozenset({502})
_DISK_FULL: Final = frozenset({507})
_UNREADABLE_PICTURE: Final = _NOT_SENDABLE | _UNREADABLE_PLACE | _DISK_FULL
_LONGEST: Final = DeadlineRule.LONGEST

# What holds for the routes of operations in the service, beside what the table of operations says of them.
_OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    # -- the service's state
    "alive": {**_OPEN, "probe": True, "observed": False},
    "ready": {**_OPEN, "probe": True, "observed": False},
    # -- search
    "search": _QUERY,
    "stream": _QUERY,
    "by_picture": {**_QUERY, "body": PICTURE},
    "by_url": {**_QUERY, "problems": _UNREADABLE_PLACE},
    "similar": _QUERY,
    # -- pictures
    "images": {"problems": _NOT_FOUND},
    "browse": {"problems": _NOT_FOUND},
    "facets": {"problems": _NOT_FOUND},
    "events": {"problems": _NOT_FOUND},
    "tag_picture": {**_QUERY, "body": PICTURE},
    "tag_image": {**_QUERY, "problems": _NOT_SENDABLE | _UNREADABLE_PLACE},
    "thumbnail": {"problems": _UNREADABLE_PICTURE},
    "content": {"problems": _UNREADABLE_PICTURE},
    # -- directories
    "directories": {"problems": _NOT_FOUND},
    "add_directory": {"problems": _NOT_FOUND | _UNREADABLE_PLACE},
    "relocate_directory": {"problems": _UNREADABLE_PLACE},
    "index_directory": {"problems": _UNREADABLE_PLACE},
    # -- recorded queries, and what is learnt from their users
    "replay": {"admission": AdmissionRule.QUERY, "deadline": _LONGEST},
    "feedback": {"problems": _NOT_FOUND},
    "withdraw_feedback": {"problems": _NOT_FOUND},
    "tags": {"problems": _NOT_FOUND},
    "add_tags": {"problems": _NOT_FOUND},
    # -- models, in the shapes of OpenAI's API
    "models": {"openai_errors": True},
    "model": {"openai_errors": True},
    "embeddings": {"admission": AdmissionRule.QUERY, "body": LARGE_JSON, "openai_errors": True},
    "generate_images": {"admission": AdmissionRule.QUERY, "deadline": _LONGEST, "openai_errors": True},
    # -- keys, and Lodestone's own commands
    "create_key": {"problems": _NOT_FOUND | _DISK_FULL},
    "rotate_key": {"problems": _DISK_FULL},
    "find_duplicates": {"problems": _NOT_FOUND | _DISK_FULL},
    "sync": {"problems": _DISK_FULL},
    "shadow": {"problems": _NOT_FOUND | _DISK_FULL},
}


def _of(operation: Declared) -> RoutePolicy:
    """Return the row of an operation's route. An answer that is streamed begins at once, however long the work takes."""
    row = operation.row
    usual = RoutePolicy(
        method=row.method,
        path=row.path,
        scopes=row.scopes,
        idempotent=operation.idempotent,
        deadline=DeadlineRule.ENDLESS if row.endless and not operation.streams else DeadlineRule.PATIENCE,
        streams=operation.streams,
    )
    return replace(usual, **_OPERATIONS.get(operation.name, {}))


# fmt: off
TABLE: Final[tuple[RoutePolicy, ...]] = (
    # -- operations
    *(_of(operation) for operation in (*OPERATIONS.values(), *SERVICE_OPERATIONS.values())),
    # -- searches and pictures, spelt for browsers and for streams
    RoutePolicy(
        method="GET", path="/v1/search", scopes=READ, admission=AdmissionRule.QUERY, deadline=DeadlineRule.QUERY
    ),
    RoutePolicy(
        method="GET", path="/v1/search/stream/{query_id}", scopes=READ, deadline=DeadlineRule.QUERY, streams=True
    ),
    RoutePolicy(
        method="POST", path="/v1/search/batch", scopes=READ, admission=AdmissionRule.LINES, deadline=DeadlineRule.LINES,
        body=LINES, streams=True,
    ),
    RoutePolicy(method="POST", path="/v1/images/paths", scopes=READ),
    # -- the service itself, and its pages
    RoutePolicy(method="GET", path="/metrics", access=AccessRule.METRICS, rate_limited=False, observed=False),
    RoutePolicy(method="GET", path="/openapi.json", access=AccessRule.OPEN, rate_limited=False),
    RoutePolicy(method="GET", path="/", access=AccessRule.OPEN, rate_limited=False),
    RoutePolicy(method="GET", path="/manage", access=AccessRule.OPEN, rate_limited=False),
    RoutePolicy(method="GET", path="/docs", access=AccessRule.OPEN, rate_limited=False),
    RoutePolicy(method="GET", path="/docs/assets/{name}", access=AccessRule.OPEN, rate_limited=False),
    RoutePolicy(method="GET", path="/web/files/{name:path}", access=AccessRule.OPEN, rate_limited=False, observed=False),
    # Whoever has used up a key's rate may still sign out, which says so where it is refused.
    RoutePolicy(method="POST", path="/v1/session", rate_limited=False),
    RoutePolicy(method="DELETE", path="/v1/session", rate_limited=False),
    RoutePolicy(method="POST", path="/v1/session/unlock"),
    RoutePolicy(method="GET", path="/v1/access", scopes=READ),
)
# fmt: on


class PolicyLookup:
    """Finds the row of a request. A path without parameters costs one look into a dictionary.

    Args:
        rows: The table.

    Raises:
        RoutePolicyError: Two rows are of one route, or a row is wrong by itself.
    """

    def __init__(self, rows: Iterable[RoutePolicy]) -> None:
        rows = tuple(rows)
        for row in rows:
            if (wrong := row.contradiction()) is not None:
                raise RoutePolicyError(f"the row {row.name!r} cannot be right: {wrong}")
        if twice := [name for name, count in Counter(row.name for row in rows).items() if count > 1]:
            raise RoutePolicyError(f"the row {twice[0]!r} is there twice")
        self._plain: Mapping[tuple[str, str], RoutePolicy] = {
            (row.method, row.path): row for row in rows if not row.has_parameters
        }
        patterns: dict[tuple[str, str], list[tuple[Pattern[str], RoutePolicy]]] = {}
        for row in rows:
            if row.has_parameters:
                patterns.setdefault((row.method, _stem(row.path)), []).append((_pattern(row), row))
        self._patterns = patterns
        self._other_methods = {row.path: _of_another_method(row) for row in reversed(rows) if not row.has_parameters}
        self._openai_patterns = tuple(_pattern(row) for row in rows if row.openai_errors)

    def find(self, method: str, path: str) -> RoutePolicy:
        """Return the row of the route that answers.

        A method that a known path does not take has what all methods of that path share: it is refused, after the same checks.

        Args:
            method: Method of the request; HEAD counts as GET.
            path: Path of the request, decoded.
        """
        if method == "HEAD":
            method = "GET"
        row = self._plain.get((method, path))
        if row is not None:
            return row
        for pattern, candidate in self._patterns.get((method, _stem(path)), ()):
            if pattern.match(path):
                return candidate
        return self._other_methods.get(path, NO_ROUTE)

    def has_openai_errors(self, path: str) -> bool:
        """Return whether problems at the path, by whatever method, carry the member that clients of OpenAI's API read."""
        return any(pattern.match(path) for pattern in self._openai_patterns)


def _stem(path: str) -> str:
    """Return the first segments of a path, which hold no parameter."""
    return "/".join(path.split("/", _FIXED_SEGMENTS + 1)[: _FIXED_SEGMENTS + 1])


def _pattern(row: RoutePolicy) -> Pattern[str]:
    return compile_path(row.path)[0]  # as the router itself matches it


def _of_another_method(row: RoutePolicy) -> RoutePolicy:
    return replace(
        row, method="", scopes=(), admission=AdmissionRule.NONE, idempotent=False, deadline=DeadlineRule.PATIENCE, streams=False
    )


_LOOKUP: Final = PolicyLookup(TABLE)


def policy_for(method: str, path: str) -> RoutePolicy:
    """Return the row of a method and a path; `NO_ROUTE` for a path that is no route."""
    return _LOOKUP.find(method, path)


def policy_of(scope: AsgiScope) -> RoutePolicy:
    """Return the row of an HTTP request, which is looked up once and then kept in its ASGI scope."""
    row: RoutePolicy | None = scope.get(_ROW_IN_SCOPE)
    if row is None:
        row = scope[_ROW_IN_SCOPE] = _LOOKUP.find(scope["method"], scope["path"])
    return row


def methods_for(path: str) -> list[str]:
    """Return the methods that a path takes; none for a path that is no route."""
    return sorted(method for method in _METHODS if policy_for(method, path).method == method)


def has_openai_errors(path: str) -> bool:
    """Return whether problems at the path carry the member `error` that clients of OpenAI's API read."""
    return _LOOKUP.has_openai_errors(path)
