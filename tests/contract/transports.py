"""The transports that the contract suite runs over. A new one is one more line."""

from __future__ import annotations

import socket
import tempfile
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pdserve.transport.base import Transport
from pdserve.transport.fake import FakeTransport
from pdserve.transport.file import FileTransport
from pdserve.transport.security import TransportSecurity
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import Limits, Secret, Security

SECRET = Secret(bytes(range(32)))
AUTHENTICATED = TransportSecurity(Security.AUTHENTICATED, lambda: [SECRET])
ENCRYPTED = TransportSecurity(Security.ENCRYPTED, lambda: [SECRET])


@dataclass(frozen=True)
class Case:
    """lends: its sink lends its memory. link: `BadLink` can stand between its two ends, and read what crosses.

    encrypted: it can stand there, and read nothing. secret: both ends have to prove that they hold it.
    """

    name: str
    transport: Callable[[Limits], Transport]
    lends: bool = False
    link: bool = False
    encrypted: bool = False
    secret: bool = False

    @property
    def dripping(self) -> bool:
        """Whether a link between the two ends can bring bytes late."""
        return self.link or self.encrypted

    @property
    def open(self) -> bool:
        """Whether a stranger can say HELLO."""
        return not self.secret

    def __call__(self, limits: Limits) -> Transport:
        return self.transport(limits)

    @property
    def scheme(self) -> str:
        return self.transport(Limits()).name


TRANSPORTS: list[Case] = [
    Case("tcp", TcpTransport, link=True),
    Case("tcp-4-streams", lambda limits: TcpTransport(limits, streams=4)),
    Case("shm", ShmTransport, lends=True),
    Case("shm-inline", ShmTransport),
    Case("fake", FakeTransport, link=True),
    Case("tcp-authenticated", lambda limits: TcpTransport(limits, security=AUTHENTICATED), link=True, secret=True),
    Case("tcp-encrypted", lambda limits: TcpTransport(limits, security=ENCRYPTED), encrypted=True, secret=True),
]


def _file(limits: Limits) -> FileTransport:
    spool = tempfile.TemporaryDirectory(prefix="pdctl-spool-")
    transport = FileTransport(Path(spool.name), limits)
    weakref.finalize(transport, spool.cleanup)
    return transport


FILE = Case("file", _file)
"""Nobody answers a file: it is in those tests alone that need no answer (docs/transports.md)."""


def dial(address: str) -> socket.socket:
    """As a stranger does: a bare socket to a listener's address."""
    url = urlsplit(address)
    assert url.hostname is not None and url.port is not None
    if url.scheme in ("tcp", "fake"):
        return socket.create_connection((url.hostname, url.port), timeout=5)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(5)
    sock.connect(_abstract(url.hostname, url.port))
    return sock


def mute_server(scheme: str) -> tuple[AbstractContextManager[socket.socket], str]:
    """A server that accepts and never says a word, and its address."""
    if scheme in ("tcp", "fake"):
        server = socket.create_server(("127.0.0.1", 0))
        return server, f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    for port in range(20000, 30000):
        try:
            server.bind(_abstract("127.0.0.1", port))
            break
        except OSError:
            continue
    server.listen(8)
    return server, f"{scheme}://127.0.0.1:{port}"


def _abstract(host: str, port: int) -> bytes:
    return f"\0pdctl/kv/{host}:{port}".encode()
