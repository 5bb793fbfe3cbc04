"""Fixtures: one virtual machine for the whole session, clean again for every test that asks for `vm`."""

import os
import pathlib
from collections.abc import Iterator

import pytest
from tests.lab.ledger import sweep
from tests.lab.vm.lab import VirtualLab, sweep_disks
from tests.lab.vm.machine import VirtualMachine
from tests.lab.vm.requirements import reason_to_skip

SOAK = "PDCTL_LAB_SOAK"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            item.add_marker(pytest.mark.lab)
            # A boot alone may take minutes on a loaded machine.
            item.add_marker(pytest.mark.timeout(900))


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
def soak() -> None:
    """For tests that take minutes."""
    if os.environ.get(SOAK) != "1":
        pytest.skip(f"takes minutes; set {SOAK}=1")


@pytest.fixture(scope="session")
def pair(soak: None, virtual_lab: VirtualLab, machine: VirtualMachine) -> tuple[VirtualMachine, VirtualMachine]:
    """Two machines on one data network."""
    return machine, virtual_lab.boot()[0]
