"""Module options on a real kernel: what takes effect, and what only seems to."""

import pytest
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


def test_a_module_option_takes_effect_when_the_module_is_loaded_again(vm: VirtualMachine) -> None:
    shown = "/sys/module/mlx5_core/parameters/prof_sel"
    vm.ssh("modprobe mlx5_core")
    before = vm.ssh(f"cat {shown}").strip()
    vm.ssh("echo 'options mlx5_core prof_sel=3' >/etc/modprobe.d/test.conf")
    assert vm.ssh(f"cat {shown}").strip() == before != "3"
    vm.ssh("modprobe -r mlx5_core && modprobe mlx5_core")
    assert vm.ssh(f"cat {shown}").strip() == "3"


def test_an_option_that_the_module_does_not_have_is_ignored_with_a_line_in_the_kernel_log(vm: VirtualMachine) -> None:
    vm.ssh("echo 'options mlx5_core log_sz_xrq=12' >/etc/modprobe.d/test.conf")
    assert vm.ssh("modprobe mlx5_core; echo $?").strip() == "0"
    assert "log_sz_xrq" not in vm.ssh("modinfo -p mlx5_core; ls /sys/module/mlx5_core/parameters")
    assert "mlx5_core: unknown parameter 'log_sz_xrq' ignored" in vm.ssh("dmesg")


@pytest.mark.usefixtures("soak")
def test_netdevsim_has_ring_and_pause_settings(vm: VirtualMachine) -> None:
    if vm.ssh("modinfo -F name netdevsim 2>/dev/null || echo missing").strip() == "missing":
        pytest.skip("the image has no netdevsim: run scripts/vm-packages soak")
    vm.ssh("modprobe netdevsim && echo '1 1' >/sys/bus/netdevsim/new_device && udevadm settle")
    card = vm.ssh("ls /sys/bus/netdevsim/devices/netdevsim1/net").strip()
    vm.ssh(f"ethtool -A {card} autoneg off rx on tx off")
    assert "RX:\t\ton" in vm.ssh(f"ethtool -a {card}")
    assert "netdevsim/netdevsim1" in vm.ssh("devlink dev show")


@pytest.mark.usefixtures("soak")
def test_siw_gives_an_iwarp_device(vm: VirtualMachine) -> None:
    if vm.ssh("modinfo -F name siw 2>/dev/null || echo missing").strip() == "missing":
        pytest.skip("the image has no siw: run scripts/vm-packages soak")
    vm.ssh("modprobe siw && rdma link add siw0 type siw netdev eth1")
    assert "iWARP" in vm.ssh("ibv_devinfo -d siw0")
