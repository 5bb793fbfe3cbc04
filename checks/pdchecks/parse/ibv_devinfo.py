"""ibv_devinfo, with and without -v (rdma-core libibverbs/examples/devinfo.c). With -v, RoCE v2 GIDs are compressed and v1
GIDs written out. A kept tail may have lost the `hca_id` line: the device is then the one of `-d`, else unknown."""

import re
from ipaddress import AddressValueError, IPv6Address

from pdchecks.evidence import Block
from pdchecks.facts.base import Fact
from pdchecks.facts.rdma import EmptyGid, Gid, RdmaDevice, RdmaMtu, RdmaPort
from pdchecks.parse.reader import Reader, argument, given, integer, looks_like, runs
from pdchecks.unknown import Unknown

_FIELD = re.compile(r"\s*(?P<key>[A-Za-z_]{2,40}):(?P<value>.*)")
_GID = re.compile(r"\s*GID\[\s{0,4}(?P<index>\d{1,4})\]:\s*(?P<gid>[0-9A-Fa-f:.]{2,45})(?:,\s*(?P<type>[^,]+?))?\s*")
_SHAPE = re.compile(r"^hca_id:\s|^[ \t]*GID\[\s*\d+\]:", re.MULTILINE)
_PORT_STATE = re.compile(r"(?:PORT_)?(?P<state>[A-Z_]+)")
# Each once: what `grep` left of the one port of the device of `-d`.
_OF_A_PORT = re.compile(r"^[ \t]{0,40}(state|active_mtu):", re.MULTILINE)
_MTU = re.compile(r"(?P<mtu>\d{3,5}) \(\d\)")


def parse(block: Block) -> list[Fact] | Unknown:
    asked = argument(block.command, "-d")
    facts: list[Fact] = []
    device: str | None = None
    port = 1
    of_device: dict[str, str] = {}
    of_port: dict[str, str] | None = None

    def close_port() -> None:
        nonlocal of_port
        if of_port is not None and device is not None:
            facts.extend(_port(block, device, port, of_port))
        of_port = None

    def close_device() -> None:
        close_port()
        if device is not None:
            facts.append(_device(block, device, of_device))

    for line in block.lines:
        if gid := _GID.fullmatch(line):
            facts.extend(_gid(block, device or asked, port, line, gid))
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            continue
        key, value = field["key"], field["value"].strip()
        if key == "hca_id":
            close_device()
            device, of_device, port = value, {}, 1
        elif key == "port":
            close_port()
            port = int(value) if value.isdecimal() and len(value) < 4 else 1
            of_port = {}
        else:
            (of_device if of_port is None else of_port).setdefault(key, value)
    close_device()
    kept = _OF_A_PORT.findall(block.output)
    if device is None and asked and len(kept) == len(set(kept)):
        facts.extend(_port(block, asked, port, of_device))
    if not facts and (block.rc not in (0, None) or "No IB devices found" in block.output):
        return Unknown(f"ibv_devinfo gave no device: {block.output.strip()[:200] or f'exit status {block.rc}'}")
    return facts


def _device(block: Block, device: str, fields: dict[str, str]) -> RdmaDevice:
    shown = " ".join(f"{key}: {fields[key]}" for key in ("fw_ver", "vendor_part_id", "board_id") if key in fields)
    return RdmaDevice(
        quote=block.quote(f"hca_id: {device} {shown}"),
        device=device,
        firmware=given(fields.get("fw_ver"), "fw_ver"),
        part=integer(fields.get("vendor_part_id"), "vendor_part_id"),
        psid=given(fields.get("board_id"), "board_id"),
    )


def _port(block: Block, device: str, port: int, fields: dict[str, str]) -> list[Fact]:
    state = _PORT_STATE.match(fields.get("state", ""))
    physical = re.match(r"[A-Z_]+", fields.get("phys_state", ""))
    layer = fields.get("link_layer")
    facts: list[Fact] = []
    if "state" in fields:
        facts.append(
            RdmaPort(
                quote=block.quote(f"hca_id: {device} port: {port} state: {fields['state']}"),
                device=device,
                port=port,
                state=state["state"] if state else Unknown(f"the state reads {fields['state']!r}"),
                physical=physical[0] if physical else Unknown("ibv_devinfo without -v prints no physical state"),
                layer=given("InfiniBand" if layer == "IB" else layer, "link_layer"),
                rate_gbps=Unknown("ibv_devinfo prints no rate"),
                lid=integer(fields.get("port_lid"), "port_lid"),
                netdev=Unknown("ibv_devinfo names no network interface"),
            )
        )
    if "active_mtu" in fields:
        facts.append(
            RdmaMtu(
                quote=block.quote(f"hca_id: {device} port: {port} active_mtu: {fields['active_mtu']}"),
                device=device,
                port=port,
                active=_mtu(fields["active_mtu"]),
                largest=_mtu(fields.get("max_mtu", "")),
            )
        )
    return facts


def _mtu(text: str) -> int | Unknown:
    match = _MTU.match(text)
    return int(match["mtu"]) if match else Unknown(f"the MTU reads {text!r}")


def _gid(block: Block, device: str | None, port: int, line: str, match: re.Match[str]) -> list[Fact]:
    try:
        address = IPv6Address(match["gid"])
    except AddressValueError:
        return []
    index = int(match["index"])
    if int(address) == 0:
        return [EmptyGid(quote=block.quote(line), device=device, port=port, index=index)] if device else []
    kind = (match["type"] or "").lower()
    return [
        Gid(
            quote=block.quote(line.strip()),
            device=device or Unknown("the part of the output that names the device was not kept"),
            port=port,
            index=index,
            address=address,
            version=2 if "v2" in kind else 1 if "v1" in kind else Unknown("no RoCE type was printed"),
            netdev=Unknown("ibv_devinfo names no network interface"),
        )
    ]


READER = Reader("ibv_devinfo", lambda block: runs(block, "ibv_devinfo") or looks_like(block, _SHAPE), parse)
