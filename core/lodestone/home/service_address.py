"""Address of the Lodestone service that runs for a home, published in the home and found by other processes.

The service owns the embedded store while it runs and publishes its address in `service.json` (mode 0600: it holds the token of
the internal routes). A file left by a crashed service is recognised by its process id, or because nobody (or another service)
answers at its address, and is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lodestone.config.home import Home
from lodestone.processes import is_running
from lodestone_schemas.service import Alive

if TYPE_CHECKING:
    import ssl

    from lodestone.home.local_client import ServiceClient
    from lodestone_client.problems import error_of

__all__ = ["TOKEN_HEADER", "ServiceAddress", "ServiceClient", "error_of", "find_service", "instance_of", "read_address"]

TOKEN_HEADER = "X-Lodestone-Token"  # noqa: S105 - the name of a header
PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Content of service.json: where the service of one home answers, its identity, and the token of its internal routes.

    `certificate` (PEM) is the one that it uses for TLS; "" without TLS.
    """

    url: str
    pid: int
    token: str
    version: str
    started_at: datetime
    certificate: str = ""

    @property
    def trust(self) -> ssl.SSLContext | None:
        """Return a TLS context that accepts exactly this certificate, under any name: the service is called by address.

        None without TLS.
        """
        if not self.certificate:
            return None
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it is trusted by itself, whoever signed it
        context.load_verify_locations(cadata=self.certificate)
        return context

    def write(self, home: Home) -> None:
        """Publish the address atomically, readable by this user alone."""
        temporary = home.service.with_suffix(f".{os.getpid()}")
        record = {**asdict(self), "started_at": self.started_at.isoformat()}
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record, file)
        temporary.replace(home.service)

    def withdraw(self, home: Home) -> None:
        """Remove the published address if it is still this one."""
        if read_address(home) == self:
            home.service.unlink(missing_ok=True)


def instance_of(token: str) -> str:
    """Return an identifier of one run of a service that does not reveal its token."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def read_address(home: Home) -> ServiceAddress | None:
    """Return the content of service.json, valid or not; None when the file is missing or unreadable."""
    try:
        record = json.loads(home.service.read_text(encoding="utf-8"))
        return ServiceAddress(
            url=str(record["url"]),
            pid=int(record["pid"]),
            token=str(record["token"]),
            version=str(record["version"]),
            started_at=datetime.fromisoformat(record["started_at"]),
            certificate=str(record.get("certificate", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # missing, from another version, or truncated: treated as no service


def find_service(home: Home, *, timeout_s: float = PROBE_S) -> ServiceAddress | None:
    """Return the running service of `home`, or None: no file, an ended process, no answer, or another service's answer."""
    address = read_address(home)
    if address is None or not is_running(address.pid):
        return None
    import httpx  # importing it takes a while, and mostly there is no service

    try:
        trust = address.trust
        verify = trust if trust is not None else address.url.startswith("https:")
        answer = httpx.get(f"{address.url}/healthz", timeout=timeout_s, trust_env=False, verify=verify)
        alive = Alive.model_validate_json(answer.content)
    except (httpx.HTTPError, ValueError):
        return None
    return address if alive.instance == instance_of(address.token) else None


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    """Import the service's client when it is first used: finding no service needs none of it."""
    if name == "ServiceClient":
        from lodestone.home.local_client import ServiceClient

        return ServiceClient
    if name == "error_of":
        from lodestone_client.problems import error_of

        return error_of
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
