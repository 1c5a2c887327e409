"""Base class of engines over HTTP, which answer with pictures in base64 or with addresses of pictures.

`HttpGenerator` fetches, checks and decodes. Each service's module says what to send and where in the reply the pictures are.
`CustomHttp` is the simplest of them, for a user's own server (docs/generators.md).
"""

from __future__ import annotations

import asyncio
import base64
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import httpx
from pydantic import Field, ValidationError

from lodestone.config.engines import EngineSettings
from lodestone.config.section import SettingsSection, refusal_of
from lodestone.errors import ConfigurationError, LodestoneError, ServiceUnavailableError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.generators.pictures import Received, from_base64, png_of, read_picture
from lodestone.remote.credentials import credential_of
from lodestone.remote.http_client import Access, HttpClient
from lodestone.remote.http_guard import Wording

_log = logging.getLogger(__name__)

SEEDS: Final = 2**31  # services accept seeds below this
_WORDING: Final = Wording(
    service="engine",
    file="picture",
    too_slow="raise the engine's timeout_s, or the query's deadline",
    too_large="ask it for smaller pictures, or raise options.max_mb",
    host_refused="have the engine send base64, or allow the host: options.allow_hosts",
)


class HttpOptions(SettingsSection):
    """`options` that every engine over HTTP has."""

    pictures_a_call: int = Field(1, ge=1, le=16, description="Pictures asked for in one request.")
    max_mb: int = Field(32, ge=1, le=1024, description="Largest reply and largest picture.")
    allow_hosts: list[str] = Field(default_factory=list, description="Private hosts that pictures may be fetched from.")
    header_env: dict[str, str] = Field(
        default_factory=dict, description="Further headers: name to the environment variable with its value."
    )
    header: str | None = Field(None, description="That carries the key; default: the service's.")
    scheme: str | None = Field(None, description="Before the key; default: the service's.")
    extra: dict[str, Any] = Field(default_factory=dict, description="Added to what is asked.")


class HttpGenerator(Generator):
    """A generator behind an HTTP service. Light; nothing is connected before the first guide.

    Args:
        name: Name under which it is configured.
        settings: Its section of the settings.

    Raises:
        ConfigurationError: the settings cannot be used.
    """

    version = "1"
    options_type: ClassVar[type[HttpOptions]] = HttpOptions
    default_url: ClassVar[str | None] = None
    needs_model: ClassVar[bool] = False

    def __init__(self, name: str, settings: EngineSettings) -> None:
        self.name = name
        self._settings = settings
        self._options = _options(name, settings, self.options_type)
        self.guides_a_call = self._options.pictures_a_call
        self._url = _url(name, settings.url or self.default_url)
        if self.needs_model and not settings.model:
            raise ConfigurationError(f"generator {name!r} names no model", hint=f"set generators.{name}.model")
        self._credential = credential_of(name, key_env=settings.key_env, key_file=settings.key_file)
        self._http = HttpClient(self._access(), verdict=self._declined)

    async def warm_up(self) -> None:
        """Check that the key exists; the service is not called.

        Raises:
            ModelUnavailableError: the key is missing or unusable.
        """
        await asyncio.to_thread(self._credential.read)

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Ask the service and decode its pictures. Broken pictures are left out; when all are broken, that is an error.

        Raises:
            ServiceUnavailableError: the service fails, or its reply is not as documented.
            ImageError: no picture that it sent is usable.
        """
        if request.n < 1:
            return []
        deadline = float("inf") if request.deadline is None else request.deadline
        sent = (await self._ask(request, deadline))[: request.n]
        if not sent:
            raise ServiceUnavailableError(f"generator {self.name!r} sent no picture", hint="look at the engine's own log")
        received = await asyncio.gather(
            *(self._received(picture, request, deadline) for picture in sent), return_exceptions=True
        )
        guides, broken = [], []
        for number, picture in enumerate(received, request.first):
            if isinstance(picture, Received):
                guides.append(self._guide(number, picture, request))
            elif isinstance(picture, LodestoneError):
                broken.append(picture)
            else:
                raise picture
        for error in broken if guides else ():
            _log.warning("generator %s: one picture is left out: %s", self.name, error.message)
        if not guides:
            raise broken[0]
        return guides

    async def close(self) -> None:
        """Close the HTTP connections. Idempotent."""
        await self._http.close()

    @abstractmethod
    async def _ask(self, request: GuideRequest, deadline: float) -> Sequence[str]:
        """Return the pictures of a reply: each an http(s) address, a `data:` URL or base64."""

    def _key_header(self) -> tuple[str, str]:
        """Return the header that carries the key and the text before the key, unless the options say otherwise."""
        return "Authorization", "Bearer "

    def _access(self) -> Access:
        header, scheme = self._key_header()
        return Access(
            url=self._url,
            credential=self._credential,
            header=header if self._options.header is None else self._options.header,
            scheme=scheme if self._options.scheme is None else self._options.scheme,
            headers={header: credential_of(self.name, key_env=name) for header, name in self._options.header_env.items()},
            max_bytes=self._options.max_mb << 20,
            allow_hosts=tuple(self._options.allow_hosts),
            wording=_WORDING,
        )

    def _declined(self, status: int, body: Any) -> bool:  # noqa: ANN401, ARG002  (JSON; subclasses read it)
        """Return whether an error means that the service works but refuses to draw these words."""
        return False

    def _seed(self, request: GuideRequest) -> int:
        """Return the seed of the first picture of a request; each following picture has the next one."""
        return (request.seed + request.first) % SEEDS

    async def _received(self, sent: str, request: GuideRequest, deadline: float) -> Received:
        if sent.startswith(("http://", "https://")):
            data = await self._http.download(sent, deadline=deadline)
        else:
            data = await asyncio.to_thread(from_base64, sent)
        return await asyncio.to_thread(read_picture, data, size=request.size)

    def _guide(self, number: int, picture: Received, request: GuideRequest) -> Guide:
        provenance: dict[str, Any] = {
            "version": self.version,
            "kind": self._settings.kind,
            "model": self._settings.model,
            "prompt": request.prompt,
            "seed": request.seed,
            "received": [picture.width, picture.height],
        }
        provenance |= {} if request.edit is None else {"strength": request.edit.strength}
        return Guide(f"{self.name}/{number}", self.name, 1.0, provenance, pixels=picture.pixels)


class CustomHttpOptions(HttpOptions):
    """`options` of `kind = "http"`."""

    edits: bool = Field(False, description="The server edits pictures too: it is then sent `image` and `strength`.")


class CustomHttp(HttpGenerator):
    """Generator `http`: POST `{prompt, n, seed, size}`, reply `{images: [base64 or address]}`; picture i has seed + i.

    With the option `edits`, requests to edit a picture also have `image` (a PNG in base64) and `strength`.
    """

    options_type = CustomHttpOptions

    def __init__(self, name: str, settings: EngineSettings) -> None:
        super().__init__(name, settings)
        assert isinstance(self._options, CustomHttpOptions)  # noqa: S101  (`options_type`)
        self.edits = self._options.edits

    async def _ask(self, request: GuideRequest, deadline: float) -> Sequence[str]:
        body: dict[str, Any] = {"prompt": request.prompt, "n": request.n, "seed": self._seed(request), "size": request.size}
        body |= {"model": self._settings.model} if self._settings.model else {}
        if request.edit is not None:
            picture = await asyncio.to_thread(png_of, request.edit.pixels, request.size)
            body |= {"image": base64.b64encode(picture).decode(), "strength": request.edit.strength}
        reply = await self._http.post(self._url, {**body, **self._options.extra}, deadline=deadline)
        return texts_of(reply, "images")


def texts_of(reply: Any, *path: str) -> list[str]:  # noqa: ANN401
    """Return the texts in a list of a JSON reply.

    Raises:
        ServiceUnavailableError: the list is missing, or is not a list of texts.
    """
    value = reply
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise unexpected(f"a list of texts at {'.'.join(path)!r}", reply)
    return value


def unexpected(wanted: str, reply: Any) -> ServiceUnavailableError:  # noqa: ANN401
    """Return the error for a JSON reply that is not what the service documents. It names the reply's keys, not its values."""
    have = (
        f"an object with {[name[:40] for name in sorted(map(str, reply))[:8]]}"
        if isinstance(reply, Mapping)
        else f"a {type(reply).__name__}"
    )
    return ServiceUnavailableError(f"the reply should have {wanted}, and is {have}", hint="is it the right kind of engine?")


def _options(name: str, settings: EngineSettings, kind: type[HttpOptions]) -> HttpOptions:
    try:
        return kind(**settings.options)
    except (ValidationError, TypeError) as error:
        within = f"generators.{name}.options"
        option, reason = refusal_of(error, within=within) if isinstance(error, ValidationError) else ("", str(error))
        raise ConfigurationError(
            f"option {option!r} of generator {name!r} is wrong: {reason}",
            hint=f"{settings.kind} takes: {', '.join(kind.model_fields)}; see docs/generators.md",
            setting=f"generators.{name}.options.{option}",
        ) from None


def _url(name: str, text: str | None) -> httpx.URL:
    try:
        url = httpx.URL(text or "")
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigurationError(f"generator {name!r} has no http(s) address", hint=f"set generators.{name}.url")
    if url.userinfo:
        raise ConfigurationError(
            f"the address of generator {name!r} holds a user or password", hint=f"use generators.{name}.key_env or key_file"
        )
    return url
