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

import httpx

from lodestone.client.connection import Connection
from lodestone.client.problems import error_of
from lodestone.client.retrying import RetryPolicy
from lodestone.client.sync_client import Lodestone
from lodestone.client.transport import Transport
from lodestone.config.home import Home
from lodestone.processes import is_running
from lodestone_schemas.service import Alive

__all__ = ["TOKEN_HEADER", "ServiceAddress", "ServiceClient", "error_of", "find_service", "instance_of", "read_address"]

TOKEN_HEADER = "X-Lodestone-Token"  # noqa: S105 - the name of a header
_PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """What service.json says: where the service of one home answers, who it is, and the token of its internal routes."""

    url: str
    pid: int
    token: str
    version: str
    started_at: datetime

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
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # missing, from another version, or cut short: as good as no service


def find_service(home: Home, *, timeout_s: float = _PROBE_S) -> ServiceAddress | None:
    """The running service of `home`, or None: no file, a dead process, no answer, or another service's answer."""
    address = read_address(home)
    if address is None or not is_running(address.pid):
        return None
    try:
        answer = httpx.get(f"{address.url}/healthz", timeout=timeout_s, trust_env=False)
        alive = Alive.model_validate_json(answer.content)
    except (httpx.HTTPError, ValueError):
        return None
    return address if alive.instance == instance_of(address.token) else None


class ServiceClient(Lodestone):
    """Asks the running service of a home on this machine, as this machine's user.

    Args:
        address: From `find_service`.
        timeout_s: Seconds to wait for a whole answer; streams may pause for that long between two events. A query with a longer
            deadline is waited for; removing a corpus and a sync are waited for without end, while the service lives.

    Raises:
        ServiceUnavailableError: from every method, when the service does not answer (any more).
    """

    def __init__(self, address: ServiceAddress, *, timeout_s: float = 60.0) -> None:
        self.address = address
        connection = Connection.to(
            address.url,
            api_key="",  # the token says more, and the environment's key is another service's
            headers={TOKEN_HEADER: address.token},
            timeout_s=timeout_s,
            connect_s=_PROBE_S,
            policy=RetryPolicy(attempts=2, unreached=False),  # who cannot be reached on this machine has ended
            proxies=False,  # a proxy from the environment has no business between two processes of one machine
        )
        Transport.__init__(self, connection)
