"""What single values of the policy may be: ranges and forms, each with its source. What is outside harms a node or does nothing."""

import re
from collections.abc import Callable
from ipaddress import ip_interface, ip_network
from typing import Annotated

from pydantic import AfterValidator, Field


def _like(pattern: str, words: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def checked(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(words)
        return value

    return AfterValidator(checked)


def _one_of(*allowed: int) -> Callable[[int], int]:
    def checked(value: int) -> int:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(map(str, allowed))}")
        return value

    return checked


def _network(value: str) -> str:
    try:
        ip_network(value, strict=False)
    except ValueError:
        raise ValueError("an address or a subnet such as 10.0.0.0/16") from None
    return value


def _interface_address(value: str) -> str:
    try:
        parsed = ip_interface(value)
    except ValueError:
        parsed = None
    if parsed is None or "/" not in value:
        raise ValueError("an address with its prefix length such as 10.0.0.7/24")
    address, network = parsed.ip, parsed.network
    # Of two addresses (RFC 3021, RFC 6164) and of one, each is a host's.
    if network.num_addresses > 2 and address == network.network_address:
        raise ValueError(f"an address of one host: this is the subnet {network} itself")
    if address.version == 4 and network.num_addresses > 2 and address == network.broadcast_address:
        raise ValueError(f"an address of one host: this is the broadcast address of {network}")
    if address.is_loopback or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        raise ValueError("an address of one host: this is none")
    if address.version == 6 and address.is_link_local:
        raise ValueError("an address that routes: the kernel gives link-local ones by itself")
    return value


def _no_twins(values: list[str] | None) -> list[str] | None:
    if values is not None and not values:
        raise ValueError("a list of at least one address, or null, which leaves the interface alone")
    plain = [ip_interface(value).ip for value in values or ()]
    if len(set(plain)) < len(plain):
        raise ValueError("a list that names each address once")
    return values


def _limit(value: int | str) -> int | str:
    if not re.fullmatch(r"unlimited|\d{1,19}", str(value)):
        raise ValueError("a whole number from 0 on, or `unlimited`")
    return value


def _sysctl_value(value: int | str | None) -> int | str | None:
    # One line of a file of sysctl.d(5), and of one write to /proc/sys.
    if isinstance(value, str) and not re.fullmatch(r"[ -~\t]{1,1024}", value):
        raise ValueError("one line of printable characters")
    return value


# IEEE 802.1Q: three bits of priority; RFC 2474: six bits of DSCP.
Priority = Annotated[int, Field(ge=0, le=7)]
Dscp = Annotated[int, Field(ge=0, le=63)]
# InfiniBand Architecture Specification, path MTU; linux include/rdma/ib_verbs.h, enum ib_mtu.
RoceMtu = Annotated[int, AfterValidator(_one_of(*(256 << step for step in range(5))))]
# linux include/uapi/linux/if_ether.h, ETH_MIN_MTU and ETH_MAX_MTU.
NetdevMtu = Annotated[int, Field(ge=68, le=65535)]
# sonic-port.yang, leaf mtu.
SwitchMtu = Annotated[int, Field(ge=68, le=9 * 1024)]
# IEEE 802.3 clause 88: 100GBASE-ER4 reaches 40 km.
Metres = Annotated[int, Field(ge=1, le=40_000)]
Percent = Annotated[int, Field(ge=0, le=100)]
SomePercent = Annotated[int, Field(ge=1, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
SomeShare = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0)]
SomeCount = Annotated[int, Field(ge=1)]
DaySeconds = Annotated[int, Field(ge=1, le=86_400)]
Number = Annotated[float, Field(ge=0)]

Subnet = Annotated[str, AfterValidator(_network)]
Limit = Annotated[int | str, AfterValidator(_limit)]
# PCI ids have 16 bits; a firmware's first field names its family.
PciId = Annotated[int, Field(ge=0, le=0xFFFF)]
Version = Annotated[str, _like(r"\d{1,5}(?:\.\d{1,5}){1,3}", "a version: two to four numbers with dots between them")]
# sysctl(8): dots or slashes part the words, and a path that leaves /proc/sys is none.
SysctlKey = Annotated[
    str,
    _like(
        r"[a-z][a-z0-9_-]{0,63}(?:[./][\w@:-]{1,64}){1,8}", "the name of a kernel setting such as net.core.somaxconn"
    ),
]
SysctlValue = Annotated[int | str | None, AfterValidator(_sysctl_value)]
# They become words of files and command lines. linux include/linux/moduleparam.h, MAX_PARAM_PREFIX_LEN; IFNAMSIZ.
KernelName = Annotated[str, _like(r"[A-Za-z0-9][\w.-]{0,63}", "a name of letters, digits, `_`, `.` and `-`")]
Netdev = Annotated[str, _like(r"[A-Za-z0-9_][^\s/]{0,14}", "the name of an interface, at most 15 characters")]
PackageName = Annotated[str, _like(r"[A-Za-z0-9][\w.+:~-]{0,127}", "the name of a package")]
UnitName = Annotated[str, _like(r"[A-Za-z0-9_][\w:.\\@-]{0,250}", "the name of a unit")]
LocaleName = Annotated[str, _like(r"[A-Za-z][\w.@-]{0,63}", "the name of a locale such as C.UTF-8")]
# A name of DNS or an address of either kind.
ServerName = Annotated[str, _like(r"[A-Za-z0-9:][\w.:-]{0,252}", "a name or an address")]
InterfaceAddress = Annotated[str, AfterValidator(_interface_address)]
# Null leaves the interface alone, where a group of hosts names addresses for it.
InterfaceAddresses = Annotated[list[InterfaceAddress] | None, AfterValidator(_no_twins)]
