"""Free loopback ports. They are never fixed, because several test processes run side by side."""

from __future__ import annotations

import itertools
import os
import random
import socket

# Below the ports that the system hands out by itself (from 32768), above those of Ray's workers (10002 to 19999) and of its
# client server (from 23000): between looking and binding nobody takes one by chance.
_FIRST, _LAST = 24_000, 32_000
_PROCESSES = 8


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that nobody listens on now; another test process looks elsewhere."""
    return list(itertools.islice(filter(_is_free, _candidates), count))


def _order() -> itertools.cycle[int]:
    size = (_LAST - _FIRST) // _PROCESSES
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    ports = list(range(_FIRST + place * size, _FIRST + (place + 1) * size))
    start = random.Random(os.getpid()).randrange(size)
    return itertools.cycle(ports[start:] + ports[:start])


_candidates = _order()  # goes round: a port that was just given is given again last


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
