"""Address of the Lodestone service that runs for a home: written to `service.json`, read and checked.

The service owns the embedded store while it runs and publishes its address in `service.json` (mode 0600: the file holds the
token of the internal routes). A file of a service that crashed is ignored: its process no longer exists, or no service (or
another one) answers at its address.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lodestone.config.home import Home
from lodestone.durable_files import read_small_text, write_atomically
from lodestone.processes import is_running

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection


TOKEN_HEADER = "X-Lodestone-Token"  # noqa: S105 - the name of a header
PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The content of service.json: address and identity of the service of one home, and the token of its internal routes.

    Attributes:
        url: Address of the service on this machine.
        pid: Its process id.
        token: Token of the internal routes.
        version: Version of Lodestone that the service runs.
        started_at: Time of its start.
        certificate: The certificate (PEM) that it presents over TLS; "" without TLS.
    """

    url: str
    pid: int
    token: str
    version: str
    started_at: datetime
    certificate: str = ""

    @property
    def trust(self) -> ssl.SSLContext | None:
        """Return a context that trusts exactly this certificate, without a check of its host name; None without TLS.

        The name is not checked because requests on this machine go to an IP address.
        """
        if not self.certificate:
            return None
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it is trusted by itself, whoever signed it
        context.load_verify_locations(cadata=self.certificate)
        return context

    def connect(self, *, timeout_s: float) -> HTTPConnection:
        """Return a connection for one plain request, not connected yet; no proxy from the environment is used.

        Raises:
            ValueError: the address is none.
        """
        from http.client import HTTPConnection, HTTPSConnection

        parts = urlsplit(self.url)
        if parts.scheme == "https":
            return HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout_s, context=self.trust)
        return HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)

    def write(self, home: Home) -> None:
        """Publish the address atomically, readable by this user alone."""
        record = {**asdict(self), "started_at": self.started_at.isoformat()}
        write_atomically(home.service, json.dumps(record), mode=0o600)

    def withdraw(self, home: Home) -> None:
        """Remove the published address if it is still this one."""
        if read_address(home) == self:
            home.service.unlink(missing_ok=True)


def instance_of(token: str) -> str:
    """Return an identifier of one run of a service that does not reveal its token."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def read_address(home: Home) -> ServiceAddress | None:
    """Return the address in service.json, unchecked; None when the file is missing or cannot be parsed."""
    try:
        record = json.loads(read_small_text(home.service))
        return ServiceAddress(
            url=str(record["url"]),
            pid=int(record["pid"]),
            token=str(record["token"]),
            version=str(record["version"]),
            started_at=datetime.fromisoformat(record["started_at"]),
            certificate=str(record.get("certificate", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None  # missing, from another version, or cut short: the same as no service


def find_service(home: Home, *, timeout_s: float = PROBE_S) -> ServiceAddress | None:
    """Return the address of the running service of `home`.

    None means no file, a process that has ended, no answer, or an answer of another service.
    """
    address = read_address(home)
    if address is None or not is_running(address.pid):
        return None
    from http.client import HTTPException  # httpx takes longer to import than a service to answer

    from lodestone_schemas.service import Alive

    try:
        with closing(address.connect(timeout_s=timeout_s)) as connection:
            connection.request("GET", "/healthz")
            alive = Alive.model_validate_json(connection.getresponse().read())
    except (OSError, HTTPException, ValueError):
        return None
    return address if alive.instance == instance_of(address.token) else None
