"""Routes and rules that stand on the addresses of an interface, and the commands that make routes again. Nothing of Ansible is needed.

A route is the words that `ip route` prints, which are those that it takes.
"""

import ipaddress
from pathlib import Path

from ansible.module_utils import pdctl_addresses as addresses

PROC = Path("/proc/sys/net/ipv4/conf")
# State of a route, no part of it.
_STATE = ("dead", "linkdown", "unresolved", "offload", "rt_offload", "offload_failed", "trap", "rt_trap", "pervasive")
# Who makes a route that nobody takes away again while a change is confirmed: routing daemons do.
_LASTING = ("kernel", "boot", "static")


class Route:
    """family: 4 or 6."""

    def __init__(self, family, words):
        self.family, self.words = family, words

    def all_of(self, key):
        return [self.words[at + 1] for at, word in enumerate(self.words[:-1]) if word == key]

    def of(self, key):
        return next(iter(self.all_of(key)), "")

    def text(self):
        return " ".join(self.words)


def every(run):
    """All routes of unicast outside of the kernel's own table. None where `ip` does not say them."""
    found = []
    for family in (4, 6):
        code, printed, _said = run(["ip", f"-{family}", "-oneline", "-details", "route", "show", "table", "all"])
        if code != 0 and family == 4:
            return None
        found += [Route(family, _words(line)) for line in printed.splitlines()] if code == 0 else []
    return [route for route in found if route.words[:1] == ["unicast"] and route.of("table") != "local"]


def _words(line):
    return [word for word in line.replace("\\", " ").split() if word not in _STATE]


def through(name, routes):
    """Those that leave by an interface; but what a router gave, or the kernel for its own address, does not go with others."""
    own = [route for route in routes if name in route.all_of("dev")]
    return [route for route in own if route.of("proto") != "ra" and not route.words[1].startswith("fe80:")]


def made_again(routes, lasting, families=(4, 6)):
    """Commands. lasting: the addresses that there are then; with each the kernel makes its own routes, but for `noprefixroute`."""
    ours = any("noprefixroute" in words for words in lasting)
    sources = ["", *(str(addresses.interface(words).ip) for words in lasting)]
    found = [route for route in routes if route.family in families and route.of("src") in sources]
    found = [route for route in found if ours or route.of("proto") != "kernel"]
    # What needs no gateway may lead to one.
    found.sort(key=lambda route: "via" in route.words)
    return [["ip", f"-{route.family}", "route", "replace", *route.words] for route in found]


def text(routes):
    return "; ".join(route.text() for route in routes if route.of("proto") in _LASTING) or addresses.NONE


def rules(run):
    """Where packets come from by which a rule chooses a table: networks."""
    found = []
    for family in (4, 6):
        code, printed, _said = run(["ip", f"-{family}", "rule", "show"])
        for line in printed.splitlines() if code == 0 else ():
            words = line.split()
            source = words[words.index("from") + 1] if "from" in words[:-1] else "all"
            if source != "all":
                found.append(ipaddress.ip_network(source, strict=False))
    return found


def standing_on(name, lasting, wanted, routes, sources):
    """Why addresses cannot go: a line for each route or rule that the wanted ones do not serve.

    wanted: as the policy has them. routes: all of the node. sources: as of `rules`.
    """
    will = [ipaddress.ip_interface(each) for each in wanted]
    was = [addresses.interface(words) for words in lasting]
    gone = {each.ip for each in was} - {each.ip for each in will}
    subnets = [addresses.subnet(words) for words in lasting], [each.network for each in will]
    found = []
    if any(each.version == 4 for each in was) and not any(each.version == 4 for each in will):
        last = [route for route in through(name, routes) if route.family == 4 and route.of("proto") != "kernel"]
        found += [f"the route `{_plain(route)}` would go with the last IPv4 address" for route in last]
    for route in routes:
        source = route.of("src")
        if route.of("proto") != "kernel" and source and ipaddress.ip_address(source) in gone:
            found.append(f"the route `{_plain(route)}` has {source} as its source")
        lost = [each for each in _gateways(route, name) if _within(each, subnets[0]) and not _within(each, subnets[1])]
        found += [f"the gateway of the route `{_plain(route)}` is in none of the wanted subnets" for _each in lost[:1]]
    for network in sources:
        if any(each in network for each in gone) and not any(each.ip in network for each in will):
            found.append(f"a rule chooses routes for what comes from {network} (`ip rule`)")
    return found


def _gateways(route, name):
    """Through this interface; what is said to be on the link is taken as it is."""
    hops = [[]]
    for word in route.words:
        if word == "nexthop":
            hops.append([])
        hops[-1].append(word)
    found = []
    for hop in hops:
        if "via" in hop and name in Route(route.family, hop).all_of("dev") and "onlink" not in hop:
            at = hop.index("via") + 1
            found.append(ipaddress.ip_address(hop[at + 1 if hop[at] in ("inet", "inet6") else at]))
    return found


def _within(address, networks):
    return any(address in network for network in networks)


def _plain(route):
    """As somebody would know it: without what iproute2 prints only on demand."""
    words = list(route.words[1:])
    for key, value in (("table", "main"), ("proto", "boot"), ("scope", "global"), ("pref", "medium")):
        if key in words and words[words.index(key) + 1] == value:
            at = words.index(key)
            del words[at : at + 2]
    return " ".join(words)


def promotes(name):
    """Whether the next address of a subnet stays when its first is deleted."""
    for each in ("all", name):
        try:
            if (PROC / each / "promote_secondaries").read_text(encoding="utf-8").strip() == "1":
                return True
        except OSError:
            continue
    return False
