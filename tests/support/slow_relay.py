"""A network with a latency: relays of TCP connections whose answers arrive later than they were sent.

`python -m tests.support.slow_relay SECONDS PORT...` listens on a free port for each port, prints their numbers as JSON, and
runs until its standard input ends. It runs in a process of its own, so that it does not share the GIL of what is measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_HOST = "127.0.0.1"
_CHUNK = 1 << 18


@contextmanager
def slow_relays(ports: Sequence[int], *, seconds: float) -> Iterator[list[int]]:
    """Yield a port for each of `ports` that leads to it; what is answered arrives `seconds` later."""
    command = [sys.executable, "-m", "tests.support.slow_relay", str(seconds), *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield list(json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(10)


async def _relay(port: int, seconds: float) -> int:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            answers, requests = await asyncio.open_connection(_HOST, port)
            await asyncio.gather(_pass_on(reader, requests, 0.0), _pass_on(answers, writer, seconds))

    server = await asyncio.start_server(serve, _HOST, 0, limit=_CHUNK)
    return int(server.sockets[0].getsockname()[1])


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seconds: float) -> None:
    """Pass everything on in its order, each piece `seconds` after it came, however many are on their way."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while chunk := await source.read(_CHUNK):
            if seconds:
                loop.call_later(seconds, sink.write, chunk)  # callbacks of equal delay run in the order in which they were made
            else:
                sink.write(chunk)
                await sink.drain()
    await asyncio.sleep(seconds)
    sink.close()


async def _main(seconds: float, ports: Sequence[int]) -> None:
    print(json.dumps([await _relay(port, seconds) for port in ports]), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
