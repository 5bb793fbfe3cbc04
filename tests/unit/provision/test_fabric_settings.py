"""What roles mtu, qos and dcqcn read of a node and would do to it: which interfaces, whose file, which values, which commands."""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import ansible.module_utils
import pytest

from pdchecks.evidence import read_blocks
from pdchecks.roce import xoff_bytes
from pdctl.content import content_root

SHOWN = Path(__file__).parents[2] / "data" / "checks" / "PD-QOS-001"
# What iproute2 6.1 prints for an application table: each list ends with a stray blank.
APP = '{"dscp_prio":[[26,3],[48,6]]}'
PFC = '{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}'


@pytest.fixture(autouse=True)
def _found_by_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(content_root() / "roles" / "confirm" / "module_utils")
    monkeypatch.setattr(ansible.module_utils, "__path__", [*ansible.module_utils.__path__, folder])


def _util(name: str) -> ModuleType:
    return importlib.import_module(f"ansible.module_utils.{name}")


class Sysfs:
    """/sys/class/net and /sys/class/infiniband in folders of the test."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.net, self.rdma = root / "net", root / "infiniband"
        self.net.mkdir()
        self.rdma.mkdir()
        self._index = 0
        rails = _util("pdctl_rails")
        monkeypatch.setattr(rails, "SYS_NET", self.net)
        monkeypatch.setattr(rails, "SYS_RDMA", self.rdma)

    def link(self, name: str, *, mtu: int = 1500, kind: str = "", on: Sequence[str] = (), port: str = "p0") -> None:
        self._index += 1
        folder = self.net / name
        folder.mkdir()
        for file, text in (("mtu", mtu), ("type", 1), ("ifindex", self._index), ("phys_port_name", port)):
            (folder / file).write_text(f"{text}\n")
        (folder / "uevent").write_text(f"DEVTYPE={kind}\n" if kind else "")
        for lower in on:
            (folder / f"lower_{lower}").mkdir()
            (self.net / lower / f"upper_{name}").mkdir()

    def device(self, name: str, *netdevs: str) -> None:
        for netdev in netdevs:
            (self.rdma / name / "device" / "net" / netdev).mkdir(parents=True)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sysfs]:
    yield Sysfs(tmp_path, monkeypatch)


def test_rails_are_the_ports_of_rdma_devices_with_bonds_and_vlans_on_them(sysfs: Sysfs) -> None:
    for name in ("eth0", "ens1f0", "ens1f1"):
        sysfs.link(name)
    sysfs.link("ens1f0_vf0", port="pf0vf0")
    sysfs.link("bond0", kind="bond", on=["ens1f0", "ens1f1"])
    sysfs.link("bond0.7", kind="vlan", on=["bond0"])
    sysfs.link("br0", kind="bridge", on=["eth0"])
    sysfs.device("mlx5_0", "ens1f0", "ens1f0_vf0")
    sysfs.device("mlx5_1", "ens1f1")
    sysfs.device("mlx5_9", "eth0")
    rails = _util("pdctl_rails")
    assert rails.rails((), ["mlx5_9"]) == ["ens1f0", "ens1f1", "bond0", "bond0.7"]
    assert rails.ports(rails.rails((), ["mlx5_9"])) == ["ens1f0", "ens1f1"]
    assert rails.rails(["bond0.7"]) == ["bond0.7"]
    assert rails.below(["bond0.7"]) == ["ens1f0", "ens1f1", "bond0"]


def test_a_file_of_networkd_that_configures_others_too_is_said_to(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = _util("pdctl_owner")
    monkeypatch.setattr(owner, "NETWORKD", tmp_path / "links")
    (tmp_path / "links").mkdir()
    for number, name in enumerate(("rail0", "rail1", "eth0"), 1):
        sysfs.link(name)
        unit = "/etc/systemd/network/50-all.network" if name != "rail0" else "/run/systemd/network/10-rail.network"
        (tmp_path / "links" / str(number)).write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={unit}\n")
    assert owner.owner("rail0")["file"] == "/etc/systemd/network/10-rail.network.d/90-pdctl-mtu.conf"
    assert owner.owner("rail0")["shared"] == []
    assert owner.owner("rail1")["shared"] == ["eth0"]


def test_netplan_is_told_by_the_id_that_its_own_file_has(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = _util("pdctl_owner")
    monkeypatch.setattr(owner, "NETWORKD", tmp_path)
    monkeypatch.setattr(owner, "NETPLAN", tmp_path)
    sysfs.link("bond0", kind="bond")
    (tmp_path / "1").write_text("ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-fast.network\n")
    found = owner.owner("bond0")
    assert (found["by"], found["section"], found["id"]) == ("netplan", "bonds", "fast")
    text = _util("pdctl_mtu_record").netplan({("bonds", "fast"): 9000, ("ethernets", "a"): 9000})
    assert text.splitlines()[1:] == [
        *("network:", "  version: 2", "  bonds:", "    fast:", "      mtu: 9000"),
        *("  ethernets:", "    a:", "      mtu: 9000"),
    ]

    # A file of the site that is called like netplan's.
    (tmp_path / "1").write_text("ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/10-netplan-fast.network\n")
    assert owner.owner("bond0")["by"] == "networkd"


@pytest.mark.parametrize(
    ("match", "link", "refused"),
    [("Name=rail0", False, False), ("PermanentMACAddress=02:00:00:00:00:01", False, True), ("Driver=mlx5_core", True, False)],
)  # fmt: skip
def test_netplan_gets_no_mtu_where_its_link_file_would_keep_a_card_from_being_named(
    sysfs: Sysfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str, link: bool, refused: bool
) -> None:
    owner = _util("pdctl_owner")
    monkeypatch.setattr(owner, "NETPLAN", tmp_path)
    monkeypatch.setattr(owner, "_LINKS", tmp_path)
    monkeypatch.setattr(owner, "_text", lambda _path: f"[Match]\n{match}\n")
    if link:
        (tmp_path / "10-netplan-fast.link").touch()
    found = owner._netplan("rail0", "/run/systemd/network/10-netplan-fast.network")
    assert (found["file"] == "") is refused
    assert ("`set-name: rail0`" in found.get("why", "")) is refused


UUID = "6a1d3c3e-1f0e-4f0a-9b63-0c5f6a0d1e11"
CONNECTIONS = "/system-connections"


@pytest.mark.parametrize(
    ("state", "file", "mtu", "by", "recorded_in"),
    [
        ("100 (connected)", f"/etc/NetworkManager{CONNECTIONS}/f: a.nmconnection", "auto", "networkmanager", "the file"),
        ("100 (connected)", "/etc/sysconfig/network-scripts/ifcfg-rail0", "1500", "networkmanager", "the file"),
        ("70 (connecting)", f"/run/NetworkManager{CONNECTIONS}/Wired 1.nmconnection", "auto", "networkmanager-defaults", ""),
        ("100 (connected)", f"/run/NetworkManager{CONNECTIONS}/Wired 1.nmconnection", "1500", "networkmanager", "nowhere"),
        ("100 (connected)", f"/run/NetworkManager{CONNECTIONS}/netplan-fast.nmconnection", "auto", "netplan", ""),
        ("100 (connected (externally))", "", "auto", "nobody", ""),
    ],
)  # fmt: skip
def test_a_profile_of_networkmanager_holds_the_mtu_where_it_stands_in_a_file_of_the_site(
    sysfs: Sysfs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    file: str,
    mtu: str,
    by: str,
    recorded_in: str,
) -> None:
    owner = _util("pdctl_owner")
    answers = {
        "nmcli -g RUNNING general": "running\n",
        "nmcli -g GENERAL.STATE,GENERAL.CON-UUID device show rail0": f"{state}\n{UUID}\n",
        "nmcli -t -e no -f UUID,FILENAME connection show": f"{UUID[:-1]}2:/etc/other\n{UUID}:{file}\n",
        f"nmcli -g connection.id connection show uuid {UUID}": "Wired 1\n",
        f"nmcli -g 802-3-ethernet.mtu connection show uuid {UUID}": f"{mtu}\n",
    }
    monkeypatch.setattr(owner, "said", lambda argv: answers.get(" ".join(argv), ""))
    for name in ("NETWORKD", "NETPLAN", "INTERFACES"):
        monkeypatch.setattr(owner, name, tmp_path)
    sysfs.link("rail0")
    found = owner.owner("rail0")
    assert found["by"] == by
    assert found["file"] == {"the file": file, "nowhere": ""}.get(recorded_in, found["file"])
    assert ("`Wired 1` names an MTU" in found.get("why", "")) is (recorded_in == "nowhere")


INTERFACES = """auto lo
iface lo inet loopback

auto rail0
iface rail0 inet static
    address 10.0.0.1/24
    mtu 1500

iface rail1 inet dhcp
    up ip link set dev rail1 mtu 1500
# the end
"""


def test_ifupdown_keeps_everything_but_the_mtu_of_that_interface() -> None:
    record = _util("pdctl_mtu_record")
    once = record.ifupdown(INTERFACES, "rail0", 9000)
    assert once == INTERFACES.replace("    mtu 1500\n", "    mtu 9000\n")
    twice = record.ifupdown(once, "rail1", 9000)
    assert "iface rail1 inet dhcp\n    post-up ip link set dev rail1 mtu 9000\n# the end\n" in twice
    assert "up ip link set dev rail1 mtu 1500" not in twice
    assert record.ifupdown(twice, "rail1", 9000) == twice


FABRIC = {
    "lossless_priority": 3, "dscp": 26, "cnp": {"dscp": 48, "priority": 6}, "global_pause": False, "dcbx": "os",
    "trust": "dscp", "cable_length_m": 5,
}  # fmt: skip
SPEED, MTU, CABLE = 400_000, 4200, 5


def test_headroom_is_computed_as_the_doctor_computes_it() -> None:
    wish = _util("pdctl_qos_wish")
    for speed in (10_000, 100_000, SPEED):
        assert wish.xoff_bytes(speed, CABLE, MTU) == xoff_bytes(speed, CABLE, MTU)


def test_the_lossless_priority_gets_a_buffer_of_its_own_from_the_largest_other() -> None:
    wish = _util("pdctl_qos_wish")
    needed = xoff_bytes(100_000, CABLE, MTU) + MTU
    now = "sizes=262016,0,0,0,0,0,0,0 map=0,0,0,0,0,0,0,0 total=262016"
    value, why = wish.buffers(now, 3, needed)
    assert why == ""
    sizes = [int(size) for size in value.split()[0].removeprefix("sizes=").split(",")]
    assert sizes[1] == needed and sum(sizes) <= 262016
    assert "map=0,0,0,1,0,0,0,0" in value
    assert wish.buffers(value, 3, needed) == (value, "")
    refused, why = wish.buffers(now, 3, 500_000)
    assert refused == now and "too few" in why


def test_a_buffer_that_the_card_rounded_up_is_as_good_and_a_smaller_one_is_not() -> None:
    wish = _util("pdctl_qos_wish")
    asked = "sizes=100,50,0,0,0,0,0,0 map=0,0,0,1,0,0,0,0"
    assert wish.holds("buffer", asked, asked.replace("50", "64") + " total=1000")
    assert not wish.holds("buffer", asked, asked.replace("50", "49"))
    assert not wish.holds("pfc", "3", "none")


def test_what_dcb_prints_is_read_and_set_with_the_fewest_changes() -> None:
    bridging = _util("pdctl_bridging")
    said = {
        "pfc": PFC,
        "app": '{"dscp_prio":[[26,3],[48,6," "]," "]}'.replace(',[48,6," "]', ",[48,6]"),
        "dcbx": '{"host":true,"ieee":true}',
    }

    def run(argv: list[str]) -> tuple[int, str, str]:
        return (0, said[argv[3]], "") if argv[0] == "dcb" and argv[3] in said else (127, "", "not there")

    now = bridging.look("eth1", run)
    assert now == {"pfc": "3", "dscp": "26:3 48:6", "dcbx": "host ieee"}
    assert bridging.commands("eth1", "dscp", "26:5", "26:3 48:6", run) == [
        ["dcb", "app", "replace", "dev", "eth1", "dscp-prio", "26:5"],
        ["dcb", "app", "del", "dev", "eth1", "dscp-prio", "48:6"],
    ]
    assert bridging.commands("eth1", "pfc", "none", "3", run) == [
        ["dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "all:off"]
    ]


def _printed(name: str) -> str:
    blocks = read_blocks((SHOWN / f"{name}.txt").read_text(encoding="utf-8"))
    return next(block.output for block in blocks if "mlnx_qos" in block.command)


def test_what_mlnx_qos_prints_is_read_and_wished_for() -> None:
    bridging, wish = _util("pdctl_bridging"), _util("pdctl_qos_wish")
    fit = bridging.from_mlnx_qos(_printed("pass-firmware-dcbx"))
    assert (fit["pfc"], fit["trust"], fit["dcbx"], fit["cable"]) == ("3", "dscp", "firmware", "7")
    assert fit["ets"].endswith("map=0,0,0,3,0,0,6,0")
    factory = bridging.from_mlnx_qos(_printed("fail-factory-default"))
    assert (factory["pfc"], factory["trust"]) == ("none", "pcp")
    wanted, problems = wish.wishes(factory, FABRIC, 50, 100_000, MTU)
    assert problems == []
    assert (wanted["trust"], wanted["pfc"], wanted["dcbx"], wanted["cable"]) == ("dscp", "3", "os", "5")

    def run(argv: list[str]) -> tuple[int, str, str]:
        return (
            (0, _printed("fail-factory-default"), "") if argv[0] == "mlnx_qos" else (1, "", "Operation not supported")
        )

    lines = [
        " ".join(argv)
        for kind in bridging.KINDS
        for argv in bridging.commands("e", kind, wanted[kind], factory.get(kind), run)
    ]
    assert "mlnx_qos -i e --pfc=0,0,0,1,0,0,0,0" in lines
    assert "mlnx_qos -i e --dscp2prio=set,26,3" in lines
    assert (
        "mlnx_qos -i e --tsa=ets,ets,ets,ets,ets,ets,strict,ets --tcbw=50,0,0,50,0,0,0,0 --prio_tc=0,0,0,3,0,0,6,0"
        in lines
    )


def test_congestion_control_of_the_lossless_priority_alone_is_switched_in_sysfs(sysfs: Sysfs) -> None:
    sysfs.link("ens1")
    for point in ("roce_np", "roce_rp"):
        for priority in range(8):
            path = sysfs.net / "ens1" / "ecn" / point / "enable" / str(priority)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("0\n")
    settings = _util("pdctl_settings")
    path = str(sysfs.net / "ens1" / "ecn" / "roce_rp" / "enable" / "3")
    assert path in settings.switches("ens1")
    (command,) = settings.commands(f"file {path}", "1", settings.read(f"file {path}"))
    assert settings.run(command)[0] == 0
    assert settings.read(f"file {path}") == "1"
    steps, undo = settings.both_ways([f"file {path}"], {f"file {path}": "0"}, {f"file {path}": "1"})
    assert [settings.run(argv)[0] for argv in steps] == [0]
    assert Path(path).read_text(encoding="utf-8") == "0"
    assert [settings.run(argv)[0] for argv in undo] == [0]
    assert Path(path).read_text(encoding="utf-8") == "1"


def test_what_is_made_again_at_boot_leaves_out_what_is_not_there_and_follows_whatever_appears() -> None:
    boot, look = _util("pdctl_boot"), _util("pdctl_look")
    settings = (
        "pfc eth0",
        "tos mlx5_0/1",
        "file /sys/class/infiniband/mlx5_0/tc/1/traffic_class",
        "file /sys/kernel/debug/x",
    )
    places = [look.folder_of(name) for name in settings]
    assert places == ["/sys/class/net/eth0", "/sys/class/infiniband/mlx5_0", "/sys/class/infiniband/mlx5_0", None]
    script, unit, rule = (
        text for text, _mode in boot.files("qos", "x", ["eth0"], [(place, [["true"]]) for place in places]).values()
    )
    steps = [line for line in script.splitlines() if line.endswith("step true")]
    assert steps == [f"[ ! -d {place} ] || step true" if place else "step true" for place in places]
    # systemd gives up on a unit that is started more often than it likes: a node has many ports.
    assert "StartLimitIntervalSec=0" in unit
    started = [line.split(", ") for line in rule.splitlines() if "pdctl-qos.service" in line]
    assert {line[1] for line in started} == {'SUBSYSTEM=="net"', 'SUBSYSTEM=="infiniband"'}
    without = boot.files("dcqcn", "x", ["eth0"], [(places[0], [["true"]])])
    assert not any("infiniband" in text for text, _mode in without.values())


def test_what_moves_with_an_mtu_goes_back_with_it_and_never_above_what_it_stands_on(sysfs: Sysfs) -> None:
    settings = _util("pdctl_settings")
    sysfs.link("ens1", mtu=9000)
    sysfs.link("ens1.7", mtu=8000, kind="vlan", on=["ens1"])
    sysfs.link("br0", mtu=9000, kind="bridge", on=["ens1"])
    names = ["mtu ens1", "pfc ens1", "pause ens1"]
    assert settings.moved_along(names) == ["mtu ens1.7"]
    live = {"mtu ens1": "9000", "mtu ens1.7": "8000", "pfc ens1": "none", "pause ens1": "rx off tx off"}
    wanted = {"mtu ens1": "1500", "pfc ens1": "none", "pause ens1": "rx on tx on"}
    steps, undo = settings.both_ways(names, wanted, live)
    assert steps == [
        ["ip", "link", "set", "dev", "ens1", "mtu", "1500"],
        ["ethtool", "-A", "ens1", "rx", "on", "tx", "on"],
    ]
    assert undo == [
        ["ethtool", "-A", "ens1", "rx", "off", "tx", "off"],
        ["ip", "link", "set", "dev", "ens1", "mtu", "9000"],
        ["ip", "link", "set", "dev", "ens1.7", "mtu", "8000"],
    ]
