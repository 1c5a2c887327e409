"""The socket that a service listens on: taken before anything starts, so that a port in use is refused at once."""

from __future__ import annotations

import errno
import socket

from lodestone.errors import ConfigurationError


def reserve(host: str, port: int) -> socket.socket:
    """Bind `port`, or a free one for 0, and hold it; the socket does not listen yet, so no connection reaches it.

    Args:
        host: Address to bind.
        port: Port, or 0.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free; one being listened on is not
    try:
        holder.bind((host, port))
    except OSError as error:
        holder.close()
        if error.errno not in {errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL}:
            raise
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="stop what uses the port, or choose another: --port 0 picks a free one",
            setting="serve.port",
        ) from error
    return holder


def share(holder: socket.socket) -> None:
    """Let another listener of this user have the port of a bound socket, as Serve's proxy does, by SO_REUSEPORT.

    It is set after binding: another service must not have joined. A process that asks for exclusive use of the port cannot
    have it while `holder` is open.
    """
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def url_of(bound: socket.socket, *, tls: bool) -> str:
    """Return the URL by which programs of this machine reach a bound socket."""
    host, port = bound.getsockname()[:2]
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"{'https' if tls else 'http'}://{f'[{own}]' if ':' in own else own}:{port}"
