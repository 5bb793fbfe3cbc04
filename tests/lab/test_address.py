"""Addresses of interfaces that different programs configure; and a wrong one where SSH comes in, which the node undoes by itself."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab, Node, wait_until
from tests.lab.site import Ran, Site, differences, policy, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

# eth0, over which SSH comes, is configured by nobody, rail0 by systemd-networkd, rail1 by ifupdown.
OWN, SECOND, WRONG = "10.77.1.1/16", "10.77.8.1/16", "10.77.9.9/16"
WANTED = {"eth0": [OWN, SECOND], "rail0": ["10.99.1.1/24"], "rail1": ["10.98.0.2/24", "10.98.0.3/24", "fd99::2/64"]}
CUT = {**WANTED, "eth0": [WRONG]}
NETWORK = "# of the site\n[Match]\nName=rail0\n\n[Network]\nAddress=10.99.0.1/24\nLinkLocalAddressing=no\n"
STANZAS = "# of the site\nauto rail1\niface rail1 inet static\n    address 10.98.0.9/24\n    mtu 1500\n\n# behind it\n"
UNIT, INTERFACES = "/etc/systemd/network/10-rail.network", "/etc/network/interfaces"
BOOT = "/usr/local/lib/pdctl/address"
# The last one goes with the last address of rail1, unless somebody brings it back.
ROUTES = (
    "10.200.0.0/16 via 10.77.0.1 dev eth0",
    "10.201.0.0/16 dev eth0 scope link metric 7",
    "default via 10.77.0.1 dev eth0 table 101",
    "10.202.0.0/16 dev rail1 scope link",
)
SHORT_S = 12


@dataclass(frozen=True)
class Story:
    """One node. cut: the policy gave eth0 an address at which nobody looks for the node."""

    site: Site
    node: Node
    former: str
    cut: Ran
    after_cut: str
    check: Ran
    after_check: str
    run: Ran
    second: Ran


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    (node,) = lab.up(["n1"], _with_rails)
    node.ssh("ip link add rail0 type veth peer name rail1 && ip link set rail1 up && systemctl start systemd-networkd")
    # Without promotion the second address of a subnet goes with the first one.
    node.ssh("echo 0 | tee /proc/sys/net/ipv4/conf/*/promote_secondaries && ip addr add 10.98.0.9/24 brd + dev rail1")
    node.ssh(" && ".join(f"ip route add {route}" for route in ROUTES))
    node.ssh("timeout 60 sh -c 'until networkctl list rail0 | grep -q configured; do sleep 0.2; done'", timeout_s=90)
    # The kernel asks for a second or two whether another has its addresses of IPv6.
    node.ssh("timeout 60 sh -c 'while ip -6 addr show tentative | grep -q inet6; do sleep 0.2; done'", timeout_s=90)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    former = _look(node)
    _give(site, CUT, SHORT_S)
    cut = site.provision(site.ini(), "--tags", "address", "-o", "json")
    after_cut = _look(node)
    _give(site, WANTED, 120)
    check = site.provision(site.ini(), "--tags", "address", "--check", "--diff", "-o", "json")
    after_check = _look(node)
    first = site.provision(site.ini(), "--tags", "address", "-o", "json")
    second = site.provision(site.ini(), "--tags", "address", "-o", "json")
    return Story(site, node, former, cut, after_cut, check, after_check, first, second)


def _with_rails(root: Path) -> None:
    (root / UNIT[1:]).write_text(NETWORK, encoding="utf-8")
    (root / "etc/network").mkdir(exist_ok=True)
    (root / INTERFACES[1:]).write_text(STANZAS, encoding="utf-8")


def _give(site: Site, addresses: dict[str, list[str]], window_s: int) -> None:
    site.write_policy({**policy(), "fabric": {"addresses": addresses}, "confirm": {"window_s": window_s}})


def _addresses(node: Node, name: str) -> list[str]:
    """Global ones, seen from this machine, in the kernel's order."""
    (link,) = json.loads(run("ip", "-n", node.namespace, "-j", "address", "show", "dev", name))
    rows = [row for row in link["addr_info"] if row["scope"] == "global"]
    return [f"{row['local']}/{row['prefixlen']}" for row in rows]


def _look(node: Node) -> str:
    """Files, and every line about addresses, routes and rules, each with its place."""
    shown = [snapshot(node, ())]
    for words in ("-4 address", "-6 address", "-4 route show table all", "-6 route show table all", "rule"):
        lines = run("ip", "-n", node.namespace, "-o", *words.split()).splitlines()
        shown += [f"{words} {number}: {line}" for number, line in enumerate(lines)]
    return "\n".join(shown)


def test_a_wrong_address_is_undone_by_the_node_itself_and_the_run_says_so_with_exit_code_4(story: Story) -> None:
    assert story.cut.code == 4, story.cut.stderr
    host = story.cut.host("n1")
    assert (host["status"], host["changed"]) == ("reverted", 0)
    (problem,) = host["problems"]
    assert (problem["outcome"], problem["role"]) == ("reverted", "address")
    assert "could not be reached after the change" in problem["message"]


def test_addresses_routes_and_files_are_then_as_they_were(story: Story) -> None:
    assert differences(story.former, story.after_cut) == []


def test_the_check_changes_nothing_and_says_what_the_run_then_changes(story: Story) -> None:
    assert differences(story.former, story.after_check) == []
    changed = [
        [(change["role"], change["task"]) for change in ran.host("n1")["changes"]] for ran in (story.check, story.run)
    ]
    assert changed[0] == changed[1] != []
    shown = str(story.check.host("n1")["changes"])
    for part in (*(f"address {name} = " for name in WANTED), SECOND, BOOT, UNIT, INTERFACES):
        assert part in shown


def test_the_interfaces_hold_what_the_policy_gives_them_and_their_routes(story: Story) -> None:
    assert story.run.code == 0, story.run.stderr
    assert story.run.host("n1")["status"] == "changed"
    assert {name: _addresses(story.node, name) for name in WANTED} == WANTED
    routes = run("ip", "-n", story.node.namespace, "-o", "route", "show", "table", "all")
    for route in ROUTES:
        assert route.replace(" table 101", "") in routes


def test_the_second_run_changes_nothing(story: Story) -> None:
    assert story.second.code == 0, story.second.stderr
    assert (story.second.host("n1")["status"], story.second.host("n1")["changed"]) == ("ok", 0)


def test_systemd_networkd_gives_them_when_it_reads_its_files_again(story: Story) -> None:
    expected = NETWORK.replace("10.99.0.1/24", "10.99.1.1/24")
    assert story.node.ssh(f"cat {UNIT}") == expected
    story.node.ssh("ip address flush dev rail0 scope global && networkctl reload && networkctl reconfigure rail0")
    wait_until(lambda: _addresses(story.node, "rail0") == WANTED["rail0"], 60.0, "rail0 has its address again")


def test_ifupdown_has_a_stanza_for_each(story: Story) -> None:
    first = STANZAS.replace("10.98.0.9/24", "10.98.0.2/24").partition("\n\n")[0]
    more = "iface rail1 inet static\n    address 10.98.0.3/24\n\niface rail1 inet6 static\n    address fd99::2/64\n"
    text = story.node.ssh(f"cat {INTERFACES}")
    assert text.startswith(first) and text.endswith("\n# behind it\n")
    assert more in text


def test_where_nobody_configures_the_interface_a_unit_gives_them_at_boot(story: Story) -> None:
    story.node.ssh(f"ip address del {SECOND} dev eth0 && systemctl restart pdctl-address.service")
    assert _addresses(story.node, "eth0") == WANTED["eth0"]
    assert story.node.ssh("systemctl is-enabled pdctl-address.service").strip() == "enabled"


def test_a_rollback_restores_addresses_routes_and_files(story: Story) -> None:
    rolled = story.site.pdctl("runs", "rollback", story.run.document["run"]["id"], "-o", "json")
    assert rolled.code == 0, rolled.stderr
    assert differences(story.former, _look(story.node)) == []


def test_what_stands_in_the_way_is_named_and_the_interface_left_as_it_is(story: Story) -> None:
    # A gateway of eth0 would be out of reach, rail1 has the address, and there is no rail9.
    _give(story.site, {"eth0": ["10.78.1.1/16"], "rail0": ["10.98.0.9/24"], "rail9": ["10.97.0.1/24"]}, 120)
    before = _look(story.node)
    refused = story.site.provision(story.site.ini(), "--tags", "address", "-o", "json")
    assert refused.code == 4, refused.stderr
    host = refused.host("n1")
    assert (host["status"], host["changed"]) == ("partly", 0)
    problems = {problem["key"]: problem for problem in host["problems"]}
    assert {key: problem["outcome"] for key, problem in problems.items()} == {
        "address eth0": "refused",
        "address rail0": "refused",
        "rail9": "absent",
    }
    assert "gateway of the route `10.200.0.0/16 via 10.77.0.1 dev eth0`" in problems["address eth0"]["message"]
    assert "another interface of the node has 10.98.0.9 (rail1)" in problems["address rail0"]["message"]
    assert differences(before, _look(story.node)) == []
