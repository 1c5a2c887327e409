"""The principal of a request, and what a route demands of it.

The outermost guard puts `principal` into the request's state. A route takes its caller from there and hands it to the use case,
which decides what that caller sees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import params as fastapi_params

from lodestone.access.caller import LOCAL_CALLER, Caller
from lodestone.errors import ForbiddenError, UnauthorizedError
from lodestone_schemas.access import Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever sends a request.

    Attributes:
        owner: Names it in records and limits: `key:…`, `oidc:…`; "" where nobody has to say who they are.
        scopes: What it may do.
        corpora: Names of the corpora that it sees; None: all, also those to come.
        rate: Requests it may send, e.g. `600/minute`; None: the service's setting.
        local: Holds the token of the home's service.json: Lodestone's own commands on this machine.
    """

    owner: str
    scopes: frozenset[Scope]
    corpora: frozenset[str] | None = None
    rate: str | None = None
    local: bool = False

    @property
    def caller(self) -> Caller:
        """The caller of use cases that this principal is."""
        return LOCAL_CALLER if self.local else Caller.named(self.owner, self.scopes, self.corpora)

    @property
    def authority(self) -> str:
        """Return a digest (64 hexadecimal digits) of the name and the rights, by which answers that are kept belong to them.

        A name alone is not enough: nobody is named where no key is asked for, and an issuer may give one subject other scopes
        from token to token.
        """
        rights = (self.owner, self.local, sorted(self.scopes), None if self.corpora is None else sorted(self.corpora))
        return hashlib.sha256(json.dumps(rights).encode()).hexdigest()

    def may(self, scope: Scope) -> bool:
        """Return whether it has the scope."""
        return self.caller.may(scope)


ANYBODY = Principal("", frozenset({Scope.SEARCH, Scope.FEEDBACK}))
"""Of a service that asks nobody who they are; what indexes and administers still wants the token of service.json."""

NOBODY = Principal("", frozenset(), frozenset())
"""Who has not said who they are, where that is asked: may see that the service lives."""

LOCAL = Principal("", frozenset(Scope), local=True)
"""Lodestone's own commands."""


# Coroutines although they wait for nothing: FastAPI sends plain functions to a thread, for each request.
async def principal_of(request: Request) -> Principal:
    """Return whoever sent the request."""
    principal: Principal = request.state.principal
    return principal


async def caller_of(request: Request) -> Caller:
    """Return whoever sent the request, as use cases want them."""
    principal: Principal = request.state.principal
    return principal.caller


RequestCaller = Annotated[Caller, Depends(caller_of)]
"""A route's parameter: for whom it asks."""

Asker = Annotated[Principal, Depends(principal_of)]
"""A route's parameter: the principal itself."""


def needs(scope: Scope) -> Any:  # noqa: ANN401 - FastAPI's own type of dependencies
    """For `dependencies=[needs(Scope.INDEX)]`: lets through principals with the scope.

    Anybody else is refused with `ForbiddenError` (403), or `UnauthorizedError` (401) where nobody said who they are.
    """
    check: Callable[[Request], Awaitable[None]] = _Check(scope)
    return fastapi_params.Depends(check)


class _Check:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def __call__(self, request: Request) -> None:
        principal = await principal_of(request)
        if principal.may(self._scope):
            return
        if principal in (ANYBODY, NOBODY):
            raise UnauthorizedError(
                f"this needs the scope {self._scope.value!r}, and the request came without a key or token",
                hint="run the lodestone command on the service's machine; or set serve.auth.keys, and send a key that has it",
                scope=self._scope.value,
            )
        raise ForbiddenError(
            f"this needs the scope {self._scope.value!r}",
            hint="ask for a key that has it (`lodestone keys create --scope`)",
            scope=self._scope.value,
        )
