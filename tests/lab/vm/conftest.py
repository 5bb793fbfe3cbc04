"""Fixtures: one virtual machine for the whole session, clean again for every test that asks for `vm`."""

from collections.abc import Iterator

import pytest
from tests.lab.ledger import sweep
from tests.lab.vm.lab import VirtualLab, sweep_disks
from tests.lab.vm.machine import VirtualMachine
from tests.lab.vm.requirements import reason_to_skip


@pytest.fixture(scope="session")
def virtual_lab() -> Iterator[VirtualLab]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    sweep()
    sweep_disks()
    with VirtualLab() as lab:
        yield lab


@pytest.fixture(scope="session")
def machine(virtual_lab: VirtualLab) -> VirtualMachine:
    """The machine of the session, in whatever state the last test left it: for tests that only read."""
    return virtual_lab.boot()[0]


@pytest.fixture
def vm(machine: VirtualMachine) -> VirtualMachine:
    """The machine of the session as it was after its boot."""
    machine.restore()
    return machine


@pytest.fixture(scope="session")
def pair(soak: None, virtual_lab: VirtualLab, machine: VirtualMachine) -> tuple[VirtualMachine, VirtualMachine]:
    """Two machines on one data network."""
    return machine, virtual_lab.boot()[0]
