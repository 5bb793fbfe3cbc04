"""The lab as fixtures. It needs root on Debian or Ubuntu and scripts/lab-packages; else its tests skip."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.cure import ROWS, table
from tests.lab.ledger import sweep
from tests.lab.nodes import Lab

SOAK = "PDCTL_LAB_SOAK"
_TOOLS = ("mmdebstrap", "systemd-nspawn", "ip", "ssh", "ssh-keygen")


def prepare() -> str | None:
    """Why no lab can be on this machine, or None; cleans up after a test run that was killed."""
    if os.geteuid() != 0:
        return "the node lab needs root"
    if not Path("/etc/debian_version").exists():
        return "the node lab makes its nodes with mmdebstrap, on Debian or Ubuntu"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"the node lab misses {', '.join(missing)}: run scripts/lab-packages"
    sweep()
    return None


@pytest.fixture(scope="session")
def lab_machine() -> None:
    """Skips with the reason where no lab can be."""
    if reason := prepare():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def lab(lab_machine: None) -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("faults, findings, remedies")
        terminalreporter.write_line(table(ROWS))


@pytest.fixture(scope="session")
def soak() -> None:
    """For tests that take minutes."""
    if os.environ.get(SOAK) != "1":
        pytest.skip(f"takes minutes; set {SOAK}=1")
