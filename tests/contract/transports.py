"""The transports that the contract suite runs over. A new one is one more line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

from pdserve.transport.base import Transport
from pdserve.transport.fake import FakeTransport
from pdserve.transport.tcp import TcpTransport
from pdwire import Limits

Factory: TypeAlias = Callable[[Limits], Transport]
TRANSPORTS: list[Factory] = [TcpTransport, FakeTransport]


def host_and_port(address: str) -> tuple[str, int]:
    """Where a stranger's socket would connect to."""
    url = urlsplit(address)
    assert url.hostname is not None and url.port is not None
    return url.hostname, url.port
