"""The fabric checks on a whole node: nothing to say of a good one, and the one right thing of one with a fault."""

import re
from pathlib import Path

import pytest

from pdchecks.check import Need, NodeCheck
from pdchecks.evidence import Block, Evidence, by_node, read_blocks
from pdchecks.facts.rdma import NoRdmaDevice
from pdchecks.finding import Finding, Status
from pdchecks.nodefacts import gather
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.registry import CHECKS
from pdchecks.run import diagnose

ROOT = Path(__file__).parents[3]
HEALTHY = (ROOT / "tests" / "data" / "nodes" / "healthy-roce-node.txt").read_text(encoding="utf-8")
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])
AREAS = re.compile(r"(?:link|mtu|gid|route|rdma|qos|flow|ecn|fw|driver|nic|offload|pcie|mlx5|counters|gdr|perf)\.")
FABRIC = [check for check in CHECKS if AREAS.match(check.topic)]


def findings(text: str) -> list[Finding]:
    def policy(node: str) -> Policy:
        return POLICY

    return diagnose(by_node(read_blocks(text), "node"), policy, FABRIC)


def faults(text: str) -> set[tuple[str, str, str]]:
    return {(f.topic, f.status.value, f.subject.object) for f in findings(text) if f.status.rank > Status.INFO.rank}


def test_a_healthy_node_has_no_fault_and_nothing_unseen() -> None:
    assert faults(HEALTHY) == set()


@pytest.mark.parametrize("cut", range(500, len(HEALTHY), 500))
def test_evidence_that_was_cut_off_makes_no_fault_of_what_is_missing(cut: int) -> None:
    assert {fault for fault in faults(HEALTHY[:cut]) if fault[1] != "unknown"} == set()


def test_every_fabric_check_speaks_of_a_collected_node() -> None:
    spoke = {finding.check for finding in findings(HEALTHY)}
    needs = (Need.RDMA, Need.ROCE)
    mute = {c.id for c in FABRIC if isinstance(c, NodeCheck) and c.need in needs and not c.on_demand}
    assert mute - spoke == set()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("mtu 4200", "mtu 1500", {("mtu.netdev", "warn", "ens2f0np0")}),
        ("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)", {("mtu.active", "warn", "mlx5_0/1")}),
        ("2:off 3:on", "2:off 3:off", {("qos.pfc", "fail", "ens2f0np0")}),
        ("dscp-prio 0:0 AF31:3 CS6:6 ", "", {("qos.trust", "fail", "ens2f0np0")}),
        ("AF31:3", "AF31:5", {("qos.prio", "fail", "ens2f0np0")}),
        ("1:160000b", "1:100000b", {("qos.buffer", "warn", "ens2f0np0")}),
        ("rp_cnp_ignored:0", "rp_cnp_ignored:99", {("ecn.rp", "warn", "mlx5_0/1")}),
        ("np_cnp_sent:1200", "np_cnp_sent:0", {("ecn.np", "warn", "mlx5_0/1")}),
        ("rx_prio3_discards: 0", "rx_prio3_discards: 9000000", {("qos.discards", "warn", "ens2f0np0")}),
        ("local_ack_timeout_err:0", "local_ack_timeout_err:2705", {("rdma.retrans", "warn", "mlx5_0/1")}),
        ("symbol_error:0", "symbol_error:65535", {("counters.saturated", "warn", "mlx5_0/1")}),
        ("prof_sel=2", "log_sz_sq=18", {("driver.options", "warn", "mlx5_core")}),
        ("fw 28.43.2026\n      stored:\n        fw.version 28.43.2026", "fw 28.43.2026\n      stored:\n        fw.version 28.45.1020",
         {("fw.pending", "warn", "pci/0000:5e:00.0")}),
        ("ReqRedir- CmpltRedir- UpstreamFwd-", "ReqRedir+ CmpltRedir+ UpstreamFwd+", {("pcie.acs", "warn", "PCIe bridges")}),
    ],
)  # fmt: skip
def test_one_fault_gives_one_finding(before: str, after: str, expected: set[tuple[str, str, str]]) -> None:
    assert before in HEALTHY
    assert faults(HEALTHY.replace(before, after)) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("rp_cnp_ignored:0", "rp_cnp_ignored:1", {("ecn.rp", "fail", "mlx5_0/1")}),
        ("rx_prio3_discards: 0", "rx_prio3_discards: 1", {("qos.discards", "fail", "ens2f0np0")}),
        ("local_ack_timeout_err:0", "local_ack_timeout_err:1", {("rdma.retrans", "fail", "mlx5_0/1")}),
        ("rp_cnp_ignored:0", "rp_cnp_ignored:0", set()),
    ],
)
def test_a_counter_that_grows_between_two_readings_is_of_now(
    before: str, after: str, expected: set[tuple[str, str, str]]
) -> None:
    end = HEALTHY.index("=== cmd: pdctl-collect end")
    counters = re.findall(
        r"=== cmd: (?:ethtool -S|grep -sH '' \S*/ports/1/counters).*?=== end\n", HEALTHY, flags=re.DOTALL
    )
    assert len(counters) > 1
    again = "".join(counters).replace("=== cmd: ", "=== cmd: sleep 10.02; ")
    assert before in again
    assert faults(HEALTHY[:end] + again.replace(before, after) + HEALTHY[end:]) == expected


def test_a_finding_from_one_reading_says_that_its_age_is_unknown() -> None:
    (ignored,) = [f for f in findings(HEALTHY.replace("rp_cnp_ignored:0", "rp_cnp_ignored:99")) if f.topic == "ecn.rp"]
    assert ignored.status is Status.WARN
    assert "at an unknown time" in ignored.summary


def test_a_port_that_is_down_is_one_fault_and_not_ten() -> None:
    down = HEALTHY.replace("state ACTIVE physical_state LINK_UP", "state DOWN physical_state DISABLED")
    down = down.replace("PORT_ACTIVE (4)", "PORT_DOWN (1)").replace("state:4: ACTIVE", "state:1: DOWN")
    down = down.replace("mtu 4200", "mtu 1500").replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)")
    down = down.replace("2:off 3:on", "2:off 3:off")
    assert {topic for topic, _, _ in faults(down)} == {"link.state"}


def test_an_idle_node_is_not_called_unseen() -> None:
    idle = re.sub(r"(np_\w+|rp_\w+):\d+", r"\1:0", HEALTHY)
    idle = re.sub(r"(prio3_\w*pause\w*): \d+", r"\1: 0", idle)
    assert faults(idle) == set()


def test_no_roce_check_is_asked_of_an_infiniband_node() -> None:
    text = HEALTHY.replace("link_layer:Ethernet", "link_layer:InfiniBand").replace(
        "link_layer:\t\tEthernet", "link_layer:\t\tInfiniBand"
    )
    text = text.replace("lid:0x0", "lid:0x2f").replace("port_lid:\t\t0", "port_lid:\t\t47")
    text = re.sub(r"=== cmd: rdma link show.*?=== end\n", "", text, flags=re.DOTALL)
    assert faults(text) == set()
    assert not {f.topic for f in findings(text)} & {"qos.pfc", "qos.trust", "mtu.active", "gid.choice", "ecn.np"}


def test_a_management_port_is_not_judged_as_roce() -> None:
    objects = {
        finding.subject.object for finding in findings(HEALTHY) if finding.topic.startswith(("qos.", "mtu.", "flow."))
    }
    assert not any("eno1" in name or "docker0" in name for name in objects)


def test_a_filter_that_hides_pause_counters_tells_nothing_about_pfc() -> None:
    block = "=== cmd: ethtool -S ens1f0 | grep _packets\n=== rc: 0\n     rx_prio3_packets: 9\n     tx_prio3_packets: 9\n=== end\n"
    assert [f for f in findings(block) if f.topic == "qos.pfc"] == []


def test_two_tools_at_one_moment_are_no_two_readings() -> None:
    text = (
        "=== cmd: rdma statistic show\n=== rc: 0\nlink mlx5_0/1 rx_write_requests 9000000000 out_of_sequence 5\n=== end\n"
        "=== cmd: grep '' /sys/class/infiniband/mlx5_0/ports/1/hw_counters/*\n=== rc: 0\n"
        "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:6\n"
        "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rx_write_requests:9000000001\n=== end\n"
    )
    assert [f.status for f in findings(text) if f.topic == "rdma.retrans"] == [Status.PASS]


def test_an_unused_port_named_in_the_policy_is_only_mentioned() -> None:
    from pdchecks.policy import Layer

    layers = [
        read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml"),
        Layer("site", {"link": {"unused": ["mlx5_1"]}}),
    ]
    site = resolve(layers)
    text = "=== cmd: rdma link\n=== rc: 0\nlink mlx5_1/1 state DOWN physical_state DISABLED netdev ens1f1 \n=== end\n"

    def policy(node: str) -> Policy:
        return site

    found = diagnose(by_node(read_blocks(text), "node"), policy, FABRIC)
    assert [f.status for f in found if f.topic == "link.state"] == [Status.INFO]


_BOUND = "=== cmd: rdma link show\n=== rc: 0\nlink mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ib0 \n=== end\n"


@pytest.mark.parametrize("before", ["", _BOUND], ids=["alone", "with-rdma-link"])
@pytest.mark.parametrize(
    "link",
    [
        "2: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP qlen 256\n    link/infiniband 00:00:10:49",
        "2: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 4092 qdisc mq state UP qlen 256\n    link/infiniband 00:00:10:49",
        "2: ib0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 2044\n        txqueuelen 256  (InfiniBand)",
        "3: vxlan.calico: <BROADCAST,UP,LOWER_UP> mtu 4096 qdisc noqueue state UNKNOWN\n    link/ether 02:00:00:00:00:01",
        "3: cilium_vxlan: <BROADCAST,UP,LOWER_UP> mtu 2048 qdisc noqueue state UNKNOWN\n    link/ether 02:00:00:00:00:01",
        "4: veth1a2b@if2: <BROADCAST,UP,LOWER_UP> mtu 2048 qdisc noqueue master docker0\n    link/ether 02:00:00:00:00:01",
        "5: tun0: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 2048 qdisc fq_codel state UNKNOWN\n    link/none ",
        "6: lo: <LOOPBACK,UP,LOWER_UP> mtu 2048 qdisc noqueue state UNKNOWN\n    link/loopback 00:00:00:00:00:00",
        "7: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1800 qdisc mq state UP\n    link/ether 02:00:00:00:00:01",
        "8: eth0: <BROADCAST,UP,LOWER_UP> mtu 4096 qdisc mq state UP\n    link/ether 02:00:00:00:00:01\n    vxlan id 42 dev eno1",
    ],
)  # fmt: skip
def test_an_interface_without_roce_is_not_told_to_grow_for_it(before: str, link: str) -> None:
    text = f"{before}=== cmd: ip addr show\n=== rc: 0\n{link.replace('2: ib0: flags', 'ib0: flags')}\n=== end\n"
    assert not [f for f in findings(text) if f.topic.startswith("mtu.")]


def test_both_words_on_a_port_are_of_the_tool_that_saw_it_down() -> None:
    active = "=== cmd: ibstat\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n=== end\n"
    down = "=== cmd: rdma link show\nlink mlx5_0/1 state DOWN physical_state DISABLED netdev ens1np0\n=== end\n"
    for text in (active + down, down + active):
        (finding,) = (f for f in findings(text) if f.topic == "link.state")
        assert finding.summary == "port is Down, physical state Disabled"


@pytest.mark.parametrize(
    ("rc", "output", "none"),
    [
        (0, "", True),
        (2, "ls: cannot access '/sys/class/infiniband': No such file or directory", True),
        (2, "ls: cannot open directory '/sys/class/infiniband': Permission denied", False),
        (126, "pdctl: sysfs is not mounted here", False),
        (0, "mlx5_0", False),
    ],
)
def test_only_a_look_that_was_possible_says_that_there_is_no_rdma_device(rc: int, output: str, none: bool) -> None:
    node = gather(Evidence("n1", (Block("ls /sys/class/infiniband", rc, output),)))
    assert bool(node.all(NoRdmaDevice)) == none


@pytest.mark.parametrize(("more", "status"), [("     module_unplug: 0\n", ["fail"]), ("", [])])
def test_counters_that_break_off_among_the_priorities_are_no_word_on_their_pause(more: str, status: list[str]) -> None:
    head = "=== cmd: ethtool -S ens2f0np0\nNIC statistics:\n     rx_bytes: 9\n     rx_prio3_bytes: 9\n"
    text = f"{head}     rx_prio3_packets: 9\n{more}pdctl: output cut at 131072 bytes\n=== end\n"
    assert [f.status.value for f in findings(text) if f.topic == "qos.pfc"] == status


def test_a_line_that_grep_left_of_a_tool_is_no_tool_that_failed() -> None:
    assert findings("=== cmd: ibv_devinfo | grep active_mtu\n\t\t\tactive_mtu:\t\t1024 (3)\n=== end\n") == []
