"""What breaks a fit machine is named by the doctor, with nothing else, and goes away by the remedy that it prints."""

from typing import Any

import pytest
from tests.lab.vm.fabric import FIT, diagnose, make_fit, set_up
from tests.lab.vm.faults import FAULTS, Fault
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

Key = tuple[str, str]
BAD = ("warn", "fail")


def _by_key(findings: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    return {(finding["topic"], finding["subject"]["object"]): finding for finding in findings}


def _bad(findings: dict[Key, dict[str, Any]]) -> set[Key]:
    return {key for key, finding in findings.items() if finding["status"] in BAD}


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
    return _bad(_by_key(diagnose(fit)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_and_its_remedy_cures_it(fit: VirtualMachine, before: set[Key], fault: Fault) -> None:
    fit.restore(FIT)
    fault.apply(fit)
    found = _by_key(diagnose(fit))
    assert _bad(found) - before == {(fault.topic, fault.subject)}
    for command in found[fault.topic, fault.subject]["remedy"]["commands"]:
        fit.ssh(command)
    assert _bad(_by_key(diagnose(fit))) - before == set()
