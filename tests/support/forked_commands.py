"""Server that runs command lines of Lodestone in forks of one process, which has imported everything already.

A new interpreter takes most of a second to import what a command needs, and the documentation has more than a hundred commands.
`python -m tests.support.forked_commands SOCKET` serves; `CLIENT` is a program that stands for `lodestone` and asks it. The fork
has the caller's arguments, folder, environment and standard streams. It shares no threads, models or open homes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Imported before the first fork; none of them starts a thread.
PRELOADED = ("httpx", "lodestone.home.runtime", "lodestone_client", "lodestone.services.use_cases")
START_S = 120.0

CLIENT = """#!{python} -ISE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
server.sendall(call)
sys.exit(int(server.recv(8) or b"70"))
"""


@contextmanager
def forked_commands(program: Path) -> Iterator[None]:
    """Serve until the block ends, and write the client to the path of a program."""
    address = program.parent / "commands.socket"
    program.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    program.chmod(0o755)
    process = subprocess.Popen([sys.executable, "-m", "tests.support.forked_commands", str(address)], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + START_S
        while not address.exists():
            assert process.poll() is None, "the server of commands did not start"
            assert time.monotonic() < end, "the server of commands did not start in time"
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


def _serve(address: str) -> None:
    import typer.main
    from tests.support.built_commands import building_once

    from lodestone_cli import main

    main._load_commands()
    typer.main.get_command = building_once()
    typer.main.get_command(main.app)  # every fork has what is built before it
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen()
    Path(address + ".new").rename(address)
    while True:
        caller, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            listener.close()
            os._exit(_run(caller))
        caller.close()


def _run(caller: socket.socket) -> int:
    from lodestone_cli import main

    size, streams, _, _ = socket.recv_fds(caller, 8, 3)
    wanted = int.from_bytes(size, "big")
    call = b""
    while len(call) < wanted:
        call += caller.recv(wanted - len(call))
    arguments, folder, environment = json.loads(call)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["lodestone", *arguments]
    code = 70
    try:
        code = main.run(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - shown, as an interpreter would
        sys.excepthook(*sys.exc_info())
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    caller.sendall(str(code).encode())
    return code


if __name__ == "__main__":
    _serve(sys.argv[1])
