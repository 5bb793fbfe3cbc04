"""Files of network interfaces and of RoCE marking, as `grep "" FILES` prints them (path:value), or one file by `cat`.

/sys/class/net/IF/{mtu,speed,carrier}; NVIDIA's own ecn/ and qos/ folders, the in-tree driver's cc_params; traffic class by /sys/class/infiniband/DEV/tc,
configfs and cma_roce_tos; peer memory clients."""

import re
from collections.abc import Iterator

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.net import LinkSpeed, Netdev
from pdchecks.facts.qos import CnpMark, CongestionControl, QosTrust, RoceTrafficClass
from pdchecks.facts.rdma import PeerMemory
from pdchecks.parse.reader import Reader, argument, files, looks_like, runs
from pdchecks.unknown import Unknown

_NET = re.compile(r"\S*/sys/class/net/(?P<netdev>[^/\s:*]{1,32})/(?P<file>[\w/]{2,80}):(?P<value>.{0,200})")
_CAT = re.compile(r"(?P<path>/sys/(?:class/net|class/infiniband|kernel)/\S{1,200})\s*$")
_ENABLE = re.compile(r"ecn/roce_(?P<role>np|rp)/enable/(?P<priority>[0-7])")
_CNP = {"ecn/roce_np/cnp_dscp": "DSCP", "ecn/roce_np/cnp_802p_prio": "priority", "dscp": "DSCP", "prio": "priority"}
# The in-tree driver's files of debugfs; linux drivers/infiniband/hw/mlx5/cong.c.
_CC_PARAMS = re.compile(
    r"\S*/mlx5/(?P<address>[0-9a-f:.]{7,12})/cc_params/np_cnp_(?P<field>dscp|prio):(?P<value>\d{1,3})\s*"
)
_CLASS = re.compile(
    r"\S*/(?:infiniband|rdma_cm)/(?P<device>[^/\s:*]{1,64})/(?:tc/\d{1,2}/traffic_class|ports/\d{1,3}/default_roce_tos)"
    r":(?:Global tclass=)?(?P<value>\d{1,3})\b"
)
_PEERS = re.compile(r"\S*/memory_peers/(?P<client>nv_?mem\w{0,20}|\w{2,30})/\w{2,20}:(?P<value>.{1,80})")
_SHAPE = re.compile(
    r"^\S*/sys/class/net/[^/\s:]+/(?:ecn|qos|mtu|speed)\b|/default_roce_tos:|/traffic_class:", re.MULTILINE
)
_ERROR = re.compile(r"(?:cat|grep|head|ls): ")


def parse(block: Block) -> list[Fact] | Unknown:
    if block.output.strip().isdecimal() and runs(block, "cma_roce_tos") and len(block.output.strip()) < 4:
        device = argument(block.command, "-d") or "(device not named)"
        return [RoceTrafficClass(quote=block.quote(block.output), device=device, traffic_class=int(block.output))]
    facts: list[Fact] = []
    roles: dict[tuple[str, str], dict[int, bool]] = {}
    for line in _lines(block):
        if mark := _CLASS.match(line):
            facts.append(
                RoceTrafficClass(quote=block.quote(line), device=mark["device"], traffic_class=int(mark["value"]))
            )
        elif cnp := _CC_PARAMS.fullmatch(line):
            facts.append(_cnp(block, line, cnp["address"], cnp["field"], cnp["value"]))
        elif peer := _PEERS.match(line):
            facts.append(PeerMemory(quote=block.quote(line), client=peer["client"]))
        elif match := _NET.match(line):
            value = match["value"].strip()
            if (enable := _ENABLE.fullmatch(match["file"])) and value in ("0", "1"):
                key = (match["netdev"], enable["role"])
                roles.setdefault(key, {})[int(enable["priority"])] = value == "1"
            else:
                facts += _plain(block, line, match["netdev"], match["file"], value)
    for (netdev, role), enabled in roles.items():
        shown = f"roce_{role}/enable: " + ", ".join(f"{p}:{int(on)}" for p, on in sorted(enabled.items()))
        facts.append(CongestionControl(quote=block.quote(shown), netdev=netdev, role=role, enabled=enabled))
    return facts


def _lines(block: Block) -> Iterator[str]:
    one = _CAT.search(block.command)
    lines = block.lines
    if one and len(lines) == 1 and block.rc in (0, None) and not _ERROR.match(lines[0]) and "*" not in one["path"]:
        yield lines[0][:400] if ":" in lines[0] and lines[0].startswith("/sys/") else f"{one['path']}:{lines[0][:200]}"
        return
    yield from (line[:400] for line in files(block) if not _ERROR.match(line))


def _plain(block: Block, line: str, netdev: str, file: str, value: str) -> Iterator[Fact]:
    quote = block.quote(line)
    if file == "mtu" and value.isdecimal() and len(value) < 8:
        why = Unknown("one file tells only the MTU")
        yield Netdev(quote=quote, name=netdev, mtu=int(value), up=why, lower="", addresses=())
    elif file == "speed" and value.isdecimal() and len(value) < 9:
        why = Unknown("one file tells only the speed")
        yield LinkSpeed(quote=quote, netdev=netdev, speed_mbps=int(value), supported_mbps=why, detected=why)
    elif file in _CNP and value.isdecimal() and len(value) < 4:
        yield _cnp(block, line, netdev, file, value)
    elif file in ("qos/trust", "qos/trust_state") and value:
        trust = "dscp" if "dscp" in value else "pcp" if "pcp" in value else Unknown(f"the trust file reads {value!r}")
        yield QosTrust(quote=quote, netdev=netdev, trust=trust)


def _cnp(block: Block, line: str, where: str, field: str, value: str) -> CnpMark:
    return CnpMark(quote=block.quote(line.strip()), where=where, field=_CNP[field], value=int(value))


def _claims(block: Block) -> bool:
    named = ("/sys/class/net/", "default_roce_tos", "/traffic_class", "memory_peers", "/cc_params")
    return any(name in block.command for name in named) or runs(block, "cma_roce_tos") or looks_like(block, _SHAPE)


READER = Reader("sysfs of interfaces", _claims, parse)
