"""A sosreport, a sysinfo-snapshot and a copy of sysfs are evidence, packed or not."""

import tarfile
from pathlib import Path

import pytest

from pdchecks.facts.host import OsRelease
from pdchecks.facts.net import Netdev, NicCounters
from pdchecks.facts.rdma import RdmaCounters, RdmaDevice, RdmaPort
from pdchecks.nodefacts import gather
from pdctl.evidence_source import read_sources

SOS = "sosreport-gpu-07-2026-01-02-abcdefg"
SNAPSHOT = "sysinfo-snapshot-v3.7.9-gpu-08-20260102-0304"
# Forms: sos report/plugins/infiniband.py, networking.py; linux-sysinfo-snapshot sysinfo-snapshot.py; kernel sysfs-class-infiniband.
FILES = {
    f"{SOS}/sos_commands/infiniband/ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n",
    f"{SOS}/sos_commands/networking/ethtool_-S_ens1f0": "NIC statistics:\n     rx_packets: 7\n",
    f"{SOS}/sos_commands/crio/crictl_ps": "CONTAINER IMAGE\n",
    f"{SOS}/etc/os-release": 'ID="rhel"\nVERSION_ID="9.4"\n',
    f"{SOS}/var/lib/unknown": "x\n",
    f"{SNAPSHOT}/commands_txt_output/ibstat.txt": "Invoked Command: ibstat\nCA 'mlx5_1'\n\tCA type: MT4125\n\tPort 1:\n",
    f"{SNAPSHOT}/ethtool_S/ethtool_S_ens2f0": "NIC statistics:\n     rx_packets: 9\n",
    "gpu-09/sys/class/infiniband/mlx5_2/fw_ver": "28.39.1002\n",
    "gpu-09/sys/class/infiniband/mlx5_2/ports/1/state": "4: ACTIVE\n",
    "gpu-09/sys/class/infiniband/mlx5_2/ports/1/phys_state": "5: LinkUp\n",
    "gpu-09/sys/class/infiniband/mlx5_2/ports/1/hw_counters/out_of_sequence": "3\n",
    "gpu-09/sys/class/net/ens3f0/mtu": "4200\n",
    "gpu-09/sys/class/net/ens3f0/statistics/rx_bytes": "1\n",
}


@pytest.fixture(params=["folder", "archive"])
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "captures"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / SOS / "hostname").symlink_to("sos_commands/infiniband/ibstat")
    if request.param == "folder":
        return root
    path = tmp_path / "captures.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        archive.add(root, "captures")
    return path


def test_each_capture_becomes_a_node_with_its_facts(capture: Path) -> None:
    nodes = {evidence.node: gather(evidence) for evidence in read_sources([str(capture)]).evidence}
    assert set(nodes) == {"gpu-07", "gpu-08", "gpu-09"}
    assert [fact.device for fact in nodes["gpu-07"].all(RdmaDevice)] == ["mlx5_0"]
    assert [(fact.netdev, fact.values["rx_packets"]) for fact in nodes["gpu-07"].all(NicCounters)] == [("ens1f0", 7)]
    assert [fact.family for fact in nodes["gpu-07"].all(OsRelease)] == ["RedHat"]
    assert [fact.device for fact in nodes["gpu-08"].all(RdmaDevice)] == ["mlx5_1"]
    assert [fact.netdev for fact in nodes["gpu-08"].all(NicCounters)] == ["ens2f0"]
    assert [(fact.name, fact.state) for fact in nodes["gpu-09"].all(RdmaPort)] == [("mlx5_2/1", "ACTIVE")]
    assert [fact.values for fact in nodes["gpu-09"].all(RdmaCounters)] == [{"out_of_sequence": 3}]
    assert [(fact.name, fact.mtu) for fact in nodes["gpu-09"].all(Netdev)] == [("ens3f0", 4200)]


def test_what_no_reader_knows_is_counted(capture: Path) -> None:
    (left,) = read_sources([str(capture)]).unrecognised
    assert left.text == "4 files of a capture, of which no reader knows one"
