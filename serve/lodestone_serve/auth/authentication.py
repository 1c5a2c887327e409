"""Authentication of requests: middleware that finds the principal before anything of the body is read.

A key or a token is sent as `Authorization: Bearer …`, a key also as `X-API-Key`. The service's own pages send neither: they
have a session, by a cookie. Where the service asks for a key, nothing but the probes, the page itself and the description of
the interface is given to those who have none.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lodestone.access.key_cache import KeyRing, KeyStore
from lodestone.access.keys import PREFIX, ApiKey
from lodestone.config.serve import AuthSettings
from lodestone.errors import DeadlineExceededError, ForbiddenError, LodestoneError, UnauthorizedError
from lodestone.home.running_service.address import TOKEN_HEADER
from lodestone_schemas.access import Scope as Right
from lodestone_serve.auth.oidc import TokenReader
from lodestone_serve.auth.passes import UnlockPasses
from lodestone_serve.auth.principal import ANYBODY, LOCAL, NOBODY, Principal
from lodestone_serve.auth.sessions import SessionEndedError, Sessions, removals, sessions_of
from lodestone_serve.policy import AccessRule, policy_of
from lodestone_serve.responses.problems import problem_of, problem_response

KEY_HEADER: Final = "X-API-Key"
_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class Known:
    """Who sent a request.

    Attributes:
        principal: The sender.
        strays: Whether cookies came beside the one that names the sender, which is the only sound one.
    """

    principal: Principal
    strays: bool = False


class Authenticator:
    """Finds the principal of a request.

    Args:
        keys: Returns where keys are kept; called at every lookup, as the home may be opened later.
        settings: Whether keys count, and whose tokens do.
        token: Of service.json; its reader is this machine's user.
        passes: Of browsers that this machine's user has unlocked; None where there are none.

    Raises:
        ConfigurationError: the settings of the issuer cannot be used.
    """

    def __init__(
        self, keys: Callable[[], KeyStore], settings: AuthSettings, *, token: str, passes: UnlockPasses | None = None
    ) -> None:
        self._settings = settings
        self._passes = passes
        self._token = token.encode()
        self.sessions = Sessions(token)
        self._ring = KeyRing(keys) if settings.keys else None
        self._reader = TokenReader(settings) if settings.oidc_issuer is not None else None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lodestone-tokens") if self._reader else None

    @property
    def asks(self) -> bool:
        """Whether anybody must say who they are."""
        return self._settings.asks

    @property
    def open_metrics(self) -> bool:
        """Whether metrics need no key."""
        return self._settings.open_metrics or not self.asks

    async def known(self, headers: Headers, *, method: str = "GET", https: bool = False) -> Known:
        """Return whoever the headers name, or else the one whose session the service's own page has.

        Raises:
            UnauthorizedError: somebody must be named and nobody is, or by something that is not valid.
            SessionEndedError: as before, and the browser should forget the cookies that it sent.
            OverloadedError, ServiceUnavailableError, CatalogError: keys cannot be looked up now.
        """
        local = headers.get(TOKEN_HEADER)
        if local is not None and hmac.compare_digest(local.encode("utf-8", "surrogatepass"), self._token):
            return Known(LOCAL)
        if local is not None and self._passes is not None and self._passes.held(headers):
            return Known(LOCAL)
        if not self.asks:
            return Known(ANYBODY)
        given = credential_of(headers)
        if given is not None:
            return Known(await self._holder(given))
        cookies = sessions_of(headers, method=method, https=https)
        if not cookies:
            raise UnauthorizedError(
                "this service asks for a key or a token, and none was sent",
                hint=f"Authorization: Bearer …, or {KEY_HEADER}: …",
            )
        return await self._of_session(cookies)

    async def _of_session(self, cookies: Sequence[str]) -> Known:
        """Return the one person that cookies name.

        Another program on this host can set a cookie of the same name. One that is not valid must not lock the page out, and a
        valid one of its own key must not sign people in with that key.
        """
        found: dict[str, Principal] = {}
        refused: UnauthorizedError | None = None
        for cookie in cookies:
            try:
                credential = self.sessions.open(cookie)
                found[credential] = found.get(credential) or await self._holder(credential)
            except UnauthorizedError as error:
                refused = error
        if len(found) == 1:
            return Known(next(iter(found.values())), strays=len(cookies) > 1)
        if found:
            raise SessionEndedError(
                "two sessions came, of different keys",
                hint="another program on this host has set one: try again",
                keep_own=True,
            )
        reason = refused or UnauthorizedError("the session has ended")
        raise SessionEndedError(reason.message, hint=reason.hint, keep_own=False)

    async def _holder(self, given: str) -> Principal:
        """Return the principal of a key or token.

        Raises:
            UnauthorizedError: It is not valid.
        """
        if given.startswith(f"{PREFIX}_"):
            if self._ring is None:
                raise UnauthorizedError(
                    "this service takes no API keys", hint="send a token of its issuer; or set serve.auth.keys"
                )
            return holder_of(await self._ring.find(given))
        if self._reader is not None:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._reader.read, given)
        raise UnauthorizedError("what was sent is no key of this service", hint="a key looks like lodestone_<id>_<secret>")

    async def close(self) -> None:
        """Write what is still to be written. Idempotent."""
        if self._ring is not None:
            await self._ring.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)


class Authentication:
    """Puts `principal` into the state of every request.

    Args:
        app: What asks for it.
        authenticator: Finds the principal.
    """

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            known = await self._known(scope)
        except SessionEndedError as error:
            forgetting = _forgetting(scope, send, but_own=bool(error.details.get("keep_own")))
            problem = problem_of(UnauthorizedError(error.message, hint=error.hint), instance=scope["path"])
            await problem_response(problem)(scope, receive, forgetting)
            return
        except LodestoneError as error:
            await problem_response(problem_of(error, instance=scope["path"]))(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = known.principal
        await self._app(scope, receive, _forgetting(scope, send, but_own=True) if known.strays else send)

    async def _known(self, scope: Scope) -> Known:
        rule, open_metrics = policy_of(scope).access, self._authenticator.open_metrics
        if self._authenticator.asks and (rule is AccessRule.OPEN or (rule is AccessRule.METRICS and open_metrics)):
            return Known(NOBODY)
        due = scope.get("state", {}).get("due")  # of queries alone
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())) as limit:
                known = await self._authenticator.known(
                    Headers(scope=scope), method=scope["method"], https=scope.get("scheme") == "https"
                )
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineExceededError(
                "the deadline passed while the key was looked up",
                hint="the service is busy: ask again later, or allow more time (deadline_ms)",
            ) from None
        if rule is AccessRule.METRICS and not open_metrics and not known.principal.may(Right.ADMIN):
            raise ForbiddenError("metrics need the scope 'admin'", hint="or set serve.auth.open_metrics", scope="admin")
        return known


def _forgetting(scope: Scope, send: Send, *, but_own: bool) -> Send:
    """Return `send` with headers by which the browser forgets cookies of the session's name, all or those planted beside it."""
    headers = Headers(scope=scope)

    async def forgetting(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer = MutableHeaders(scope=message)
            for value in removals(headers, scope["path"], https=scope.get("scheme") == "https", but_own=but_own):
                answer.append("set-cookie", value)
        await send(message)

    return forgetting


def holder_of(key: ApiKey) -> Principal:
    """Return the principal that holds a valid key."""
    corpora = None if key.corpora is None else frozenset(key.corpora)
    return Principal(key.owner, frozenset(key.scopes), corpora, key.rate)


def credential_of(headers: Headers) -> str | None:
    """Return the key or token that the headers hold; None where there is none.

    Raises:
        UnauthorizedError: There are two, or one that cannot be read.
    """
    key, authorization = headers.get(KEY_HEADER), headers.get("authorization")
    if key is not None and authorization is not None:
        raise UnauthorizedError(f"both Authorization and {KEY_HEADER} were sent", hint="send one of them")
    if key is not None:
        return key.strip()
    if authorization is None:
        return None
    kind, _, value = authorization.strip().partition(" ")
    if kind.lower() == "bearer" and not value.strip():
        raise UnauthorizedError("Authorization has no key or token behind Bearer", hint="Authorization: Bearer …")
    if kind.lower() != "bearer":
        raise UnauthorizedError(f"Authorization is of the kind {kind[:20]!r}, not Bearer", hint="Authorization: Bearer …")
    return value.strip()
