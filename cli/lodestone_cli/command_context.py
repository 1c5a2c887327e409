"""Context that a command runs in: settings, form of the output, and the library, opened at most once."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unicodedata import category

from lodestone.errors import InvalidRequestError
from lodestone_cli.options import SERVICE_URL, Output

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone.config.settings import LoadedSettings
    from lodestone.home.local_client import ServiceClient
    from lodestone.home.runtime import Runtime
    from lodestone_client import Lodestone


class CommandContext:
    """Settings, output and resources of one command. It is a context manager: leaving it releases the store.

    Args:
        home: Folder of the home.
        profile: Name of the profile.
        output: Form in which results are written.
        purpose: Name of the command, which other processes see while they wait for the store.
        flags: Further settings.
        away: Whether the command can use a remote service (`--url`, LODESTONE_URL).

    Raises:
        InvalidRequestError: `--url` is given to a command that works on this machine's home.
    """

    def __init__(
        self,
        *,
        home: Path | None = None,
        profile: str | None = None,
        output: Output = Output.HUMAN,
        purpose: str = "lodestone",
        flags: Mapping[str, Any] | None = None,
        away: bool = False,
    ) -> None:
        from lodestone.config.settings import load_settings  # pydantic takes a while: not for `--help`

        self.output = output
        self.purpose = purpose
        self.loaded: LoadedSettings = load_settings({"home": home, "profile": profile, **(flags or {})})
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("lodestone").setLevel(self.loaded.settings.log_level.upper())
        self._runtime: Runtime | None = None
        self._client: ServiceClient | None = None
        self._remote: Lodestone | None = None
        self._url = self._chosen_url(away)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runtime is not None:
            self._runtime.close()
        if self._client is not None:
            self._client.close()
        if self._remote is not None:
            self._remote.close()

    def _chosen_url(self, away: bool) -> str | None:
        named, usual = SERVICE_URL.get(), os.environ.get("LODESTONE_URL")
        if away:
            return named or usual
        if named:
            raise InvalidRequestError(
                "this command works on a home of this machine, not by --url",
                hint="leave --url out, or run it on the machine of the service",
            )
        if usual:
            self.messages.print(printable(f"note: LODESTONE_URL is not used: this works on {self.loaded.settings.home}"))
        return None

    @property
    def remote(self) -> Lodestone | None:
        """Return a client of the remote service (`--url`, LODESTONE_URL); None when the command works on a home."""
        if self._remote is None and self._url is not None:
            from lodestone_client import Lodestone

            self._remote = Lodestone(self._url, api_key=os.environ.get("LODESTONE_API_KEY"))
        return self._remote

    @property
    def runtime(self) -> Runtime:
        """Return the library over this home, opened at first use."""
        if self._runtime is None:
            from lodestone.home.runtime import Runtime

            self._runtime = Runtime.open(self.loaded.settings, purpose=self.purpose)
        return self._runtime

    def service(self) -> ServiceClient | None:
        """Return a client of the service that owns this home, or None when none is running."""
        if self._client is None:
            from lodestone.config.home import Home
            from lodestone.home.service_address import find_service

            home = Home(self.loaded.settings.home)
            if home.exists():
                home.check()
            address = find_service(home)
            if address is None:
                return None
            from lodestone.home.local_client import ServiceClient

            self._client = ServiceClient(address)
        return self._client

    @property
    def console(self) -> Console:
        """Return the console on standard output, for results that people read."""
        from rich.console import Console

        return Console(highlight=False, soft_wrap=True, emoji=False)  # a file may be called ":cat:.jpg"

    @property
    def messages(self) -> Console:
        """Return the console on standard error, for progress and remarks."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    def emit(self, value: Any, human: Callable[[Console], None]) -> None:  # noqa: ANN401
        """Write a result: `value` (JSON-serialisable) for machines, or what `human` prints for people."""
        escaped = (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}
        if self.output is Output.JSON:
            sys.stdout.write(json.dumps(value, ensure_ascii=escaped, indent=2, default=str) + "\n")
        elif self.output is Output.YAML:
            import yaml

            plain = json.loads(json.dumps(value, default=str))
            sys.stdout.write(yaml.safe_dump(plain, allow_unicode=not escaped, sort_keys=False))
        else:
            human(self.console)


_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # could reorder what is printed after


def is_text(name: str) -> bool:
    """Return whether a file's name is valid text, which POSIX does not require."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Replace control characters (a file name may hold escape sequences) and what cannot be encoded as UTF-8."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return "".join("\N{REPLACEMENT CHARACTER}" if category(c) == "Cc" or c in _BIDI_CONTROLS else c for c in safe)
