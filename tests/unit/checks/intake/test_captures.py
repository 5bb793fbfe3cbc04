"""Captures of other tools: which file is which command's output, and whose."""

import pytest

from pdchecks.intake.captures import Place, host, place


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sosreport-n1-2026-01-02-abcdefg/sos_commands/networking/ethtool_-S_eth0", "ethtool -S eth0"),
        ("sosreport-n1-2026-01-02-abcdefg/sos_commands/infiniband/ibv_devinfo_-v", "ibv_devinfo -v"),
        ("sos/sos_commands/networking/ip_-d_address", "ip -d address"),
        ("sos/sos_commands/networking/ethtool_eth_lan", "ethtool eth lan"),
        ("sos/sos_commands/networking/ethtool_-i_eth_lan", "ethtool -i eth_lan"),
        ("sos/sos_commands/kernel/dmesg", "dmesg"),
        ("sos/etc/os-release", "cat /etc/os-release"),
        ("sos/proc/sys/net/core/rmem_max", "cat /proc/sys/net/core/rmem_max"),
        ("sos/etc/modprobe.d/mlx5.conf", "grep ^options /etc/modprobe.d/mlx5.conf (modprobe.d)"),
        ("snap/ethtool_S/ethtool_S_ens1f0", "ethtool -S ens1f0"),
    ],
)
def test_a_file_of_a_capture_is_read_as_its_commands_output(path: str, expected: str) -> None:
    found = place(path)
    assert found
    assert found.command == expected


def test_a_snapshots_file_names_its_command_itself() -> None:
    assert place("sysinfo-snapshot-v3.7.9-n1-20260102-0304/commands_txt_output/ibstat.txt") == Place(
        "sysinfo-snapshot-v3.7.9-n1-20260102-0304", first_line=True
    )


@pytest.mark.parametrize(
    ("path", "root", "sysfs"),
    [
        ("n1/sys/class/infiniband/mlx5_0/ports/1/state", "n1", "/sys/class/infiniband/mlx5_0/ports/1/state"),
        (
            "mlx5_0/ports/1/hw_counters/out_of_sequence",
            "",
            "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence",
        ),
        ("dump/mlx5_0/fw_ver", "dump", "/sys/class/infiniband/mlx5_0/fw_ver"),
        ("sys/class/net/eth0/mtu", "", "/sys/class/net/eth0/mtu"),
    ],
)
def test_a_file_of_sysfs_keeps_its_place(path: str, root: str, sysfs: str) -> None:
    assert place(path) == Place(root, sysfs=sysfs)


@pytest.mark.parametrize(
    "path", ["n1/ibstat.txt", "sos/sos_commands/crio/crictl_ps", "sys/class/net/eth0/statistics/rx_bytes", "a/b/c"]
)
def test_what_no_reader_would_know_has_no_place(path: str) -> None:
    assert place(path) is None


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("sosreport-gpu-07-2026-01-02-abcdefg", "gpu-07"),
        ("x/sosreport-gpu07-123456-2026-01-02-abcdefg", "gpu07"),
        ("sysinfo-snapshot-v3.7.9-gpu-07-20260102-0304", "gpu-07"),
        ("captures/n1", "n1"),
    ],
)
def test_the_node_is_named_by_the_captures_folder(root: str, name: str) -> None:
    assert host(root) == name
