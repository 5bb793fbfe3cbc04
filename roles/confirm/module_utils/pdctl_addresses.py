"""Addresses of an interface, read and compared. Nothing of Ansible is needed here.

Only global ones that do not expire: what DHCP or a router gave is theirs. An address is the words by which `ip address add` makes it,
`10.0.0.7/24 brd 10.0.0.255`. A list of them is one line; those of IPv4 stand in the kernel's order, which says which address of a
subnet is its first, and so the source of packets.
"""

import ipaddress
import json

NONE = "none"
# Flags that `ip address add` takes as words.
_FLAGS = ("noprefixroute", "nodad", "home", "mngtmpaddr", "autojoin")
# Another node has the address too; this is no word of `ip address add`.
DUPLICATE = "duplicate"


class Refused(ValueError):
    """Addresses that cannot be set, or recorded for the boot, without a guess; the text says why."""


class Held:
    """What one interface holds. lasting: lists of words. lent: addresses of IPv4 that expire."""

    def __init__(self, lasting, lent):
        self.lasting, self.lent = lasting, lent


def held(name, run):
    """None where there is no such interface, or where `ip` prints no JSON (iproute2 before 4.15)."""
    code, printed, _said = run(["ip", "-json", "address", "show", "dev", name])
    return parsed(printed, name) if code == 0 else None


def parsed(printed, name):
    try:
        rows = json.loads(printed)[0]["addr_info"]
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    shown = [row for row in rows if row.get("scope") == "global" and not row.get("temporary")]
    lasting = [_words(row, name) for row in shown if not row.get("dynamic")]
    # Kernels differ in where a new address of IPv6 stands, and nothing depends on it.
    lasting = [each for each in lasting if is_v4(each)] + sorted(each for each in lasting if not is_v4(each))
    return Held(lasting, [row["local"] for row in shown if row.get("dynamic") and row["family"] == "inet"])


def _words(row, name):
    length = row["prefixlen"]
    words = [row["local"], "peer", f"{row['address']}/{length}"] if "address" in row else [f"{row['local']}/{length}"]
    if row.get("broadcast"):
        words += ["brd", row["broadcast"]]
    if row.get("label", name) != name:
        words += ["label", row["label"]]
    if row.get("metric"):
        words += ["metric", str(row["metric"])]
    words += [flag for flag in _FLAGS if row.get(flag)]
    return words + ([DUPLICATE] if row.get("dadfailed") else [])


def text(lasting):
    return "; ".join(" ".join(words) for words in lasting) or NONE


def words_of(value):
    """What `text` made."""
    return [] if value == NONE else [each.split() for each in value.split("; ")]


def plain(asked):
    """In one spelling. asked: as the policy has them."""
    return [str(ipaddress.ip_interface(each)) for each in asked]


def new(address):
    """Words of an address that the policy names. Without the broadcast address the kernel would set none."""
    wanted = ipaddress.ip_interface(address)
    broadcast = wanted.version == 4 and wanted.network.prefixlen < 31
    return [str(wanted), *(["brd", str(wanted.network.broadcast_address)] if broadcast else [])]


def interface(words):
    """The address with its prefix length. With a peer the length is the peer's."""
    return ipaddress.ip_interface(words[0] if "/" in words[0] else f"{words[0]}/{words[2].partition('/')[2]}")


def subnet(words):
    return ipaddress.ip_interface(words[2]).network if words[1:2] == ["peer"] else interface(words).network


def is_v4(words):
    return interface(words).version == 4


def serves(lasting, asked):
    """Whether these are the addresses that are asked for, and those of each subnet of IPv4 in the order that is asked for."""
    if any(DUPLICATE in each for each in lasting):
        return False
    live, wanted = [interface(each) for each in lasting], [ipaddress.ip_interface(each) for each in asked]
    return set(live) == set(wanted) and _by_subnet(live) == _by_subnet(wanted)


def _by_subnet(interfaces):
    found = {}
    for each in interfaces:
        if each.version == 4:
            found.setdefault(each.network, []).append(each)
    return found
