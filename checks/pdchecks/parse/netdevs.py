"""Interfaces: ip(8) addr and link (text, one line each, brief, JSON) and ifconfig(8)."""

import json
import re
from typing import Any

from pdchecks.evidence import Block, words
from pdchecks.facts.base import Fact
from pdchecks.facts.net import Netdev
from pdchecks.parse.reader import Reader, looks_like
from pdchecks.unknown import Unknown

_IP = re.compile(
    r"\d{1,7}: (?P<name>[^\s:@]{1,32})(?:@(?P<lower>[^\s:]{1,32}))?: <(?P<flags>[A-Z0-9_,-]{0,300})>.*? mtu (?P<mtu>\d{1,7})"
)
_IFCONFIG = re.compile(r"(?P<name>[^\s:]{1,32}): flags=\d{1,9}<(?P<flags>[A-Z0-9_,]{0,300})>\s+mtu (?P<mtu>\d{1,7})")
_OLD_IFCONFIG = re.compile(r"(?P<name>\S{1,32})\s+Link encap:")
_OLD_MTU = re.compile(r"\s+(?P<flags>UP\b[A-Z ]{0,60})\s+MTU:(?P<mtu>\d{1,7})")
_INET = re.compile(r"\s+inet6? (?:addr:)?\s?(?P<address>[0-9a-fA-F.:]{2,45}(?:/\d{1,3})?)")
# ip -o addr: a line an address, without the MTU; ip -br: no MTU either.
_ONE_LINE = re.compile(
    r"\d{1,7}: (?P<name>[^\s:@]{1,32})\s+inet6? (?P<address>[0-9a-fA-F.:]{2,45}(?:/\d{1,3})?)(?= ).*"
)
_BRIEF = re.compile(
    r"(?P<name>[^\s@]{1,32})(?:@(?P<lower>\S{1,32}))?\s+(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT|NOTPRESENT|TESTING)\s+"
    r"(?P<rest>(?:[0-9a-fA-F.:]{2,45}/\d{1,3}(?:\s{1,3}|$)(?:metric \d{1,6} )?){0,64}"
    r"|[0-9a-f:]{2,60}\s+<(?P<flags>[A-Z0-9_,-]{0,300})>\s*)"
)
_MASTER = re.compile(r" master (?P<master>[^\s:]{1,32})")
_QUEUE = re.compile(r" qdisc (?P<queue>[a-z0-9_]{1,20})\b")
_MEDIUM = re.compile(r"\s+link/(?P<medium>[a-z0-9_]{1,20})\b")
# ifconfig's words for what ip calls the link's type: net-tools lib/ether.c, ib.c, loopback.c, unspec in hw.c.
_IFCONFIG_MEDIUM = re.compile(
    r"(?:Link encap:|\()(?P<medium>Ethernet|InfiniBand|Local Loopback|UNSPEC|Point-to-Point Protocol)"
)
_MEDIA = {"Ethernet": "ether", "InfiniBand": "infiniband", "Local Loopback": "loopback"}
# What `ip -d` prints below a link that software makes: iproute2 ip/ipaddress.c, print_linktype.
_KIND = re.compile(
    r"(?:.{0,300}\\)?\s{4}(?P<kind>bareudp|bond|bridge|dummy|erspan|geneve|gre|gretap|hsr|ifb|ip6gre|ip6tnl|ipip|ipvlan|ipvtap"
    r"|ipoib|macsec|macvlan|macvtap|netkit|nlmon|openvswitch|sit|team|tun|veth|vlan|vrf|vti|vxcan|vxlan|wireguard|xfrm) "
)
_SHAPE = re.compile(r"^\d+: [^\s:]+: <[A-Z_,-]+>.* mtu \d+|^\S+: flags=\d+<.*>\s+mtu \d+", re.MULTILINE)


def parse(block: Block) -> list[Fact] | Unknown:
    text = block.output.strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError):
            return Unknown("ip printed JSON that cannot be read")
        return [fact for row in rows if isinstance(row, dict) for fact in _from_json(block, row)]
    found: list[tuple[str, str, str, str, list[str]]] = []
    seen: dict[int, dict[str, str]] = {}
    pending = encap = ""
    for line in block.lines:
        if head := _IP.match(line):
            found.append((line, head["name"], head["mtu"], f"{head['lower'] or ''} {head['flags']}", []))
        elif head := _IFCONFIG.match(line):
            found.append((line, head["name"], head["mtu"], f" {head['flags']}", []))
        elif old := _OLD_IFCONFIG.match(line):
            pending, encap = old["name"], _medium(line)
        elif pending and (row := _OLD_MTU.match(line)):
            found.append((line, pending, row["mtu"], f" {row['flags'].replace(' ', ',')}", []))
            seen[len(found) - 1] = {"medium": encap}
            pending = ""
        elif found and (inet := _INET.match(line)):
            found[-1][4].append(inet["address"])
        if found and not pending:
            words_of = seen.setdefault(len(found) - 1, {})
            if medium := _medium(line):
                words_of.setdefault("medium", medium)
            if kind := _KIND.match(line):
                words_of.setdefault("kind", kind["kind"])
    return [_netdev(block, *row, seen.get(index, {})) for index, row in enumerate(found)] or _short(block)


def _short(block: Block) -> list[Fact]:
    """What the forms of one line tell: addresses, or flags."""
    addresses: dict[str, list[str]] = {}
    flags: dict[str, str] = {}
    lower: dict[str, str] = {}
    lines: dict[str, str] = {}
    for line in block.lines:
        if match := _ONE_LINE.fullmatch(line):
            addresses.setdefault(match["name"], []).append(match["address"])
        elif match := _BRIEF.fullmatch(line):
            given = () if match["flags"] is not None else match["rest"].split()
            addresses.setdefault(match["name"], []).extend(word for word in given if "/" in word)
            flags[match["name"]] = match["flags"] or ""
            lower[match["name"]] = match["lower"] or ""
        else:
            continue
        lines.setdefault(match["name"], line)
    unsaid = Unknown("this form of ip prints neither MTU nor, with addresses, flags")
    return [
        Netdev(
            quote=block.quote(lines[name].strip()),
            name=name,
            mtu=unsaid,
            up="UP" in flags[name].split(",") if flags.get(name) else unsaid,
            lower="" if lower.get(name) == "NONE" else lower.get(name, ""),
            addresses=tuple(listed),
        )
        for name, listed in addresses.items()
    ]


def _medium(line: str) -> str:
    if match := _MEDIUM.search(line):
        return match["medium"]
    match = _IFCONFIG_MEDIUM.search(line)
    return _MEDIA.get(match["medium"], match["medium"]) if match else ""


def _netdev(
    block: Block,
    line: str,
    name: str,
    mtu: str,
    lower_flags: str,
    addresses: list[str],
    shown: dict[str, str],
) -> Netdev:
    lower, _, flags = lower_flags.partition(" ")
    master, queue = _MASTER.search(line), _QUEUE.search(line)
    return Netdev(
        quote=block.quote(line.strip()),
        name=name,
        mtu=int(mtu),
        up="UP" in flags.split(","),
        lower="" if lower == "NONE" else lower,
        addresses=tuple(addresses),
        master=master["master"] if master else "",
        medium=shown.get("medium", ""),
        queue=queue["queue"] if queue else "",
        kind=shown.get("kind", ""),
    )


def _from_json(block: Block, row: dict[str, Any]) -> list[Fact]:
    name, mtu, flags = row.get("ifname"), row.get("mtu"), row.get("flags")
    if not isinstance(name, str):
        return []
    infos, details = row.get("addr_info"), row.get("linkinfo")
    return [
        Netdev(
            quote=block.quote(f"{name} mtu {mtu}"),
            name=name,
            mtu=mtu if isinstance(mtu, int) else Unknown("ip printed no MTU"),
            up="UP" in flags if isinstance(flags, list) else Unknown("ip printed no flags"),
            lower=_text(row, "link"),
            addresses=tuple(
                f"{info.get('local')}/{info.get('prefixlen')}"
                for info in (infos if isinstance(infos, list) else ())
                if isinstance(info, dict) and "local" in info
            ),
            master=_text(row, "master"),
            medium=_text(row, "link_type"),
            queue=_text(row, "qdisc"),
            kind=_text(details, "info_kind") if isinstance(details, dict) else "",
        )
    ]


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _claims(block: Block) -> bool:
    parts = words(block.command)
    asks = "ip" in parts and any(word in ("addr", "address", "a", "link", "l") for word in parts)
    return asks or "ifconfig" in parts or looks_like(block, _SHAPE)


READER = Reader("ip addr", _claims, parse)
