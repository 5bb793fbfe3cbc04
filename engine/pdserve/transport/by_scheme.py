"""The transports, by the scheme of their addresses. A new one is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from urllib.parse import urlsplit

from pdserve.transport.base import KvSender, TransferFailed, Transport
from pdserve.transport.security import TransportSecurity
from pdserve.transport.shm import ShmTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import AbortCode, CompatRecord, Conversion

TRANSPORTS: Mapping[str, Callable[[TransportSecurity | None, Set[Conversion]], Transport]] = {
    TcpTransport.name: lambda security, can: TcpTransport(security=security, can=can),
    ShmTransport.name: lambda security, can: ShmTransport(security=security, can=can),
}


class ByScheme:
    """Connects with whichever transport the address names: a prefill process serves decode processes of any kind."""

    def __init__(self, security: TransportSecurity | None, can: Set[Conversion] = frozenset()) -> None:
        self._transports = {name: make(security, can) for name, make in TRANSPORTS.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._transports)

    def connect(self, address: str, record: CompatRecord, *, deadline: float) -> KvSender:
        """Raises IncompatiblePeer or TransferFailed."""
        transport = self._transports.get(urlsplit(address).scheme)
        if transport is None:
            known = ", ".join(f"{name}://" for name in self._transports)
            raise TransferFailed(f"address {address!r} is of none of the kinds {known}", AbortCode.PROTOCOL)
        return transport.connect(address, record, deadline=deadline)
