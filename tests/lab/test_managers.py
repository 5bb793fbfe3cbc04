"""Rails that NetworkManager and netplan configure: their MTU is recorded where the next activation reads it, and goes back."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab.commands import run
from tests.lab.nodes import Lab, Node, wait_until
from tests.lab.site import Ran, Site, differences, policy, snapshot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

BEFORE, WANTED = 1500, 9000
ADDRESSES = {
    "rail0": "10.99.0.1",  # a keyfile of NetworkManager
    "rail1": "10.98.0.",  # a profile that NetworkManager makes up; its address comes by DHCP from rail4
    "rail2": "10.97.0.1",  # netplan, rendered for NetworkManager
    "rail3": "10.96.0.1",  # netplan, rendered for systemd-networkd, under another id
    "rail4": "10.98.0.1",  # systemd-networkd, by a file in /run as netplan's are
}
PAIRS = (("rail0", "rail2"), ("rail1", "rail4"), ("rail3", "peer3"))
PROFILE = "/etc/NetworkManager/system-connections/fast.nmconnection"
KEYFILE = f"""# of the site
[connection]
id=fast
uuid=6a1d3c3e-1f0e-4f0a-9b63-0c5f6a0d1e11
type=ethernet
interface-name=rail0
[ethernet]
mtu={BEFORE}
[ipv4]
method=manual
address1=10.99.0.1/24
[ipv6]
method=disabled
"""
# A container has no udev, whose rule would keep NetworkManager off veth.
NETWORKMANAGER = """[main]
dns=none
rc-manager=unmanaged
[keyfile]
unmanaged-devices=interface-name:eth0;interface-name:rail3;interface-name:rail4;interface-name:peer3
"""
NETPLAN = """# of the site
network:
  version: 2
  ethernets:
    rail2: {renderer: NetworkManager, addresses: [10.97.0.1/24], link-local: []}
    third: {match: {name: rail3}, addresses: [10.96.0.1/24], link-local: []}
"""
RUNTIME = "[Match]\nName=rail4\n[Network]\nAddress=10.98.0.1/24\nDHCPServer=yes\nLinkLocalAddressing=no\n"
DEFAULTS = "/etc/NetworkManager/conf.d/90-pdctl-mtu.conf"
OURS = "/etc/netplan/90-pdctl.yaml"
DROP_IN = "/etc/systemd/network/20-rail4.network.d/90-pdctl-mtu.conf"
GENERATED = "cat /run/systemd/network/10-netplan-*.network /run/NetworkManager/system-connections/netplan-*"


@dataclass(frozen=True)
class Story:
    site: Site
    node: Node
    former: str
    check: Ran
    after_check: str
    run: Ran
    second: Ran


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Story:
    def with_rails(root: Path) -> None:
        for one, other in PAIRS:
            namespace = f"{lab.name}-n1"
            run("ip", "-n", namespace, "link", "add", one, "type", "veth", "peer", "name", other)
            run("ip", "-n", namespace, "link", "set", other, "up")
        for path, text in (
            (PROFILE, KEYFILE),
            ("/etc/NetworkManager/conf.d/site.conf", NETWORKMANAGER),
            ("/etc/netplan/10-site.yaml", NETPLAN),
        ):
            (root / path.lstrip("/")).write_text(text, encoding="utf-8")
            (root / path.lstrip("/")).chmod(0o600)

    (node,) = lab.up(["n1"], with_rails, packages=("network-manager", "netplan.io"))
    node.ssh(
        f"printf '{RUNTIME}' >/run/systemd/network/20-rail4.network && systemctl start systemd-networkd && networkctl reload".replace(
            "\n", "\\n"
        )
    )
    _wait_for_addresses(node)
    site = Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"]})
    site.write_policy({**policy(), "fabric": {"rails": list(ADDRESSES), "mtu": {"netdev": WANTED}}})
    former = _look(node)
    check = site.provision(site.ini(), "--tags", "mtu", "--check", "--diff", "-o", "json")
    after_check = _look(node)
    first = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    second = site.provision(site.ini(), "--tags", "mtu", "-o", "json")
    return Story(site, node, former, check, after_check, first, second)


def _links(node: Node) -> dict[str, tuple[int, list[str]]]:
    """Rail -> (MTU, IPv4 addresses), seen from this machine."""
    links = json.loads(run("ip", "-n", node.namespace, "-j", "-4", "addr", "show"))
    found = {each["ifname"]: (int(each["mtu"]), [a["local"] for a in each["addr_info"]]) for each in links if each}
    return {name: found.get(name, (0, [])) for name in ADDRESSES}


def _addressed(node: Node) -> bool:
    links = _links(node)
    return all(any(each.startswith(address) for each in links[name][1]) for name, address in ADDRESSES.items())


def _wait_for_addresses(node: Node) -> None:
    wait_until(lambda: _addressed(node), 90.0, "every rail has its address")


def _look(node: Node) -> str:
    return f"{snapshot(node, ())}\n{node.ssh(GENERATED)}\n{_links(node)}"


def test_the_check_changes_nothing_and_says_what_the_run_then_changes(story: Story) -> None:
    assert differences(story.former, story.after_check) == []
    shown = str(story.check.host("n1")["changes"])
    for part in (*(f"mtu {name} = {WANTED}" for name in ADDRESSES), DEFAULTS, OURS, DROP_IN, f"mtu {BEFORE}"):
        assert part in shown
    changed = [
        [(change["role"], change["task"]) for change in ran.host("n1")["changes"]] for ran in (story.check, story.run)
    ]
    assert changed[0] == changed[1] != []


def test_each_mtu_is_live_and_stands_with_whoever_configures_the_rail(story: Story) -> None:
    assert story.run.code == 0, story.run.stderr
    node = story.node
    assert {mtu for mtu, _addresses in _links(node).values()} == {WANTED}
    assert f"mtu={WANTED}" in node.ssh(f"cat {PROFILE}").splitlines()
    assert node.ssh(f"cat {DEFAULTS}").splitlines()[1:] == [
        *("[connection-pdctl-rail1]", "match-device=interface-name:=rail1", f"ethernet.mtu={WANTED}"),
    ]
    assert node.ssh(f"stat -c %a {OURS} && sed 1d {OURS}").splitlines() == [
        *("600", "network:", "  version: 2", "  ethernets:"),
        *("    rail2:", f"      mtu: {WANTED}", "    third:", f"      mtu: {WANTED}"),
    ]
    assert node.ssh(f"cat {DROP_IN}").splitlines()[1:] == ["[Link]", f"MTUBytes={WANTED}"]


def test_the_second_run_changes_nothing(story: Story) -> None:
    assert story.second.code == 0, story.second.stderr
    assert (story.second.host("n1")["status"], story.second.host("n1")["changed"]) == ("ok", 0)


def _activate(node: Node) -> None:
    """As after a boot: every rail from its file, none from what `ip link` said. `netplan apply` wants udev, so its parts are run."""
    up = "nmcli -w 60 connection up uuid $(nmcli -g GENERAL.CON-UUID device show {})"
    lines = [f"ip link set {name} mtu 1400" for name in ADDRESSES]
    lines += ["netplan generate", "nmcli connection reload", *(up.format(name) for name in ("rail0", "rail1", "rail2"))]
    node.ssh(" && ".join([*lines, "networkctl reload", "networkctl reconfigure rail3 rail4"]), timeout_s=180)


def test_every_manager_sets_the_recorded_mtu_when_it_activates_the_rail_and_keeps_the_address(story: Story) -> None:
    _activate(story.node)
    wait_until(lambda: {mtu for mtu, _addresses in _links(story.node).values()} == {WANTED}, 90.0, "the recorded MTU")
    _wait_for_addresses(story.node)


def test_a_rollback_restores_the_live_mtu_and_every_file(story: Story) -> None:
    rolled = story.site.pdctl("runs", "rollback", story.run.document["run"]["id"], "-o", "json")
    assert rolled.code == 0, rolled.stderr
    assert differences(story.former, _look(story.node)) == []


def test_an_mtu_that_no_file_can_hold_is_refused_by_name_and_live_all_the_same(soak: None, story: Story) -> None:
    node = story.node
    card = "match: {macaddress: '$(cat /sys/class/net/rail2/address)'}"
    node.ssh(
        f'sed -i "s/renderer: NetworkManager/&, {card}/" /etc/netplan/10-site.yaml && '
        f"printf 'network: {{ethernets: {{third: {{mtu: {BEFORE}}}}}}}\n' >/etc/netplan/99-late.yaml && chmod 600 /etc/netplan/* && "
        "netplan generate && nmcli connection reload && nmcli -w 60 connection up netplan-rail2 && "
        "nmcli connection add save no type ethernet ifname rail1 con-name mem ethernet.mtu 1400 ip4 10.98.0.7/24 && "
        "nmcli -w 60 connection up mem",
        timeout_s=180,
    )
    refused = story.site.provision(story.site.ini(), "--tags", "mtu", "-o", "json")
    assert refused.code == 4, refused.stderr
    said = {problem["key"]: problem["message"] for problem in refused.host("n1")["problems"]}
    assert "its connection `mem` names an MTU" in said.pop("mtu rail1 at boot")
    assert "give it `set-name: rail2`" in said.pop("mtu rail2 at boot")
    assert "still gives `third` another MTU" in said.pop("mtu rail3 at boot")
    assert said == {}
    assert {mtu for mtu, _addresses in _links(node).values()} == {WANTED}
