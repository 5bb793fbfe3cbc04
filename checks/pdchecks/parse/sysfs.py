"""Files under /sys/class/infiniband: as `grep "" FILES` prints them (path:value), or one file by `cat`.

Counters of one directory make one fact, so that a counter that the device does not have is seen to be absent. mlx5 may
write state words into phys_state; unreadable files give EINVAL and are lines of cat or grep, not values."""

import re
from ipaddress import AddressValueError, IPv6Address

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import EmptyGid, Gid, NoRdmaDevice, RdmaCounters, RdmaDevice, RdmaPort
from pdchecks.parse.reader import Reader, files, given, looks_like
from pdchecks.unknown import Unknown

_ROOT = "/sys/class/infiniband"
_FILE = re.compile(
    r"(?:\S*?)/sys/class/infiniband/(?P<device>[^/\s:]{1,64})/(?P<path>[A-Za-z0-9_/-]{1,160}):(?P<value>.*)"
)
_CAT = re.compile(r"/sys/class/infiniband/(?P<device>[^/\s*]{1,64})/(?P<path>[A-Za-z0-9_/-]{1,160})\s*$")
_ERROR = re.compile(r"(?:cat|grep|head): ")
_SHAPE = re.compile(r"^(?:==> )?\S*/sys/class/infiniband/[^/\s:]+/[\w/-]+(?::| <==)", re.MULTILINE)
_PORT = re.compile(r"ports/(?P<port>\d{1,3})/(?P<file>.+)")
_STATE = re.compile(r"\s*\d: ?(?P<word>\w+)")
_RATE = re.compile(r"\s*(?P<rate>\d{1,6}(?:\.\d{1,3})?) Gb/sec")

_Files = dict[str, str]


def parse(block: Block) -> list[Fact] | Unknown:
    if block.command.rstrip().endswith(_ROOT):
        names = [line for line in block.lines if line.strip() and " " not in line.strip()]
        if names and block.rc in (0, None):
            return []
        # What was refused, or not there to be seen, is not known to be absent.
        if block.output.strip() and "No such file or directory" not in block.output:
            return Unknown(f"ls could not look: {block.output.strip()[:200]}")
        return [NoRdmaDevice(quote=block.quote(block.output or "(empty)"))]
    devices: dict[str, _Files] = {}
    for line in files(block):
        if (match := _FILE.match(line)) and not _ERROR.match(line):
            devices.setdefault(match["device"], {})[match["path"]] = match["value"].strip()
    if not devices and (one := _CAT.search(block.command)):
        refused = block.rc not in (0, None) or _ERROR.match(block.output)
        devices[one["device"]] = {one["path"]: "" if refused else block.output.strip()}
    facts: list[Fact] = []
    for device, found in devices.items():
        facts += _device(block, device, found)
        ports: dict[int, _Files] = {}
        for path, value in found.items():
            if inside := _PORT.fullmatch(path):
                ports.setdefault(int(inside["port"]), {})[inside["file"]] = value
        for port, inner in ports.items():
            facts += _port(block, device, port, inner)
            facts += _counters(block, device, port, inner)
            facts += _gids(block, device, port, inner)
    return facts


def _device(block: Block, device: str, files: _Files) -> list[Fact]:
    if not files.keys() & {"fw_ver", "hca_type", "board_id"}:
        return []
    part = re.fullmatch(r"MT(\d{4,6})", files.get("hca_type", ""))
    return [
        RdmaDevice(
            quote=block.quote(f"{_ROOT}/{device}/fw_ver:{files.get('fw_ver', '')}"),
            device=device,
            firmware=given(files.get("fw_ver"), "fw_ver"),
            part=int(part[1]) if part else Unknown("hca_type names no Mellanox part"),
            psid=given(files.get("board_id"), "board_id"),
        )
    ]


def _port(block: Block, device: str, port: int, files: _Files) -> list[Fact]:
    state = _STATE.match(files.get("state", ""))
    if state is None:
        return []
    physical = _STATE.match(files.get("phys_state", ""))
    rate = _RATE.match(files.get("rate", ""))
    netdev = next((value for path, value in files.items() if path.startswith("gid_attrs/ndevs/") and value), None)
    word = physical["word"] if physical else None
    return [
        RdmaPort(
            quote=block.quote(f"{_ROOT}/{device}/ports/{port}/state:{files['state']}"),
            device=device,
            port=port,
            state=state["word"].upper(),
            physical={"linkup": "LINK_UP"}.get(word.lower(), word.upper()) if word else Unknown("no phys_state"),
            layer=given(files.get("link_layer"), "link_layer"),
            rate_gbps=float(rate["rate"]) if rate else Unknown("the rate was not printed"),
            lid=_lid(files.get("lid")),
            netdev=given(netdev, "the network interface"),
        )
    ]


def _lid(text: str | None) -> int | Unknown:
    try:
        return int(text or "", 0)
    except ValueError:
        return Unknown("the lid was not printed")


def _counters(block: Block, device: str, port: int, files: _Files) -> list[Fact]:
    values = {
        path.rsplit("/", 1)[1]: int(value)
        for path, value in files.items()
        if path.startswith(("hw_counters/", "counters/")) and value.isdecimal() and len(value) < 25
    }
    if not values:
        return []
    where = f"{_ROOT}/{device}/ports/{port}/hw_counters"
    return [RdmaCounters(quote=block.quote(where), device=device, port=port, values=values)]


def _gids(block: Block, device: str, port: int, files: _Files) -> list[Fact]:
    facts: list[Fact] = []
    kinds = {path.rsplit("/", 1)[1]: value for path, value in files.items() if path.startswith("gid_attrs/types/")}
    netdevs = {path.rsplit("/", 1)[1]: value for path, value in files.items() if path.startswith("gid_attrs/ndevs/")}
    for path, value in files.items():
        folder, _, slot = path.rpartition("/")
        if folder != "gids" or not slot.isdecimal() or len(slot) > 4:
            continue
        quote = block.quote(f"{_ROOT}/{device}/ports/{port}/{path}:{value}")
        try:
            address = IPv6Address(value)
        except AddressValueError:
            continue
        if int(address) == 0:
            facts.append(EmptyGid(quote=quote, device=device, port=port, index=int(slot)))
            continue
        kind = kinds.get(slot, "")
        facts.append(
            Gid(
                quote=quote,
                device=device,
                port=port,
                index=int(slot),
                address=address,
                version=2 if "v2" in kind else 1 if "v1" in kind else Unknown("the GID's type was not read"),
                netdev=given(netdevs.get(slot), "the GID's network interface"),
            )
        )
    return facts


READER = Reader("sysfs", lambda block: _ROOT in block.command or looks_like(block, _SHAPE), parse)
