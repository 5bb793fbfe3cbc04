"""KV between two processes of one host: control by a unix socket, bodies through memory that decode shares.

Addresses read `shm://HOST:PORT`, so that one configuration names any transport; the host is a loopback address, and
the two name an abstract unix socket of this network namespace, which no crash leaves behind. Only processes of one
user get through: the kernel says who the peer is.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import random
import socket
import struct
import time
from collections.abc import Set
from typing import Final
from urllib.parse import urlsplit

from pdserve.transport.base import KvListener, KvSender, KvSink, TransferFailed
from pdserve.transport.claims import Claims
from pdserve.transport.security import TransportSecurity
from pdserve.transport.shm_receive import LendingSession
from pdserve.transport.shm_send import ShmSender
from pdserve.transport.shm_stream import LendingStream, WritingStream
from pdserve.transport.stream import format_address
from pdserve.transport.tcp_receive import Listener, Session, log
from pdwire import AbortCode, CompatRecord, Connection, Conversion, Limits, Role

SCHEME: Final = "shm"
_UCRED = struct.Struct("3i")  # socket(7): pid, uid, gid
_FREE_PORTS = range(49152, 65536)


class ShmTransport:
    """limits: what this end allows. can: what the engines convert. security: as for tcp; `encrypted` encrypts nothing
    here, because the bytes never leave this user's memory on this host.
    """

    name = SCHEME

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        can: Set[Conversion] = frozenset(),
        security: TransportSecurity | None = None,
        max_connections: int = 256,
    ) -> None:
        self._limits = limits or Limits()
        self._can = can
        self._security = security
        self._max_connections = max_connections

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        """Raises ValueError also for a host that is not of the loopback: it would promise other hosts a way here."""
        host = _loopback(host)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            address = _bind(sock, host, port)
            sock.listen(128)
        except OSError:
            sock.close()
            raise

        claims = Claims()

        def session(accepted: socket.socket) -> Session | None:
            pid, uid = _who(accepted)
            if uid != os.geteuid():
                log.warning("%s: refused process %d of user %d, this is user %d", address, pid, uid, os.geteuid())
                return None
            stream = LendingStream(accepted, f"process {pid}", tick_s=self._limits.tick_s)
            return LendingSession(stream, self._connection(Role.DECODE, record), sink, claims)

        return Listener(sock, address, session, max_connections=self._max_connections)

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        sock = self._dial(address, deadline)
        stream = WritingStream(sock, address, tick_s=self._limits.tick_s)
        return ShmSender(stream, self._connection(Role.PREFILL, record), deadline=deadline)

    def _connection(self, role: Role, record: CompatRecord) -> Connection:
        guard = None if self._security is None else self._security.begin()
        return Connection(
            role, record, self._limits, can=self._can, credentials=None if guard is None else guard.credentials
        )

    def _dial(self, address: str, deadline: float) -> socket.socket:
        try:
            url = urlsplit(address)
            if url.scheme != SCHEME or not url.hostname or not url.port:
                raise ValueError("not of the form shm://HOST:PORT")
            name = _socket_name(_loopback(url.hostname), url.port)
        except ValueError as error:
            raise TransferFailed(f"address {address!r}: {error}", AbortCode.PROTOCOL) from None
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransferFailed(f"decode at {address}: deadline passed before connecting", AbortCode.DEADLINE)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(left)
            sock.connect(name)
            _, uid = _who(sock)
            if uid != os.geteuid():
                raise PermissionError(f"it belongs to user {uid}, this is user {os.geteuid()}")
        except OSError as error:
            sock.close()
            code = AbortCode.DEADLINE if isinstance(error, TimeoutError) else AbortCode.INTERNAL
            raise TransferFailed(f"decode at {address}: cannot connect: {error}", code) from None
        return sock


def _loopback(host: str) -> str:
    """Raises ValueError."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"`{host}` is not an IP address") from None
    if address.is_unspecified:
        raise ValueError(f"`{host}` means every interface; shm has none but the loopback")
    if not address.is_loopback:
        raise ValueError(f"`{host}` is not of the loopback, and shared memory ends at this host")
    return str(address)


def _socket_name(host: str, port: int) -> bytes:
    """In the abstract namespace (unix(7))."""
    return f"\0pdctl/kv/{format_address((host, port))}".encode()


def _bind(sock: socket.socket, host: str, port: int) -> str:
    """The address it got. port 0: any free one. Raises OSError."""
    for candidate in [port] if port else random.sample(_FREE_PORTS, 64):
        try:
            sock.bind(_socket_name(host, candidate))
            return f"{SCHEME}://{format_address((host, candidate))}"
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "no free port found")


def _who(sock: socket.socket) -> tuple[int, int]:
    """Process and user at the other end."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid
