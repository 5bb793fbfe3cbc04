"""One run of all roles, then a real reboot: what was set is there, and the doctor had said what would not be."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.lab.cure import Findings, by_key
from tests.lab.vm.fabric import CONTROLLER, POLICY_VALUES, diagnose, serve_time
from tests.lab.vm.machine import Card, VirtualMachine
from tests.lab.vm.provisioning import provision
from tests.lab.vm.rdma import RXE

pytestmark = [pytest.mark.lab, pytest.mark.timeout(14400), pytest.mark.usefixtures("soak")]

CARD = Card.DATA.device
# Of mlx5_core as Debian has it; its own are 2 and 0.
OPTIONS = {"prof_sel": 1, "debug_mask": 1}
HUGE_PAGES = 8
# Below what the card has by itself after a boot.
MTU = 4196
POLICY: Mapping[str, Any] = {
    "modules": {"options": {"mlx5_core": OPTIONS}},
    "hugepages": {"pages": HUGE_PAGES},
    "time": {"servers": [CONTROLLER], "within_s": 300},
    "fabric": {"mtu": {"netdev": MTU}},
}
# What a card has by its driver, and this one by our module and soft RoCE: there at boot, whoever provisions the machine.
_CARD = f"""[Unit]
Wants=sys-subsystem-net-devices-{CARD}.device
After=sys-subsystem-net-devices-{CARD}.device
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'ethtool -s {CARD} speed 100000 duplex full; rdma link add {RXE} type rxe netdev {CARD}'
[Install]
WantedBy=multi-user.target
"""
_BRIDGING = " ; ".join(f"dcb -j -N {what} show dev {CARD}" for what in ("app", "pfc", "ets", "buffer", "dcbx"))
_PARAMETERS = "cd /sys/module/mlx5_core/parameters && grep -H '' prof_sel debug_mask"
_UNITS = ("pdctl-qos", "chrony", "rdma-load-modules@rdma", "rdma-load-modules@infiniband")


def _live(vm: VirtualMachine) -> dict[str, list[str]]:
    """What the roles set, as the kernel and its tools show it."""
    sysctls = " ".join(POLICY_VALUES["sysctl"])
    shown = {
        "options": _PARAMETERS,
        "sysctl": f"sysctl {sysctls}",
        "huge pages": "grep HugePages_Total /proc/meminfo",
        "mtu": f"cat /sys/class/net/{CARD}/mtu",
        "bridging": _BRIDGING,
        "pause": f"ethtool -a {CARD}",
        "tos": f"cat /sys/kernel/config/rdma_cm/{RXE}/ports/1/default_roce_tos",
        "modules": f"for each in {' '.join(POLICY_VALUES['modules']['load'])}; do ls -d /sys/module/$each; done",
    }
    return {what: vm.ssh(command).splitlines() for what, command in shown.items()}


def _statuses(findings: Findings) -> dict[tuple[str, str], str]:
    return {key: finding["status"] for key, finding in findings.items()}


def _findings(vm: VirtualMachine) -> Findings:
    return by_key(diagnose(vm, POLICY))


def _options(vm: VirtualMachine) -> dict[str, int]:
    shown = dict(line.split(":") for line in vm.ssh(_PARAMETERS).splitlines())
    return {name: int(value) for name, value in shown.items()}


def _prepare(vm: VirtualMachine) -> None:
    """A data card that is there at boot, and an initramfs that loads the driver."""
    vm.ssh(
        f"cat >/etc/systemd/system/lab-data-card.service <<'END'\n{_CARD}END\n"
        "printf 'labdcb\\nrdma_rxe\\n' >/etc/modules-load.d/lab.conf && "
        "modprobe -a labdcb rdma_rxe mlx5_core && systemctl daemon-reload && systemctl enable --now lab-data-card && "
        "echo mlx5_core >>/etc/initramfs-tools/modules && update-initramfs -u",
        timeout_s=900,
    )


def _converge(vm: VirtualMachine) -> None:
    code, host = provision(vm, policy=POLICY)
    assert (code, host["status"], host["problems"]) == (0, "changed", [])
    waiting = {notice["key"] for notice in host["notices"] if notice["message"].startswith("pending: ")}
    assert waiting == {f"mlx5_core {name}" for name in OPTIONS}


@pytest.fixture(scope="module")
def provisioned(soak: None, machine: VirtualMachine) -> VirtualMachine:
    """After one run of all roles."""
    machine.restore()
    _prepare(machine)
    serve_time(machine)
    _converge(machine)
    machine.snapshot("provisioned")
    return machine


def test_a_reboot_brings_everything_back_and_a_second_run_changes_nothing(provisioned: VirtualMachine) -> None:
    vm = provisioned
    # By its own name: zstd(1) reads no link.
    image = f"/boot/initrd.img-{vm.image.release}"
    held = vm.ssh(f"unmkinitramfs {image} /run/image && grep -rh '^options mlx5_core' /run/image", timeout_s=300)
    assert sorted(held.split()[2:]) == sorted(f"{name}={value}" for name, value in OPTIONS.items())
    before, told = _live(vm), _findings(vm)
    for key in (("driver.boot", "mlx5_core"), ("qos.boot", CARD), ("sysctl.boot", "net.core.rmem_max")):
        assert told[key]["status"] == "pass", told[key]
    before["options"] = [f"{name}:{value}" for name, value in OPTIONS.items()]
    vm.reboot()
    assert _live(vm) == before
    states = vm.ssh(f"systemctl show -p ActiveState,Result {' '.join(_UNITS)}").split()
    assert states.count("Result=success") == len(_UNITS)
    assert "ActiveState=active" in vm.ssh("systemctl show -p ActiveState chrony")
    assert vm.ssh("systemctl --failed --plain --no-legend").strip() == ""
    assert _statuses(_findings(vm)) == _statuses(told)
    code, host = provision(vm, policy=POLICY)
    assert (code, host["status"], host["changed"], host["problems"]) == (0, "ok", 0, [])


def test_an_option_that_only_etc_has_and_qos_that_nothing_makes_again_are_named_before_the_boot(
    provisioned: VirtualMachine,
) -> None:
    vm = provisioned
    vm.restore("provisioned")
    record = "/etc/modprobe.d/90-pdctl.conf"
    vm.ssh(f"sed -i s/prof_sel={OPTIONS['prof_sel']}/prof_sel=0/ {record}")
    vm.ssh("systemctl disable pdctl-qos && rm /etc/udev/rules.d/91-pdctl-qos.rules")
    found = _findings(vm)
    option, qos = found["driver.boot", "mlx5_core"], found["qos.boot", CARD]
    assert (option["status"], qos["status"]) == ("warn", "warn")
    assert record in option["summary"] and "prof_sel=0" in option["summary"]
    assert "nothing sets it again" in qos["summary"]
    assert (option["remedy"]["role"], qos["remedy"]["role"]) == ("mlx5", "qos")
    vm.reboot()
    assert _options(vm) == OPTIONS
    assert "true" not in vm.ssh(f"dcb -j pfc show dev {CARD}").partition("prio_pfc")[2]
    # What the doctor names cures both: the record is the policy's again, and so is the image.
    code, host = provision(vm, tags="mlx5,qos", policy=POLICY)
    assert (code, host["status"], host["problems"]) == (0, "changed", [])
    cured = _findings(vm)
    assert {cured[key]["status"] for key in (("driver.boot", "mlx5_core"), ("qos.boot", CARD))} == {"pass"}
