"""KV over TCP: one connection for each pair, of one or several streams, any number of requests and threads on it.

Frames go out with one gathered write from the caller's own buffers and come in straight into the sink's, checksummed
piece by piece on the way. Credits of pdwire are the back-pressure; its Limits are the deadlines.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Set
from typing import Final
from urllib.parse import urlsplit

from pdserve.transport.base import KvListener, KvSender, KvSink, TransferFailed
from pdserve.transport.claims import Claims
from pdserve.transport.endpoint import Endpoint
from pdserve.transport.security import Guard, TransportSecurity
from pdserve.transport.stream import Stream, format_address, size_buffers
from pdserve.transport.tcp_join import Joins, TcpSender, TcpSession
from pdserve.transport.tcp_receive import Listener, Session
from pdwire import AbortCode, CompatRecord, Connection, Conversion, Limits, Role

SCHEME: Final = "tcp"
BUFFER_BYTES = 4 << 20


class TcpTransport:
    """limits: what this end allows. can: what the engines convert. security: None where nobody has to prove anything.

    streams: of each connection that this end makes. buffer_bytes: of each socket, each direction.
    """

    name = SCHEME

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        can: Set[Conversion] = frozenset(),
        security: TransportSecurity | None = None,
        streams: int = 1,
        buffer_bytes: int = BUFFER_BYTES,
        max_connections: int = 256,
    ) -> None:
        self._limits = limits or Limits()
        self._can = can
        self._security = security
        self._streams = streams
        self._buffer_bytes = buffer_bytes
        self._max_connections = max_connections

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        family, address = _resolve(host, port)
        if ipaddress.ip_address(address[0]).is_unspecified:
            raise ValueError(f"`{host}` means every interface; give the one address that prefill nodes reach")
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            size_buffers(sock, self._buffer_bytes)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(128)
        except OSError:
            sock.close()
            raise

        joins, claims = Joins(), Claims()

        def session(accepted: socket.socket) -> Session:
            guard = self._guard()
            connection = self._connection(Role.DECODE, record, guard)
            return TcpSession(self._stream(accepted, guard), connection, sink, claims, joins)

        where = f"{SCHEME}://{format_address(sock.getsockname())}"
        return Listener(sock, where, session, max_connections=self._max_connections)

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        def another(before: float) -> tuple[Stream, Connection]:
            guard = self._guard()
            sock = self._dial(address, before)
            try:
                stream = self._stream(sock, guard)
            except OSError as error:
                sock.close()
                raise TransferFailed(f"decode at {address}: {error}") from None
            return stream, self._connection(Role.PREFILL, record, guard)

        return TcpSender(
            *another(deadline),
            deadline=deadline,
            streams=self._streams,
            another=lambda before: Endpoint(*another(before)),
        )

    def _guard(self) -> Guard | None:
        return None if self._security is None else self._security.begin()

    def _stream(self, sock: socket.socket, guard: Guard | None) -> Stream:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Stream(sock, format_address(sock.getpeername()), tick_s=self._limits.tick_s, guard=guard)

    def _connection(self, role: Role, record: CompatRecord, guard: Guard | None) -> Connection:
        return Connection(
            role, record, self._limits, can=self._can, credentials=None if guard is None else guard.credentials
        )

    def _dial(self, address: str, deadline: float) -> socket.socket:
        try:
            url = urlsplit(address)
            if url.scheme != SCHEME or not url.hostname or not url.port:
                raise ValueError("not of the form tcp://HOST:PORT")
            family, where = _resolve(url.hostname, url.port)
        except ValueError as error:
            raise TransferFailed(f"address {address!r}: {error}", AbortCode.PROTOCOL) from None
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransferFailed(f"decode at {address}: deadline passed before connecting", AbortCode.DEADLINE)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            size_buffers(sock, self._buffer_bytes)
            sock.settimeout(left)
            sock.connect(where)
        except OSError as error:
            sock.close()
            code = AbortCode.DEADLINE if isinstance(error, TimeoutError) else AbortCode.INTERNAL
            raise TransferFailed(f"decode at {address}: cannot connect: {error}", code) from None
        return sock


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """An IP address, or `localhost`: resolving other names waits for servers that have no deadline here.

    Raises ValueError.
    """
    if host == "localhost":
        host = "127.0.0.1"
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise ValueError(f"`{host}` is not an IP address") from None
    return (socket.AF_INET6 if version == 6 else socket.AF_INET), (host, port)
