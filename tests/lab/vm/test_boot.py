"""What provisioning sets is still there after a real reboot, and the doctor says before it what a boot will undo."""

import pytest
from tests.lab.cure import Findings, by_key
from tests.lab.vm.fabric import PDCTL, diagnose
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600), pytest.mark.usefixtures("soak")]

KEY = "net.core.rmem_max"
LATER = "/etc/sysctl.d/99-site.conf"
# Of the roles that provision has: what they set is at boot as it is now.
TOPICS = ("locale.utf8", "limits.", "sysctl.", "neigh.table", "arp.base-reachable", "service.rdma", "yum.wrapper")
_PROVISION_DEADLINE_S = 1800.0


@pytest.fixture(scope="module")
def provisioned(soak: None, machine: VirtualMachine) -> VirtualMachine:
    machine.restore()
    inventory = str(machine.lab.inventory(machine))
    machine.lab.run(str(PDCTL), "provision", inventory, timeout_s=_PROVISION_DEADLINE_S)
    machine.snapshot("provisioned")
    return machine


def _set_by_roles(vm: VirtualMachine) -> dict[tuple[str, str], str]:
    """Status by topic and object of what the roles set."""
    return {key: finding["status"] for key, finding in _findings(vm).items() if key[0].startswith(TOPICS)}


def _findings(vm: VirtualMachine) -> Findings:
    return by_key(diagnose(vm))


def test_a_provisioned_machine_is_as_fit_after_a_reboot(provisioned: VirtualMachine) -> None:
    before = _set_by_roles(provisioned)
    assert {key for key, status in before.items() if status not in ("pass", "info")} == set()
    assert any(topic == "sysctl.boot" for topic, _ in before)
    provisioned.reboot()
    assert _set_by_roles(provisioned) == before


def test_a_line_that_the_next_boot_obeys_is_named_before_it_and_is_gone_by_the_remedy(
    provisioned: VirtualMachine,
) -> None:
    vm = provisioned
    vm.restore("provisioned")
    fit = vm.ssh(f"sysctl -n {KEY}").strip()
    vm.ssh(f"echo '{KEY} = 65536' >{LATER}")
    named = _findings(vm)["sysctl.boot", KEY]
    assert named["status"] == "warn"
    assert f"is {fit} now and 65536 after the next boot: {LATER}, line 1" in named["summary"]
    vm.reboot()
    assert vm.ssh(f"sysctl -n {KEY}").strip() == "65536"
    for command in named["remedy"]["commands"]:
        vm.ssh(command)
    assert _findings(vm)["sysctl.boot", KEY]["status"] == "pass"
    vm.reboot()
    assert vm.ssh(f"sysctl -n {KEY}").strip() == fit


def test_a_value_set_until_the_next_boot_does_not_outlive_it(provisioned: VirtualMachine) -> None:
    """The remedy by hand records the value; the commands for now alone do not, and the finding says which is which."""
    vm = provisioned
    vm.restore("provisioned")
    vm.ssh(f"sed -i '/^{KEY} /d' /etc/sysctl.d/90-pdctl.conf && sysctl -w {KEY}=65536")
    remedy = _findings(vm)["sysctl.buffers", KEY]["remedy"]
    for command in remedy["until_reboot"]:
        vm.ssh(command)
    assert _findings(vm)["sysctl.buffers", KEY]["status"] == "pass"
    vm.reboot()
    assert _findings(vm)["sysctl.buffers", KEY]["status"] == "warn"
    for command in remedy["commands"]:
        vm.ssh(command)
    vm.reboot()
    assert _findings(vm)["sysctl.buffers", KEY]["status"] == "pass"
