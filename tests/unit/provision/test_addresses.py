"""What the role address would do to an interface, what stands in its way, and how each owner of an interface is told of it."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import ansible.module_utils
import pytest

from pdctl.content import content_root

# iproute2 6.1: a first address, one with a peer, a second of the first's subnet with a label, one of DHCP, IPv6 of three kinds.
SHOWN = """[{"ifname":"r0","addr_info":[
{"family":"inet","local":"10.0.0.1","prefixlen":24,"broadcast":"10.0.0.255","scope":"global","label":"r0"},
{"family":"inet","local":"10.5.0.2","address":"10.5.0.3","prefixlen":32,"scope":"global","label":"r0"},
{"family":"inet","local":"10.0.0.2","prefixlen":24,"scope":"global","secondary":true,"label":"r0:1","noprefixroute":true},
{"family":"inet","local":"10.7.0.9","prefixlen":24,"scope":"global","dynamic":true,"label":"r0"},
{"family":"inet6","local":"fd00::9","prefixlen":64,"scope":"global","dadfailed":true},
{"family":"inet6","local":"fd00::5","prefixlen":64,"scope":"global","dynamic":true,"mngtmpaddr":true},
{"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"}]}]"""
ROUTES = """unicast default via 10.0.0.254 dev r0 table 101 proto boot scope global
unicast default via 10.0.0.254 dev r0 table main proto static scope global metric 100 linkdown
unicast 10.0.0.0/24 dev r0 table main proto kernel scope link src 10.0.0.1
unicast 10.3.0.0/16 dev r0 table main proto boot scope link src 10.0.0.2
unicast 10.4.0.0/16 table main proto boot scope global \\\tnexthop via 10.0.0.253 dev r0 weight 2 \\\tnexthop via 10.9.0.9 dev r1 onlink
blackhole 10.77.0.0/16 table main proto boot scope global
local 10.0.0.1 dev r0 table local proto kernel scope host src 10.0.0.1
"""
RULES = "0:\tfrom all lookup local\n32765:\tfrom 10.0.0.1 lookup 101\n32766:\tfrom all lookup main\n"


@pytest.fixture(autouse=True)
def _found_by_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(content_root() / "roles" / "confirm" / "module_utils")
    monkeypatch.setattr(ansible.module_utils, "__path__", [*ansible.module_utils.__path__, folder])


def _util(name: str) -> ModuleType:
    return importlib.import_module(f"ansible.module_utils.{name}")


def _ip(answers: Mapping[str, str]) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        line = " ".join(argv)
        found = next((text for part, text in answers.items() if part in line), None)
        return (0, found, "") if found is not None else (0, "", "")

    return run


def _words(*addresses: str) -> list[list[str]]:
    return [each.split() for each in addresses]


def test_a_list_is_the_words_that_make_it_again_without_what_was_lent() -> None:
    addresses = _util("pdctl_addresses")
    held = addresses.held("r0", _ip({"address show dev r0": SHOWN}))
    line = "10.0.0.1/24 brd 10.0.0.255; 10.5.0.2 peer 10.5.0.3/32; 10.0.0.2/24 label r0:1 noprefixroute; fd00::9/64 duplicate"
    assert addresses.text(held.lasting) == line
    assert addresses.words_of(line) == held.lasting
    assert held.lent == ["10.7.0.9"]
    assert addresses.words_of(addresses.text([])) == []


def test_the_first_address_of_a_subnet_counts_and_one_that_another_node_has_does_not() -> None:
    serves = _util("pdctl_addresses").serves
    asked = ["10.0.0.1/24", "10.1.0.1/24", "10.0.0.2/24", "fd00::1/64"]
    assert serves(_words("10.1.0.1/24", "10.0.0.1/24 brd 10.0.0.255", "10.0.0.2/24", "fd00::1/64"), asked)
    assert not serves(_words("10.1.0.1/24", "10.0.0.2/24", "10.0.0.1/24", "fd00::1/64"), asked)
    assert not serves(_words("10.0.0.1/24", "10.1.0.1/24", "10.0.0.2/24", "fd00::1/64 duplicate"), asked)
    assert not serves(_words("10.0.0.1/16"), ["10.0.0.1/24"])


def test_what_is_new_is_added_before_the_former_goes() -> None:
    change = _util("pdctl_address_change")
    now = _words("10.0.0.1/24 brd 10.0.0.255", "fd00::1/64")
    target = change.target(now, ["10.1.0.1/24", "fd00::1/64"], promote=False)
    assert target == _words("10.1.0.1/24 brd 10.1.0.255", "fd00::1/64")
    assert [" ".join(step) for step in change.commands("r0", now, target, False, [["the", "routes"]])] == [
        "ip address add 10.1.0.1/24 brd 10.1.0.255 dev r0",
        "ip address del 10.0.0.1/24 dev r0",
    ]


@pytest.mark.parametrize("promote", [True, False])
def test_without_promotion_a_subnet_is_made_anew_and_its_routes_after_it(promote: bool) -> None:
    change = _util("pdctl_address_change")
    now = _words("10.0.0.1/24")
    target = change.target(now, ["10.0.0.2/24"], promote)
    steps = [" ".join(step) for step in change.commands("r0", now, target, promote, [["the", "routes"]])]
    new = "10.0.0.2/24 brd 10.0.0.255"
    if promote:
        assert steps == [f"ip address add {new} dev r0", "ip address del 10.0.0.1/24 dev r0"]
    else:
        flush = "ip -4 address flush dev r0 scope global permanent"
        assert steps == [flush, f"ip address add {new} dev r0", "the routes"]


def test_the_way_back_holds_from_anywhere_and_ends_with_the_routes() -> None:
    change = _util("pdctl_address_change")
    former, target = _words("10.0.0.1/24 label r0:1", "10.0.0.2/24", "fd00::1/64"), _words("10.0.0.2/24", "fd00::2/64")
    assert [" ".join(step) for step in change.undo("r0", former, target, [["the", "routes"]])] == [
        "ip -4 address flush dev r0 scope global permanent",
        "ip address add 10.0.0.1/24 label r0:1 dev r0",
        "ip address add 10.0.0.2/24 dev r0",
        "ip address del fd00::2/64 dev r0",
        "ip address replace fd00::1/64 dev r0",
        "the routes",
    ]


def test_routes_are_the_words_that_make_them_again() -> None:
    routes = _util("pdctl_routes")
    mine = routes.through("r0", routes.every(_ip({"-4 -oneline": ROUTES})))
    again = [" ".join(step) for step in routes.made_again(mine, _words("10.0.0.1/24", "10.0.0.2/24"))]
    assert again == [
        "ip -4 route replace unicast 10.3.0.0/16 dev r0 table main proto boot scope link src 10.0.0.2",
        "ip -4 route replace unicast default via 10.0.0.254 dev r0 table 101 proto boot scope global",
        "ip -4 route replace unicast default via 10.0.0.254 dev r0 table main proto static scope global metric 100",
        "ip -4 route replace unicast 10.4.0.0/16 table main proto boot scope global "
        "nexthop via 10.0.0.253 dev r0 weight 2 nexthop via 10.9.0.9 dev r1 onlink",
    ]
    # The kernel makes none of its own for an address with that flag, and none holds whose source is not there.
    again = [" ".join(step) for step in routes.made_again(mine, _words("10.0.0.1/24 noprefixroute"))]
    assert again[0].endswith("proto kernel scope link src 10.0.0.1") and "10.3.0.0/16" not in "".join(again)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["10.0.0.1/24", "10.0.0.2/24"], []),
        (["10.0.0.1/24"], ["`10.3.0.0/16 dev r0 scope link src 10.0.0.2` has 10.0.0.2 as its source"]),
        (["10.0.0.2/24"], ["a rule chooses routes for what comes from 10.0.0.1/32"]),
        (
            ["10.0.0.1/28", "10.0.0.2/28"],
            [
                "gateway of the route `default via 10.0.0.254 dev r0 table 101` is in none",
                "gateway of the route `default via 10.0.0.254 dev r0 proto static metric 100` is in none",
                "gateway of the route `10.4.0.0/16 nexthop via",
            ],
        ),
        (
            ["fd00::1/64", "10.0.0.1/32", "10.0.0.2/32", "10.0.0.9/24"],
            [],
        ),
    ],
    ids=["nothing-goes", "source", "rule", "gateway", "another-subnet-serves"],
)
def test_an_address_on_which_something_stands_does_not_go(asked: list[str], said: list[str]) -> None:
    routes = _util("pdctl_routes")
    run = _ip({"-4 -oneline": ROUTES, "-4 rule": RULES})
    held = _words("10.0.0.1/24", "10.0.0.2/24")
    found = routes.standing_on("r0", held, asked, routes.every(run), routes.rules(run))
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))


def test_the_last_address_of_ipv4_takes_no_route_with_it() -> None:
    routes = _util("pdctl_routes")
    every = routes.every(_ip({"-4 -oneline": "unicast 10.3.0.0/16 dev r0 table main proto boot scope link\n"}))
    (said,) = routes.standing_on("r0", _words("10.0.0.1/24"), ["fd00::1/64"], every, [])
    assert said == "the route `10.3.0.0/16 dev r0 scope link` would go with the last IPv4 address"


NETWORK = """# of the site
[Match]
Name=r0

[Network]
Address = 10.0.0.1/24
DNS=10.0.0.53
Address=fd00:0::1/64
# behind it

[Address]
Address=10.0.0.2/24
Label=r0:1
# of the route

[Route]
Gateway=10.0.0.254
"""


def test_a_file_of_networkd_keeps_everything_but_its_addresses() -> None:
    networkd = _util("pdctl_address_record").networkd
    assert networkd(NETWORK, ["10.0.0.1/24", "fd00::1/64", "10.0.0.2/24"]) == NETWORK
    # The section of an address that stays is left, with what else it says.
    new = networkd(NETWORK, ["10.0.0.2/24", "10.0.0.7/24"])
    expected = NETWORK.replace("Address=fd00:0::1/64\n", "").replace("Address = 10.0.0.1/24", "Address=10.0.0.7/24")
    assert new == expected
    assert networkd(new, ["10.0.0.2/24", "10.0.0.7/24"]) == new
    gone = networkd(NETWORK, ["10.0.0.1/24"])
    assert "[Address]" not in gone and "Label" not in gone and "# of the route\n\n[Route]" in gone
    assert networkd("[Match]\nName=r0\n", ["10.0.0.1/24"]) == "[Match]\nName=r0\n\n[Network]\nAddress=10.0.0.1/24\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"/etc/systemd/network/10-r0.network": "[Network]\nDHCP=ipv4\n"}, "by DHCP"),
        ({"/run/systemd/network/10-r0.network": "[Network]\nAddress=10.0.0.1/24\n"}, "no file of the site"),
    ],
    ids=["dhcp", "not-of-the-site"],
)
def test_networkd_is_not_told_where_that_would_be_a_guess(more: dict[str, str], said: str) -> None:
    record = _util("pdctl_address_record")
    (unit,) = more
    with pytest.raises(_util("pdctl_addresses").Refused, match=said):
        record.files("r0", ["10.0.0.2/24"], {"by": "networkd", "unit": unit, "shared": []}, more.get)
    with pytest.raises(_util("pdctl_addresses").Refused, match="configures r9 as well"):
        record.files("r0", ["10.0.0.2/24"], {"by": "networkd", "unit": unit, "shared": ["r9"]}, more.get)


INTERFACES = """auto r0
iface r0 inet static
    address 10.0.0.1
    netmask 255.255.255.0
    gateway 10.0.0.254

iface r0 inet static
    address 10.0.0.2/24

iface r0 inet6 auto
# of r1
iface r1 inet dhcp
"""


def test_ifupdown_has_a_stanza_an_address_and_keeps_the_rest() -> None:
    changed = _util("pdctl_ifupdown").changed

    def ifupdown(text: str, name: str, asked: list[str]) -> str:
        return str(changed({"interfaces": text}, "interfaces", name, asked))

    assert ifupdown(INTERFACES, "r0", ["10.0.0.1/24", "10.0.0.2/24"]) == INTERFACES
    one = ifupdown(INTERFACES, "r0", ["10.0.0.3/24"])
    first = "auto r0\niface r0 inet static\n    address 10.0.0.3/24\n    gateway 10.0.0.254\n"
    assert (
        one.startswith(first)
        and "10.0.0.2/24" not in one
        and one.endswith(INTERFACES[INTERFACES.index("iface r0 inet6") :])
    )
    three = ifupdown(one, "r0", ["10.0.0.3/24", "10.0.0.4/24"])
    assert f"{first}iface r0 inet static\n    address 10.0.0.4/24\n" in three
    assert ifupdown(three, "r0", ["10.0.0.3/24", "10.0.0.4/24"]) == three


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        (INTERFACES, ["fd00::1/64", "10.0.0.1/24", "10.0.0.2/24"], "inet6 auto, not static"),
        (INTERFACES, ["fd00::1/64"], "cannot be without an address"),
        ("iface r0 inet dhcp\n", ["10.0.0.1/24"], "inet dhcp, not static"),
        ("iface r0 inet manual\n", ["10.0.0.1/24"], "inet manual, not static"),
        ("iface r0 inet static inherits x\n    address 10.0.0.1/24\n", ["10.0.0.2/24"], "inherits"),
        (
            "iface r0 inet static\n    address 10.0.0.1/24\n    up ip addr add 10.0.0.2/24 dev r0\n",
            ["10.0.0.1/24"],
            "runs a command that gives addresses",
        ),
        (
            "iface r0 inet static\n    address 10.0.0.1/24\niface r0 inet static\n    address 10.0.0.2/24\n    up x\n",
            ["10.0.0.3/24"],
            r"says more than an address \(up\)",
        ),
    ],
)
def test_ifupdown_is_not_told_where_that_would_be_a_guess(text: str, asked: list[str], said: str) -> None:
    with pytest.raises(_util("pdctl_addresses").Refused, match=said):
        _util("pdctl_ifupdown").changed({"interfaces": text}, "interfaces", "r0", asked)


SITE = "/etc/netplan/01-site.yaml"
NETPLAN = """# of the site
network:
  version: 2
  ethernets:
    fast:
      addresses:
        - 10.0.0.1/24 # the rail
        - "fd00::1/64"
      mtu: 9000
    slow: {dhcp4: true}
    both: {addresses: [10.9.0.1/24]}
"""


def test_netplan_keeps_everything_but_the_list() -> None:
    netplan = _util("pdctl_netplan")
    texts = {SITE: NETPLAN}
    assert netplan.changed(texts, "ethernets", "fast", ["10.0.0.1/24", "fd00::1/64"]) == texts
    new = netplan.changed(texts, "ethernets", "fast", ["10.0.0.2/24", "fd00::2/64"])[SITE]
    begin, _sign, end = NETPLAN.partition('- 10.0.0.1/24 # the rail\n        - "fd00::1/64"')
    assert new == f'{begin}- "10.0.0.2/24"\n        - "fd00::2/64"{end}'
    flow = netplan.changed(texts, "ethernets", "both", ["10.9.0.2/24"])[SITE]
    assert flow == NETPLAN.replace("[10.9.0.1/24]", '["10.9.0.2/24"]')


def test_where_netplan_has_no_list_a_file_of_ours_has_it() -> None:
    netplan = _util("pdctl_netplan")
    texts = {SITE: "network: {ethernets: {a: {}, b: {}}}\n"}
    texts |= netplan.changed(texts, "ethernets", "a", ["10.0.0.1/24"])
    texts |= netplan.changed(texts, "ethernets", "b", ["10.0.0.2/24"])
    texts |= netplan.changed(texts, "ethernets", "a", ["10.0.0.3/24"])
    assert texts[netplan.OWN].splitlines()[1:] == [
        *("network:", "  version: 2", "  ethernets:"),
        *("    a:", '      addresses: ["10.0.0.3/24"]', "    b:", '      addresses: ["10.0.0.2/24"]'),
    ]


@pytest.mark.parametrize(
    ("texts", "name", "said"),
    [
        ({SITE: NETPLAN}, "slow", "by DHCP"),
        ({SITE: NETPLAN, "/etc/netplan/02.yaml": NETPLAN}, "fast", "several files"),
        ({"/run/netplan/01.yaml": NETPLAN}, "fast", "no file of the site"),
        ({SITE: NETPLAN.replace("of the site", "written by cloud-init")}, "fast", "cloud-init writes"),
        ({SITE: NETPLAN.replace("- 10", "- &a 10").replace("[10.9.0.1/24]", "[*a]")}, "fast", "cannot be"),
        ({SITE: "network: [\n"}, "fast", "cannot be read"),
    ],
    ids=["dhcp", "two-files", "not-of-the-site", "cloud-init", "an-anchor", "no-yaml"],
)
def test_netplan_is_not_told_where_that_would_be_a_guess(
    texts: dict[str, str], name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netplan = _util("pdctl_netplan")
    monkeypatch.setattr(netplan, "_CLOUD", tmp_path)
    with pytest.raises(_util("pdctl_addresses").Refused, match=said):
        netplan.changed(texts, "ethernets", name, ["10.0.0.9/24"])


def test_networkmanager_is_told_what_differs_and_keeps_its_method_of_ipv6() -> None:
    record = _util("pdctl_address_record")
    told = record.networkmanager
    shown = ["manual", "10.0.0.1/24, 10.0.0.2/24", "auto", ""]
    assert told(shown, ["10.0.0.1/24", "10.0.0.2/24"]) == []
    assert told(shown, ["10.0.0.1/24", "fd00::1/64"]) == [
        "ipv4.addresses",
        "10.0.0.1/24",
        "ipv6.addresses",
        "fd00::1/64",
    ]
    assert told(["disabled", "", "ignore", ""], ["10.0.0.1/24", "fd00::1/64"]) == [
        *("ipv4.addresses", "10.0.0.1/24", "ipv4.method", "manual"),
        *("ipv6.addresses", "fd00::1/64", "ipv6.method", "manual"),
    ]
    assert told(shown, ["fd00::1/64"])[:4] == ["ipv4.method", "disabled", "ipv4.addresses", ""]
    with pytest.raises(_util("pdctl_addresses").Refused, match="method auto for IPv4"):
        told(["auto", "", "auto", ""], ["10.0.0.1/24"])
