"""Measures `pdctl provision` on lab nodes: against plain ansible-playbook over the same roles, and a second run with --drift.

usage: python -m tests.bench.provision [--nodes N] [--repeat R] [--tags TAGS]

Prints a table. Of each the median of R runs (seconds, wall clock) and their range; runs of the kinds take turns, so that
another load on the machine meets all of them. The doctor's look after a run is told apart.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.lab.conftest import prepare
from tests.lab.nodes import Lab
from tests.lab.site import Site

from pdctl.content import content_root
from pdctl.provisioning.options import default_forks

_DEADLINE_S = 1800.0
_AT_ONCE = 10
# systemd of a node takes about five; the kernel's usual limit is 128.
_WATCHES_A_NODE = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tags", help="only these roles, in all kinds of runs: fifty nodes take long")
    given = parser.parse_args()
    tags = ["--tags", given.tags] if given.tags else []
    if missing := prepare() or _too_few_watches(given.nodes):
        print(f"error: {missing}", file=sys.stderr)
        return 2
    with Lab() as lab, tempfile.TemporaryDirectory() as folder:
        names = [f"n{number}" for number in range(1, given.nodes + 1)]
        for at in range(0, len(names), _AT_ONCE):
            lab.up(names[at : at + _AT_ONCE])
        site = Site(lab, Path(folder), {"prefill": names})
        first = _pdctl(site, *tags)
        print(
            f"{given.nodes} nodes, {given.tags or 'all roles'}, {default_forks()} forks;"
            f" the first run, which changed them: {first['run']:.1f} s",
            flush=True,
        )
        _report(_measured(site, given.repeat, tags))
    return 0


def _too_few_watches(nodes: int) -> str | None:
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text(encoding="ascii"))
    if limit >= nodes * _WATCHES_A_NODE:
        return None
    return (
        f"{nodes} nodes do not boot here: first `sysctl -w fs.inotify.max_user_instances={nodes * 2 * _WATCHES_A_NODE}`"
    )


def _measured(site: Site, repeat: int, tags: Sequence[str]) -> Mapping[str, list[float]]:
    kinds: Mapping[str, Callable[[Site], Mapping[str, float]]] = {
        "ansible-playbook": lambda site: _bare(site, *tags),
        "pdctl provision": lambda site: _pdctl(site, *tags),
        "pdctl provision --drift": lambda site: _pdctl(site, *tags, "--drift"),
    }
    seconds: dict[str, list[float]] = {}
    for _ in range(repeat):
        for kind, measure in kinds.items():
            for part, value in measure(site).items():
                print(f"{kind}, {part}: {value:.1f} s", flush=True)
                seconds.setdefault(kind if part == "run" else f"{kind}, {part}", []).append(value)
    return seconds


def _pdctl(site: Site, *options: str) -> Mapping[str, float]:
    began = time.monotonic()
    process = site.start(site.ini(), "-o", "json", *options)
    try:
        said, complained = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    whole = time.monotonic() - began
    if process.returncode != 0:
        raise RuntimeError(f"pdctl provision: exit {process.returncode}\n{said}{complained}")
    doctor = float(json.loads(said)["run"]["verify_s"])
    return {"run": whole - doctor} if "--drift" in options else {"run": whole - doctor, "the doctor's look": doctor}


def _bare(site: Site, *options: str) -> Mapping[str, float]:
    """The same playbook with the same forks; an id of a run, so that the roles `backup` and `guard` do the same work."""
    root = content_root()
    run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-00000a"
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as sockets:
        environment = {
            "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
            "LC_ALL": "C.UTF-8",
            # No connection of an earlier run is shared, as with pdctl.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        argv = (program, "-i", str(site.ini()), str(root / "playbooks/provision.yml"), "-e", f"backup_run={run}")
        began = time.monotonic()
        site.lab.run(*argv, *options, "--forks", str(default_forks()), environment=environment, timeout_s=_DEADLINE_S)
        return {"run": time.monotonic() - began}


def _report(seconds: Mapping[str, list[float]]) -> None:
    rows = {kind: statistics.median(values) for kind, values in seconds.items()}
    print("\n| | median s | range s |\n| --- | --- | --- |")
    for kind, values in seconds.items():
        print(f"| {kind} | {rows[kind]:.1f} | {min(values):.1f} to {max(values):.1f} |")
    plain = rows["pdctl provision"]
    print(f"\npdctl provision / ansible-playbook: {plain / rows['ansible-playbook']:.2f}")
    print(f"--drift / a plain second run: {rows['pdctl provision --drift'] / plain:.2f}")


if __name__ == "__main__":
    sys.exit(main())
