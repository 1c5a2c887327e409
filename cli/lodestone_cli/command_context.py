"""Context that a command runs in: settings, form of the output, and the library, opened at most once."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli.file_names import inert_json, printable
from lodestone_cli.options import SERVICE_URL, HomeOption, Output, OutputOption, ProfileOption
from lodestone_cli.terminal.console import message_console, output_console

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from lodestone.config.settings import LoadedSettings
    from lodestone.home.quick_search import QuickSearcher
    from lodestone.home.running_service.address import ServiceAddress
    from lodestone.home.running_service.client import ServiceClient
    from lodestone.home.runtime import Runtime
    from lodestone_cli.home_client import HomeClient
    from lodestone_cli.locators import Locator
    from lodestone_client import Lodestone
    from lodestone_client.sync_api import LodestoneApi

    M = TypeVar("M", bound=BaseModel)
else:
    M = TypeVar("M")

__all__ = ["CommandContext", "HomeOptions", "printable"]

_HERE: Final = "`LODESTONE_URL= lodestone …` works on the home of this machine"
_BY_THE_SERVICES_MACHINE: Final = f"run it on the machine of the service; {_HERE}"
_LOCALLY: Final = "--local works on the home of this machine; or run it on the machine of the service"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "lodestone index": "`lodestone directory add` has the service index a folder of its machine; --local indexes here",
    "lodestone watch": f"the service watches its folders by itself (`lodestone directory watch`); {_HERE}",
    "lodestone runs retry-failed": _LOCALLY,
    "lodestone models swap": _LOCALLY,
    "lodestone train bridge": _LOCALLY,
}
"""What to do instead where LODESTONE_URL names a service, by the command's purpose."""


@dataclass(frozen=True, slots=True)
class HomeOptions:
    """Options of nearly every command: the home that it works on, its profile, and the form in which results are written."""

    home: HomeOption = None
    profile: ProfileOption = None
    output: OutputOption = Output.HUMAN


class CommandContext:
    """Settings, output and resources of one command. It is a context manager: leaving it releases the store.

    Args:
        at: The home, the profile and the form of results.
        purpose: Name of the command, which other processes see while they wait for the store.
        flags: Further settings.
        away: Whether the command can use a remote service (`--url`, LODESTONE_URL).
        local: Whether no service is used, not even one that runs on this home (`--local`).
        writes: Whether the command makes or changes the home of this machine. It is refused where LODESTONE_URL names a service
            elsewhere, so that nobody fills a home by mistake.
        existing: Whether there must be a home already: entering raises NotFoundError without one (see `require_home`).

    Raises:
        InvalidRequestError: `--url` is given to a command that works on this machine's home, or LODESTONE_URL is set for one
            that changes it.
    """

    def __init__(
        self,
        at: HomeOptions = HomeOptions(),
        *,
        purpose: str = "lodestone",
        flags: Mapping[str, Any] | None = None,
        away: bool = False,
        local: bool = False,
        writes: bool = False,
        existing: bool = False,
    ) -> None:
        from lodestone.config.settings import load_settings  # pydantic takes a while: not for `--help`

        self.output = at.output
        self.purpose = purpose
        self.loaded: LoadedSettings = load_settings({"home": at.home, "profile": at.profile, **(flags or {})})
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("lodestone").setLevel(self.loaded.settings.log_level.upper())
        self._opened = ExitStack()
        self._runtime: Runtime | None = None
        self._address: ServiceAddress | None = None
        self._client: ServiceClient | None = None
        self._home_client: HomeClient | None = None
        self._remote: Lodestone | None = None
        self._local = local
        self._existing = existing
        self._url = self._chosen_url(away=away and not local, writes=writes)

    def __enter__(self) -> Self:
        if self._existing:
            self.require_home()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _chosen_url(self, *, away: bool, writes: bool) -> str | None:
        named, usual = SERVICE_URL.get(), os.environ.get("LODESTONE_URL")
        if away:
            return named or usual
        if named:
            raise InvalidRequestError(
                "this command works on a home of this machine, not by --url",
                hint="leave --url out, or run it on the machine of the service",
            )
        if usual and writes and not self._local and not self._is_own(usual):
            raise InvalidRequestError(
                f"{self.purpose!r} works on this machine's home {str(self.loaded.settings.home)!r}, "
                f"and LODESTONE_URL names the service {usual!r}",
                hint=_ELSEWHERE.get(self.purpose, _BY_THE_SERVICES_MACHINE),
            )
        if usual:
            self.messages.print(printable(f"note: LODESTONE_URL is not used: this works on {self.loaded.settings.home}"))
        return None

    def _is_own(self, url: str) -> bool:
        """Return whether an address is that of the service which runs on this home."""
        address = self._service_address()
        return address is not None and _same_place(address.url) == _same_place(url)

    @property
    def remote(self) -> Lodestone | None:
        """Return a client of the remote service (`--url`, LODESTONE_URL); None when the command works on a home."""
        if self._remote is None and self._url is not None:
            from lodestone_client import Lodestone

            self._remote = Lodestone(self._url, api_key=os.environ.get("LODESTONE_API_KEY"))
            self._opened.callback(self._remote.close)
        return self._remote

    @property
    def api(self) -> LodestoneApi:
        """Return what the command works by: the remote service, or this home with its running service, if there is one."""
        if self.remote is not None:
            return self.remote
        if self._home_client is None:
            from lodestone_cli.home_client import HomeClient

            self._home_client = HomeClient.over(self.runtime, find_service=self.service)
            self._opened.callback(self._home_client.close)
        return self._home_client

    @property
    def searcher(self) -> LodestoneApi | QuickSearcher:
        """Return what answers searches: a service, elsewhere or on this home, of which nothing is opened then; or this home."""
        address = None if self.remote is not None else self._service_address()
        if address is None:
            return self.api
        from lodestone.home.quick_search import QuickSearcher

        return QuickSearcher(address, lambda: self._client_of(address))

    @property
    def locator(self) -> Locator:
        """Return what resolves files, directories and runs that a user names, on the side that the command works on."""
        if self.remote is not None:
            from lodestone_cli.locators import RemoteLocator

            return RemoteLocator(self.remote)
        from lodestone_cli.home_locator import HomeLocator

        return HomeLocator(lambda: self.runtime.catalog, file=self._catalog_file())

    def _catalog_file(self) -> Path | None:
        """Return the SQLite file of the home's catalog; None for a catalog on a server."""
        from lodestone.config.home import Home

        settings = self.loaded.settings
        return None if settings.catalog_url else Home(settings.home).catalog

    def runs_at_a_glance(self) -> int | None:
        """Return how many runs of this home count as running; None where only the catalog itself can tell."""
        from lodestone.catalog.file_places import count_running

        file = self._catalog_file()
        return None if file is None or not file.exists() else count_running(file)

    @property
    def is_served(self) -> bool:
        """Return whether a service answers: a remote one, or the one that runs on this home."""
        return self.remote is not None or self._service_address() is not None

    @property
    def service_url(self) -> str | None:
        """Return the address of the service that answers: a remote one, or the one that runs on this home; None without one."""
        if self._url is not None:
            return self._url
        address = self._service_address()
        return None if address is None else address.url

    @property
    def has_home(self) -> bool:
        """Return whether there is a home to read. A remote service has its own."""
        from lodestone.config.home import home_of

        return self.remote is not None or home_of(self.loaded.settings).exists()

    def require_store(self) -> None:
        """Refuse `--local` beside a service, before any work is done that would wait for the service's store at its end.

        Raises:
            StoreLockedError: with `--local`, a service runs on this home and owns its embedded store.
        """
        if self._local and self.loaded.settings.store.kind == "edge":
            from lodestone.config.home import Home
            from lodestone.home.resources import refuse_beside_service

            refuse_beside_service(
                Home(self.loaded.settings.home), hint="leave --local out, and the service does its part; or stop it first"
            )

    def require_home(self) -> None:
        """Refuse a home that does not exist, so that a command that only reads does not create it.

        Raises:
            NotFoundError: there is no home yet.
        """
        from lodestone.config.home import home_of

        if not self.has_home:
            path = home_of(self.loaded.settings).path
            raise NotFoundError(f"nothing is indexed in {str(path)!r} yet", hint="lodestone index ~/Pictures")

    @property
    def runtime(self) -> Runtime:
        """Return the library over this home, opened at first use."""
        if self._runtime is None:
            from lodestone.home.runtime import Runtime

            self._runtime = Runtime.open(self.loaded.settings, purpose=self.purpose)
            self._opened.callback(self._runtime.close)
        return self._runtime

    def service(self) -> ServiceClient | None:
        """Return a client of the service that owns this home; None when none is running, or with `--local`."""
        if self._client is None:
            address = self._service_address()
            if address is None:
                return None
            self._client_of(address)
        return self._client

    def _client_of(self, address: ServiceAddress) -> ServiceClient:
        if self._client is None:
            from lodestone.home.running_service.client import ServiceClient

            self._client = ServiceClient(address)
            self._opened.callback(self._client.close)
        return self._client

    def _service_address(self) -> ServiceAddress | None:
        """Return the address of the service that owns this home; None when none is running now, or with `--local`."""
        if self._local:
            return None
        if self._address is None:
            from lodestone.config.home import Home
            from lodestone.home.running_service.address import find_service

            home = Home(self.loaded.settings.home)
            if home.exists():
                home.check()
            self._address = find_service(home)
        return self._address

    def api_request(self, model: type[M], **values: Any) -> M:  # noqa: ANN401 - the model's fields
        """Return a request for `api`. The model's limits hold for a remote service; in this process the use cases check.

        Raises:
            InvalidRequestError: a value is outside the limits of the model.
        """
        from lodestone_cli.naming import checked

        return model.model_construct(**values) if self.remote is None else checked(lambda: model(**values))

    @property
    def console(self) -> Console:
        """Return the console on standard output, for results that people read."""
        return output_console()

    @property
    def messages(self) -> Console:
        """Return the console on standard error, for progress and remarks."""
        return message_console()

    def emit(self, value: Any, human: Callable[[Console], None]) -> None:  # noqa: ANN401
        """Write a result: `value` (JSON-serialisable) for machines, or what `human` prints for people."""
        escaped = (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}
        if self.output is Output.JSON:
            sys.stdout.write(inert_json(json.dumps(value, ensure_ascii=escaped, indent=2, default=str)) + "\n")
        elif self.output is Output.YAML:
            import yaml

            plain = json.loads(json.dumps(value, default=str))
            sys.stdout.write(yaml.safe_dump(plain, allow_unicode=not escaped, sort_keys=False))
        else:
            human(self.console)


def _same_place(url: str) -> tuple[str, int | None]:
    """Return what tells services apart: host and port, with one name for this machine."""
    from lodestone_serve.hosts import is_loopback

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return url, None
    return ("localhost" if is_loopback(host) else host), port or {"https": 443}.get(parts.scheme, 80)
