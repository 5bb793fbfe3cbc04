"""Measures `pdctl doctor` over the nodes of a lab against `ansible all -m setup` over the same nodes, in turns.

Both run on the lab's controller, reach so many nodes at once, begin without an open connection and read everything that
they are made to read; Ansible runs with pdctl's own settings, which are the faster ones. A ratio below 1 means that the
doctor is faster; the goal is a quarter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.ledger import sweep
from tests.lab.nodes import Lab
from tests.lab.site import PDCTL, Site

from pdctl.content import content_root
from pdctl.reach.fleet import AT_ONCE

GOAL = 0.25
RUN_DEADLINE_S = 1800.0
# Each node's systemd takes several; the usual limit of 128 holds twenty nodes.
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INSTANCES_A_NODE = 64


@dataclass(frozen=True)
class Measured:
    """nodes: of which whole answers came. told: what else the run gave, in words."""

    seconds: float
    nodes: int
    told: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench-doctor", description=__doc__)
    parser.add_argument("--nodes", type=int, default=int(os.environ.get("PDCTL_BENCH_NODES", "50")))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("the lab of nodes needs root (docs/lab.md)")
    sweep()
    with _room_for(options.nodes), Lab() as lab, tempfile.TemporaryDirectory() as folder:
        names = [f"n{number}" for number in range(1, options.nodes + 1)]
        began = time.monotonic()
        lab.up(names)
        print(f"{options.nodes} nodes up in {time.monotonic() - began:.1f} s, {AT_ONCE} at once", flush=True)
        inventory = Site(lab, Path(folder), {"prefill": names}).ini()
        ours, theirs = [], []
        for number in range(1, options.rounds + 1):
            ours.append(_doctor(lab, inventory))
            theirs.append(_setup(lab, inventory, Path(folder) / f"sockets-{number}"))
            _show(number, ours[-1], theirs[-1])
    ratio = statistics.median(one.seconds for one in ours) / statistics.median(one.seconds for one in theirs)
    for name, runs in (("pdctl doctor", ours), ("ansible all -m setup", theirs)):
        print(f"{name:<22} median {statistics.median(run.seconds for run in runs):7.2f} s")
    print(f"{'ratio':<22}        {ratio:7.3f}   (goal {GOAL})")
    return 0 if all(run.nodes == options.nodes for run in (*ours, *theirs)) else 1


def _show(number: int, *runs: Measured) -> None:
    for name, run in zip(("pdctl doctor", "ansible setup"), runs, strict=True):
        print(f"round {number}: {name:<14} {run.seconds:7.2f} s, {run.nodes} nodes whole, {run.told}", flush=True)


def _doctor(lab: Lab, inventory: Path) -> Measured:
    seconds, stdout, _ = _timed(lab, str(PDCTL), "doctor", str(inventory), "-o", "json", "--timeout", "600")
    document = json.loads(stdout)
    seen = {finding["subject"]["node"] for finding in document["findings"]}
    whole = seen - {entry["node"] for entry in document["incomplete"]}
    unknown = sum(finding["status"] == "unknown" for finding in document["findings"])
    return Measured(seconds, len(whole), f"{len(document['findings'])} findings, {unknown} of them unknown")


def _setup(lab: Lab, inventory: Path, sockets: Path) -> Measured:
    command = (sys.executable, "-m", "ansible", "adhoc", "all", "-m", "setup", "-i", str(inventory))
    environment = {
        "ANSIBLE_CONFIG": str(content_root() / "ansible.cfg"),
        # Its own for each run: no connection is left over from the one before.
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "LC_ALL": "C.UTF-8",
        "PYTHONUTF8": "1",
    }
    seconds, stdout, _ = _timed(lab, *command, "-f", str(AT_ONCE), environment=environment)
    return Measured(seconds, stdout.count(" | SUCCESS => {"), f"{len(stdout)} bytes of facts")


def _timed(lab: Lab, *command: str, environment: dict[str, str] | None = None) -> tuple[float, str, str]:
    argv = lab.command(*command, environment=environment)
    began = time.monotonic()
    # To files: a pipe that nobody empties fast enough would be measured too.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        subprocess.run(argv, stdout=out, stderr=err, stdin=subprocess.DEVNULL, timeout=RUN_DEADLINE_S)
        seconds = time.monotonic() - began
        out.seek(0)
        err.seek(0)
        return seconds, out.read(), err.read()


@contextmanager
def _room_for(nodes: int) -> Iterator[None]:
    """A setting of this machine, put back afterwards."""
    before = _INOTIFY.read_text(encoding="ascii")
    wanted = max(int(before), _INSTANCES_A_NODE * nodes)
    _INOTIFY.write_text(str(wanted), encoding="ascii")
    try:
        yield
    finally:
        _INOTIFY.write_text(before, encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
