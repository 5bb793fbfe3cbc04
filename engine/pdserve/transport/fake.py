"""The transport that misbehaves on demand: tcp over a link that drops, delays, reorders, duplicates, corrupts and cuts.

It is for tests of everything that stands on a transport, and keeps every guarantee of one while its script has no
rules. Addresses read `fake://HOST:PORT`; two processes may use it, each with the script of its own listener.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Set
from typing import Final

from pdserve.transport.base import KvListener, KvSender, KvSink
from pdserve.transport.fake_link import FakeLink
from pdserve.transport.faults import Script
from pdserve.transport.security import TransportSecurity
from pdserve.transport.stream import format_address
from pdserve.transport.tcp import TcpTransport
from pdwire import CompatRecord, Conversion, Limits

SCHEME: Final = "fake"
_LOOPBACK = "127.0.0.1"


class FakeTransport:
    """script: what its listeners' links do; shared by all of them. limits, can, security: as for tcp."""

    name = SCHEME

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        script: Script | None = None,
        can: Set[Conversion] = frozenset(),
        security: TransportSecurity | None = None,
    ) -> None:
        self.script = script or Script()
        self._tcp = TcpTransport(limits, can=can, security=security)

    def listen(self, host: str, port: int, record: CompatRecord, sink: KvSink) -> KvListener:
        address = ipaddress.ip_address(_LOOPBACK if host == "localhost" else host)
        if address.is_unspecified:
            raise ValueError(f"`{host}` means every interface; give the one address that prefill nodes reach")
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        front = socket.create_server((str(address), port), family=family, backlog=128)
        try:
            behind = self._tcp.listen(_LOOPBACK, 0, record, sink)
        except BaseException:
            front.close()
            raise
        return FakeListener(behind, front, self.script)

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        scheme, separator, where = address.partition("://")
        behind = f"tcp://{where}" if scheme == SCHEME and separator else address
        return self._tcp.connect(behind, record, deadline=deadline)


class FakeListener:
    """A tcp listener that is reached only through the link in front of it."""

    def __init__(self, behind: KvListener, front: socket.socket, script: Script) -> None:
        host, port = behind.address.removeprefix("tcp://").rsplit(":", 1)
        self._behind = behind
        self._address = f"{SCHEME}://{format_address(front.getsockname())}"
        self._link = FakeLink(front, (host, int(port)), script)

    @property
    def address(self) -> str:
        return self._address

    def abort(self, request: bytes, reason: str) -> bool:
        return self._behind.abort(request, reason)

    def close(self) -> None:
        self._behind.close()
        self._link.close()
