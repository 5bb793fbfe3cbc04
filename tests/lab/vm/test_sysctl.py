"""Host-wide sysctls, which no network namespace has: writable here, and full of traps that a role must read back for."""

import pytest
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


def test_host_wide_values_can_really_be_set(machine: VirtualMachine) -> None:
    values = {"net.core.rmem_max": "1048576", "net.ipv4.neigh.default.gc_thresh3": "2222", "vm.swappiness": "7"}
    lines = "\\n".join(f"{key} = {value}" for key, value in values.items())
    machine.ssh(f"printf '{lines}\\n' >/etc/sysctl.d/90-test.conf && sysctl --system >/dev/null")
    assert machine.ssh(f"sysctl -n {' '.join(values)}").split() == list(values.values())


def test_the_neighbour_default_is_only_a_template_for_later_interfaces(vm: VirtualMachine) -> None:
    key = "base_reachable_time_ms"
    vm.ssh(f"sysctl -w net.ipv4.neigh.default.{key}=60000")
    vm.ssh("ip link add later type bridge && ip addr add 10.99.0.1/24 dev later")
    of = " ".join(f"net.ipv4.neigh.{name}.{key}" for name in ("default", "eth1", "later"))
    assert vm.ssh(f"sysctl -n {of}").split() == ["60000", "30000", "60000"]
    vm.ssh(f"sysctl -w net.ipv4.neigh.eth1.{key}=60000")
    assert vm.ssh(f"sysctl -n net.ipv4.neigh.eth1.{key}").strip() == "60000"


def test_a_read_only_value_is_refused_with_exit_code_zero(machine: VirtualMachine) -> None:
    said = machine.ssh("sysctl -w kernel.osrelease=0.1 2>&1; echo exit $?")
    assert "exit 0" in said
    assert machine.ssh("sysctl -n kernel.osrelease").strip() == machine.image.release


def test_systemd_takes_a_refusal_for_done(machine: VirtualMachine) -> None:
    drop_in = "/etc/sysctl.d/91-test.conf"
    # By default it says nothing at all, and its unit has started.
    aloud = "SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console"
    apply = f"{aloud} /usr/lib/systemd/systemd-sysctl --prefix=/kernel/osrelease"
    said = machine.ssh(f"echo 'kernel.osrelease = 0.1' >{drop_in}; {apply} 2>&1; echo exit $?; rm {drop_in}")
    assert "ignoring: Permission denied" in said and "exit 0" in said
    assert machine.ssh("sysctl -n kernel.osrelease").strip() == machine.image.release


def test_a_value_out_of_range_is_refused_aloud(machine: VirtualMachine) -> None:
    """In a container the same command ends with exit code 0: it may not write the value at all."""
    before = machine.ssh("sysctl -n net.core.rmem_max").strip()
    said = machine.ssh("sysctl -w net.core.rmem_max=1 2>&1; echo exit $?")
    assert "Invalid argument" in said
    assert "exit 0" not in said
    assert machine.ssh("sysctl -n net.core.rmem_max").strip() == before


def test_a_time_is_rounded_to_the_clock_tick_without_a_word(machine: VirtualMachine) -> None:
    key = "net.ipv4.neigh.eth1.base_reachable_time_ms"
    assert machine.ssh(f"sysctl -w {key}=30001").split() == [key, "=", "30001"]
    assert machine.ssh(f"sysctl -n {key}").strip() != "30001"
