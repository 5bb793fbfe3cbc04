"""The transports that the contract suite runs over. A new one is one more line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pdserve.transport.base import Transport
from pdserve.transport.tcp import TcpTransport
from pdwire import Limits

Factory: TypeAlias = Callable[[Limits], Transport]
TRANSPORTS: list[Factory] = [TcpTransport]
