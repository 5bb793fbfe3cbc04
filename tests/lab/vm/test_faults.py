"""What breaks a fit machine is named by the doctor, with nothing else, and goes away by the remedy that it prints."""

import pytest
from tests.lab.cure import Fault, Key, bad, by_key, prove
from tests.lab.vm.fabric import FIT, diagnose, make_fit, set_up
from tests.lab.vm.faults import FAULTS
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


def test_each_fault_is_there_once_it_is_applied_and_gone_with_the_snapshot(vm: VirtualMachine) -> None:
    set_up(vm)
    vm.snapshot("set-up")
    assert [fault.name for fault in FAULTS if fault.present(vm)] == []
    for fault in FAULTS:
        fault.apply(vm)
        assert fault.present(vm), fault.name
    vm.restore("set-up")
    assert [fault.name for fault in FAULTS if fault.present(vm)] == []


@pytest.fixture(scope="module")
def fit(soak: None, machine: VirtualMachine) -> VirtualMachine:
    machine.restore()
    make_fit(machine)
    return machine


@pytest.fixture(scope="module")
def before(fit: VirtualMachine) -> set[Key]:
    """What is wrong with a fit machine all the same: it is no RoCE node of a fabric."""
    return bad(by_key(diagnose(fit)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_and_its_remedy_cures_it(
    fit: VirtualMachine, before: set[Key], fault: Fault[VirtualMachine]
) -> None:
    fit.restore(FIT)
    prove(fit, "virtual machine", fault, before, lambda: by_key(diagnose(fit)))
