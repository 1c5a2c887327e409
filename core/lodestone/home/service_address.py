"""Is a Lodestone service running for this home, and how is it asked?

The service owns the embedded store while it runs and says where it is in `service.json` (mode 0600: it holds the token of the
internal routes). A file left behind by a service that died is recognised by its process id, or by nobody (or somebody else)
answering at its address, and is ignored.
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
    """What service.json says: where the service of one home answers, who it is, and the token of its internal routes.

    `certificate` (PEM) is what it shows over TLS; "" without.
    """

    url: str
    pid: int
    token: str
    version: str
    started_at: datetime
    certificate: str = ""

    @property
    def trust(self) -> ssl.SSLContext | None:
        """Believes this very certificate, whatever name it is for: here it is asked by address. None without TLS."""
        if not self.certificate:
            return None
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it counts by itself, whoever signed it
        context.load_verify_locations(cadata=self.certificate)
        return context

    def write(self, home: Home) -> None:
        """Publish the address: readable by this user alone, and never half written."""
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
    """Names one run of a service without giving its token away."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def read_address(home: Home) -> ServiceAddress | None:
    """What service.json says, true or not; None when there is none or it cannot be understood."""
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
        return None  # missing, from another version, or cut short: as good as no service


def find_service(home: Home, *, timeout_s: float = PROBE_S) -> ServiceAddress | None:
    """The running service of `home`, or None: no file, a dead process, no answer, or another service's answer."""
    address = read_address(home)
    if address is None or not is_running(address.pid):
        return None
    import httpx  # takes a while, and mostly there is no service

    try:
        trust = address.trust
        verify = trust if trust is not None else address.url.startswith("https:")
        answer = httpx.get(f"{address.url}/healthz", timeout=timeout_s, trust_env=False, verify=verify)
        alive = Alive.model_validate_json(answer.content)
    except (httpx.HTTPError, ValueError):
        return None
    return address if alive.instance == instance_of(address.token) else None


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """The client of such a service, imported when it is asked for: finding no service needs none of it."""
    if name == "ServiceClient":
        from lodestone.home.local_client import ServiceClient

        return ServiceClient
    if name == "error_of":
        from lodestone_client.problems import error_of

        return error_of
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
