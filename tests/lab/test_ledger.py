"""A lab leaves nothing on the machine, also when the process that made it is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.ledger import BASE, sweep
from tests.lab.nodes import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

_KILLED = """
import os, signal
from tests.lab.nodes import Lab
lab = Lab().__enter__()
lab.up(["n1"])
print(lab.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _traces(name: str) -> list[str]:
    namespaces = [path.name for path in Path("/run/netns").glob(f"{name}-*")]
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    mounts = [line.split()[4] for line in table.splitlines() if name in line]
    processes = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"--machine={name}-".encode() in path.read_bytes()
    ]
    return namespaces + mounts + processes


def test_the_lab_of_a_killed_test_run_is_undone_by_the_next(lab_machine: None) -> None:
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", _KILLED], cwd=root, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    name = killed.stdout.strip()
    assert _traces(name) != []
    with Lab() as other:
        other.up(["n1"])
        sweep()
        assert _traces(name) == []
        assert not (BASE / name).exists()
        assert other.nodes["n1"].ssh("hostname").strip() == "n1"
    assert _traces(other.name) == []
