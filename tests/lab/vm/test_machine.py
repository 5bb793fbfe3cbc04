"""A machine of the lab is a machine: a kernel and a clock of its own, snapshots, reboots, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.lab.ledger import BASE, sweep
from tests.lab.vm.lab import VirtualLab, sweep_disks
from tests.lab.vm.machine import Card, VirtualMachine

from pdctl.inventory import load_inventory

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

HOUR_S = 3600.0
# What a clock may be off by when it was set over a connection of a loaded machine.
CLOCK_TOLERANCE_S = 20.0


def test_a_machine_answers_with_a_kernel_of_its_own(machine: VirtualMachine) -> None:
    release, name = machine.ssh("uname -r; cat /proc/sys/kernel/hostname").split()
    assert release == machine.image.release != os.uname().release
    assert name == machine.name


def test_a_restored_machine_has_forgotten_disk_memory_and_kernel_state(vm: VirtualMachine) -> None:
    before = vm.ssh("sysctl -n vm.max_map_count").strip()
    vm.ssh("echo spoilt >/root/spoilt; echo spoilt >/run/spoilt; sysctl -w vm.max_map_count=70001; modprobe mlx5_core")
    began = time.monotonic()
    vm.restore()
    seconds = time.monotonic() - began
    left = vm.ssh("cat /root/spoilt /run/spoilt 2>/dev/null; sysctl -n vm.max_map_count; lsmod | grep mlx5_core; true")
    assert left.split() == [before]
    assert seconds < 60


def test_a_restored_machine_lives_in_the_present_until_its_clock_is_set_off(vm: VirtualMachine) -> None:
    assert abs(vm.clock_offset()) < CLOCK_TOLERANCE_S
    vm.set_clock(-5 * HOUR_S)
    assert abs(vm.clock_offset() + 5 * HOUR_S) < CLOCK_TOLERANCE_S


def test_a_pulled_cable_takes_the_carrier_of_that_card_only(machine: VirtualMachine) -> None:
    carriers = "cat /sys/class/net/eth0/carrier /sys/class/net/eth1/carrier"
    machine.cable(Card.DATA, connected=False)
    assert machine.ssh(carriers).split() == ["1", "0"]
    machine.cable(Card.DATA, connected=True)
    assert machine.ssh(carriers).split() == ["1", "1"]


def test_the_inventory_of_a_lab_is_one_that_pdctl_reads(machine: VirtualMachine) -> None:
    (host,) = load_inventory(machine.lab.inventory(machine))
    assert (host.name, host.address, host.user) == (machine.name, machine.address, "root")
    assert host.groups == ("decode", "prefill")
    assert host.variables["simulated"] is True


_KILLED = """
import os, signal
from tests.lab.vm.lab import VirtualLab
lab = VirtualLab().__enter__()
lab.power_on(1)
print(lab.name, lab.machines["v1"].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_machines_of_a_killed_test_run_are_undone_by_the_next(machine: VirtualMachine) -> None:
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", _KILLED], cwd=root, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    name, pid = killed.stdout.split()
    disks = machine.lab.disks.parent / name
    assert psutil.pid_exists(int(pid))
    assert disks.exists()
    sweep()
    sweep_disks()
    assert not psutil.pid_exists(int(pid))
    assert not disks.exists()
    assert not (BASE / name).exists()
    assert not list(Path("/run/netns").glob(f"{name}-*"))
    assert machine.ssh("echo alive").strip() == "alive"


@pytest.mark.usefixtures("soak")
class TestReboot:
    """Takes minutes under emulation."""

    def test_a_reboot_keeps_the_disk_and_loses_the_memory(self, vm: VirtualMachine) -> None:
        vm.ssh("echo kept >/root/kept; echo lost >/run/lost")
        vm.reboot()
        assert vm.ssh("cat /root/kept; cat /run/lost 2>/dev/null; true").split() == ["kept"]

    def test_a_power_cut_loses_what_was_not_synced(self, vm: VirtualMachine) -> None:
        vm.ssh("echo kept >/root/kept; sync; echo lost >/root/lost")
        vm.power_cycle()
        assert vm.ssh("cat /root/kept; cat /root/lost 2>/dev/null; true").split() == ["kept"]

    def test_a_module_option_takes_effect_from_the_initramfs(self, vm: VirtualMachine) -> None:
        vm.ssh("echo 'options virtio_blk num_request_queues=1' >/etc/modprobe.d/test.conf")
        vm.ssh("update-initramfs -u", timeout_s=600)
        vm.reboot()
        assert vm.ssh("cat /sys/module/virtio_blk/parameters/num_request_queues").strip() == "1"

    def test_ansible_reaches_a_machine(self, vm: VirtualMachine, virtual_lab: VirtualLab) -> None:
        ansible = str(Path(sys.executable).with_name("ansible"))
        said = virtual_lab.run(ansible, "-i", str(virtual_lab.inventory(vm)), "-m", "ping", vm.name, timeout_s=300)
        assert "SUCCESS" in said
