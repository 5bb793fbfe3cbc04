"""TCP ports: free ones to use, and who holds a busy one."""

import errno
import secrets
import socket
from collections.abc import Collection

import psutil

from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode

# Below the ephemeral range of Linux (32768) and macOS (49152), so that no outgoing connection takes a unit's port
# while the unit is being restarted.
_FIRST, _LAST = 20000, 32000


def require_free(host: str, port: int) -> None:
    """Raises PdError, naming the holder where that can be read, unless `host:port` can be bound."""
    reason = _why_not(host, port)
    if reason is None:
        return
    if not isinstance(reason, PortTaken):
        raise PdError(
            f"cannot listen on `{host}` port {port}: {reason}",
            hint="give an address of this host with `--host`, and a port above 1023 with `--port`",
            code=ExitCode.PARTLY,
        )
    raise in_use(host, port, "nothing was started")


def in_use(host: str, port: int, consequence: str) -> PdError:
    return PdError(
        f"port {port} on `{host}` is in use",
        detail=f"held by {holder(port) or 'a process that this user may not see'}; {consequence}",
        hint="stop that process, or take another port with `--port` (0 picks a free one)",
        code=ExitCode.PARTLY,
    )


def is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    return isinstance(_why_not(host, port), PortTaken)


def free_ports(host: str, count: int, promised: Collection[int] = ()) -> list[int]:
    """`count` ports of `host` that can be bound now and are not promised to another deployment.

    The search begins anywhere, so that two users who look at the same time seldom find the same.
    Raises PdError when there are not that many.
    """
    found: list[int] = []
    begin = secrets.randbelow(_LAST - _FIRST)
    for step in range(_LAST - _FIRST):
        port = _FIRST + (begin + step) % (_LAST - _FIRST)
        if port not in promised and _why_not(host, port) is None:
            found.append(port)
            if len(found) == count:
                return found
    raise PdError(f"no {count} free ports between {_FIRST} and {_LAST} on `{host}`", code=ExitCode.PARTLY)


def holder(port: int) -> str | None:
    """`pid 4711 (nginx)` of a listener on this port; None when it cannot be read."""
    try:
        listeners = [
            c
            for c in psutil.net_connections("tcp")
            if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port
        ]
    except psutil.Error:
        return None
    for connection in listeners:
        if connection.pid is not None:
            try:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
            except psutil.Error:
                return f"pid {connection.pid}"
    return None


class PortTaken(OSError):
    """Somebody else listens there."""


def _why_not(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the servers do: a port in TIME_WAIT is free, one with a listener is not.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return PortTaken(*error.args) if error.errno == errno.EADDRINUSE else error
    return None
