"""Client of the service of a home on this machine, for Lodestone's own commands, which authenticate by service.json's token."""

from __future__ import annotations

from lodestone.home.running_service.address import PROBE_S, TOKEN_HEADER, ServiceAddress
from lodestone_client.connection import Connection
from lodestone_client.retrying import RetryPolicy
from lodestone_client.sync_client import Lodestone
from lodestone_client.sync_transport import Transport


class ServiceClient(Lodestone):
    """Client of the running service of a home on this machine, with the rights of this machine's user.

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
            connect_s=PROBE_S,
            policy=RetryPolicy(attempts=2, unreached=False),  # who cannot be reached on this machine has ended
            trust=address.trust,
            proxies=False,  # a proxy from the environment has no business between two processes of one machine
        )
        Transport.__init__(self, connection)
