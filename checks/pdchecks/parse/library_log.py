"""What communication libraries say that they chose: devices or sockets, GPU Direct or not, variables they obeyed."""

import re
from ipaddress import IPv6Address

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.host import Environment
from pdchecks.facts.log import DevicesInUse, GidInUse, GidUnreadable, GpuDirect
from pdchecks.parse.reader import Reader
from pdchecks.unknown import Unknown

# nccl src/transport/net_ib.cc, net_socket.cc and src/misc/param.cc.
_LIST = r"(?P<list>(?:\[\d{1,3}\]\S{1,60} ?){1,64})"
_USING = re.compile(rf"NET/IB ?: Using {_LIST}(?:.*?OOB (?P<oob>\S{{1,80}}))?")
_USED = re.compile(r"\[\d{1,3}\](?P<device>[^:\s]{1,40}):\d{1,3}(?:/(?P<layer>\w{1,16}))?")
_SOCKET = re.compile(rf"NET/Socket ?: Using {_LIST}|Using network Socket\b")
_USED_SOCKET = re.compile(r"\[\d{1,3}\](?P<device>[^:\s]{1,40}):")
# The second is NCCL's src/misc/ibvsymbols.cc, the third Mooncake's topology.cpp.
_NONE = re.compile(r"NET/IB ?: No device found|Failed to open libibverbs\.so|No RDMA devices? found")
_GDR = re.compile(
    r"GPU Direct RDMA (?:\(\w+\) )?(?P<state>Enabled|Disabled) for "
    r"(?:HCA \d{1,3} '(?P<device>[^':]{1,40})|GPU \S{1,20} / HCA (?P<hca>\d{1,3})(?P<why> \(distance [^)]{1,20}\))?)"
)
_SET = re.compile(r"\b(?P<name>(?:NCCL|UCX|MC|NVSHMEM)_[A-Z0-9_]{2,40}) set by environment to (?P<value>[^\s.]{1,60})")
# mooncake-transfer-engine/src/transport/rdma_transport/rdma_context.cpp; a LID that is not 0 is InfiniBand's.
_GID = re.compile(
    r"RDMA device: (?P<device>[\w.-]{1,40}), LID: 0, GID: \(GID_Index (?P<index>\d{1,4})\) (?P<gid>(?:[0-9a-f]{2}:){15}[0-9a-f]{2})"
)
# nccl src/transport/net_ib.cc and what was made of it (RCCL, UCCL).
_UNREADABLE = re.compile(r"read failed in ncclIbRoceGetVersionNum: (?P<words>[A-Z][a-z ]{3,40})")
_SHAPE = re.compile(
    r"NET/(?:IB|Socket)|Using network Socket|GPU Direct RDMA|set by environment to|libibverbs\.so|No RDMA device|RDMA device: \S{1,40}, LID: "
)


def parse(block: Block) -> list[Fact] | Unknown:
    return [fact for line in block.lines for fact in _line(block, line[:2000])]


def _line(block: Block, line: str) -> list[Fact]:
    facts: list[Fact] = []
    quote = block.quote(line.strip())
    if variable := _SET.search(line):
        facts.append(Environment(quote=quote, values={variable["name"]: variable["value"]}))
    if socket := _SOCKET.search(line):
        names = tuple(match["device"] for match in _USED_SOCKET.finditer(socket["list"] or ""))
        facts.append(DevicesInUse(quote=quote, devices=names, layer="Socket", bootstrap=""))
    if gid := _GID.search(line):
        address = IPv6Address(int(gid["gid"].replace(":", ""), 16))
        facts.append(
            GidInUse(quote=quote, program="Mooncake", device=gid["device"], index=int(gid["index"]), address=address)
        )
    if unreadable := _UNREADABLE.search(line):
        facts.append(GidUnreadable(quote=quote, words=unreadable[0]))
    if _NONE.search(line):
        facts.append(DevicesInUse(quote=quote, devices=(), layer="IB", bootstrap=""))
    if using := _USING.search(line):
        used = list(_USED.finditer(using["list"]))
        layer = next((match["layer"] for match in used if match["layer"]), "")
        devices = tuple(match["device"] for match in used)
        facts.append(DevicesInUse(quote=quote, devices=devices, layer=layer, bootstrap=using["oob"] or ""))
    # Of sockets the library says it too: there is no NIC that could register GPU memory.
    if (gdr := _GDR.search(line)) and "NET/Socket" not in line:
        device = gdr["device"] or f"HCA {gdr['hca']}"
        why = (gdr["why"] or "").strip(" ()")
        facts.append(GpuDirect(quote=quote, device=device, enabled=gdr["state"] == "Enabled", why=why))
    return facts


READER = Reader("library log", lambda block: _SHAPE.search(block.output) is not None, parse, events=True)
