"""Everyone who takes part, in the order of the table. A new contender is a module here and a line in this list."""

from __future__ import annotations

from tests.bench.kv.contender import Contender
from tests.bench.kv.contenders import formats, memcpy, mooncake, nixl, ours, raw_socket

CONTENDERS: list[Contender] = [
    *memcpy.CONTENDERS,
    *ours.CONTENDERS,
    *raw_socket.CONTENDERS,
    *nixl.CONTENDERS,
    *mooncake.CONTENDERS,
    *formats.CONTENDERS,
]
