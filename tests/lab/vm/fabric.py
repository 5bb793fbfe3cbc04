"""A machine as the policy wants it: sysctls by pdctl, RoCE and bridging state on its data card, a clock that is kept."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.lab.vm import rdma
from tests.lab.vm.machine import Card, VirtualMachine

PDCTL = Path(sys.executable).with_name("pdctl")
POLICY = Path(__file__).parents[3] / "roles/policy/files/policy.yml"
POLICY_VALUES: dict[str, Any] = yaml.safe_load(POLICY.read_text(encoding="utf-8"))
FIT = "fit"
CONTROLLER = "10.77.0.1"
# Of one run of pdctl against an emulated machine, beside other work.
_DEADLINE_S = 3600.0


def make_fit(vm: VirtualMachine) -> None:
    """Converge the machine's sysctls, set up its fabric, and remember it as the snapshot `FIT`.

    Only what a machine is for: containers converge every role in a tenth of the time (tests/lab/test_converge.py).
    """
    inventory = str(vm.lab.inventory(vm))
    vm.lab.run(str(PDCTL), "provision", inventory, "--tags", "sysctl", timeout_s=_DEADLINE_S)
    set_up(vm)
    keep_time(vm)
    vm.snapshot(FIT)


def set_up(vm: VirtualMachine) -> None:
    """A soft RoCE device on the data card, and on the card what the policy's `fabric` says of QoS."""
    fabric = POLICY_VALUES["fabric"]
    card, lossless = Card.DATA.device, fabric["lossless_priority"]
    pause = "on" if fabric["global_pause"] else "off"
    rdma.add_rxe(vm)
    vm.ssh(
        f"modprobe labdcb && ethtool -A {card} rx {pause} tx {pause} && "
        f"dcb app add dev {card} dscp-prio {fabric['dscp']}:{lossless} {fabric['cnp']['dscp']}:{fabric['cnp']['priority']} && "
        f"dcb pfc set dev {card} prio-pfc all:off {lossless}:on && "
        f"dcb ets set dev {card} tc-tsa all:ets tc-bw 0:50 1:0 2:0 3:50 4:0 5:0 6:0 7:0 prio-tc {lossless}:{lossless}"
    )


def keep_time(vm: VirtualMachine) -> None:
    """chrony on the machine, in step with a time server on the controller.

    It steps the clock at its first update only, as on a machine that has been up for a while.
    """
    server = serve_time(vm)
    vm.ssh(
        f"echo 'server {CONTROLLER} iburst minpoll 1 maxpoll 2' >/etc/chrony/sources.d/lab.sources && "
        "sed -i 's/^makestep .*/makestep 1 1/' /etc/chrony/chrony.conf && "
        "systemctl start chrony && chronyc waitsync 60 0.5 0 1",
        timeout_s=_DEADLINE_S,
    )
    if server.poll() is not None:
        raise RuntimeError(f"the time server ended: {server.communicate()[1]}")


def serve_time(vm: VirtualMachine) -> subprocess.Popen[str]:
    """A time server on the controller; it ends with the lab."""
    return vm.lab.start(sys.executable, str(Path(__file__).with_name("timeserver.py")), CONTROLLER)


def ask(vm: VirtualMachine, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of a pdctl command on the controller. Raises RuntimeError where there is no document."""
    process = vm.lab.start(str(PDCTL), *arguments, "-o", "json")
    try:
        stdout, stderr = process.communicate(timeout=_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    if not stdout.startswith("{"):
        raise RuntimeError(f"pdctl {arguments[0]}: exit {process.returncode}\n{stderr}")
    return process.returncode, json.loads(stdout)


def diagnose(vm: VirtualMachine, policy: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The findings of `pdctl doctor` on the machine, of a site with this policy.

    Raises RuntimeError when it did not see all of it.
    """
    patient = ("--timeout", "900", "--interval", "0")
    _code, document = ask(vm, "doctor", str(vm.lab.inventory(vm, policy=policy)), *patient)
    late = [finding["summary"] for finding in document["findings"] if "used up" in finding["summary"]]
    if document["incomplete"] or late:
        raise RuntimeError(f"pdctl doctor did not see all of {vm.name}: {document['incomplete']} {late[:1]}")
    findings: list[dict[str, Any]] = document["findings"]
    return findings
