"""Roles mtu, qos and dcqcn on a machine whose data card answers dcb: set, read back, refused, clamped, made again, rolled back."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.lab.vm import rdma
from tests.lab.vm.fabric import PDCTL, POLICY
from tests.lab.vm.machine import Card, VirtualMachine

from pdchecks.roce import xoff_bytes

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

CARD = Card.DATA.device
FABRIC = yaml.safe_load(POLICY.read_text(encoding="utf-8"))["fabric"]
LOSSLESS, MARK = FABRIC["lossless_priority"], FABRIC["dscp"] << 2
# An emulated machine takes its time to answer.
POLICY_OF_THE_SITE: Mapping[str, Any] = {"confirm": {"window_s": 600}}
RUN_DEADLINE_S = 900.0


@pytest.fixture
def vm(soak: None, machine: VirtualMachine) -> VirtualMachine:
    machine.restore()
    rdma.add_rxe(machine)
    # The card tells no speed of its own, and headroom is computed from it.
    machine.ssh(f"modprobe -a labdcb rdma_cm && ethtool -s {CARD} speed 100000 duplex full")
    return machine


def _pdctl(vm: VirtualMachine, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and the machine's part of the document."""
    process = vm.lab.start(str(PDCTL), *arguments, "-o", "json")
    try:
        stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    if not stdout.startswith("{"):
        raise RuntimeError(f"pdctl: exit {process.returncode}\n{stderr}")
    document = json.loads(stdout)
    (host,) = document["hosts"]
    return process.returncode, {**host, "run": document["run"]["id"]}


def _provision(vm: VirtualMachine, *options: str, policy: Mapping[str, Any] = POLICY_OF_THE_SITE) -> tuple[int, Any]:
    inventory: Path = vm.lab.inventory(vm)
    (inventory.parent / "policy.yml").write_text(yaml.safe_dump(dict(policy)), encoding="utf-8")
    return _pdctl(vm, "provision", str(inventory), "--tags", "mtu,qos,dcqcn", *options)


def _live(vm: VirtualMachine) -> str:
    """Everything that the roles may set, as the tools print it."""
    shows = " ; ".join(f"dcb -j -N {what} show dev {CARD}" for what in ("app", "pfc", "ets", "buffer", "dcbx"))
    kept = "find /usr/local/lib/pdctl /etc/udev/rules.d /etc/systemd/system -name '*pdctl*' 2>/dev/null | sort"
    return vm.ssh(f"{shows} ; ethtool -a {CARD} ; ip -o link show {CARD} | grep -o 'mtu [0-9]*' ; {kept} ; true")


def _pfc(vm: VirtualMachine) -> list[int]:
    shown = json.loads(vm.ssh(f"dcb -j pfc show dev {CARD}"))["prio_pfc"]
    return [priority for priority, on in enumerate(shown) if on]


def _changes(host: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(change["role"], change["task"]) for change in host["changes"]]


def test_qos_is_set_read_back_made_again_when_the_driver_forgot_it_and_rolled_back(vm: VirtualMachine) -> None:
    former = _live(vm)
    code, check = _provision(vm, "--check", "--diff")
    assert (code, check["problems"]) == (0, [])
    assert _live(vm) == former

    code, first = _provision(vm)
    assert (code, first["status"], first["problems"]) == (0, "changed", [])
    assert _changes(first) == _changes(check) != []
    fit = _live(vm)
    assert _pfc(vm) == [LOSSLESS]
    assert [FABRIC["dscp"], LOSSLESS] in json.loads(vm.ssh(f"dcb -j -N app show dev {CARD} dscp-prio"))["dscp_prio"]
    buffer = json.loads(vm.ssh(f"dcb -j buffer show dev {CARD}"))
    own = buffer["prio_buffer"][LOSSLESS]
    assert buffer["prio_buffer"].count(own) == 1
    mtu = FABRIC["mtu"]["netdev"]
    assert buffer["buffer_size"][own] >= xoff_bytes(100_000, FABRIC["cable_length_m"], mtu) + mtu
    assert "RX:\t\toff" in vm.ssh(f"ethtool -a {CARD}")
    tos = vm.ssh("cat /sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos")
    assert int(tos) & ~3 == MARK
    code, second = _provision(vm)
    assert (code, second["status"], second["changed"]) == (0, "ok", 0)

    # What a driver that is loaded again starts from; the unit is what a boot runs.
    vm.ssh("modprobe -r labdcb && modprobe labdcb && systemctl is-enabled pdctl-qos && systemctl start pdctl-qos")
    assert _live(vm) == fit

    code, rolled = _pdctl(vm, "runs", "rollback", first["run"])
    assert (code, rolled["problems"]) == (0, [])
    assert _live(vm) == former


def test_what_the_driver_refuses_without_a_word_is_refused_and_never_done(vm: VirtualMachine) -> None:
    """PFC is refused while 802.3x pause is on, which this site wants: dcb prints nothing and exits 0."""
    code, host = _provision(vm, policy={**POLICY_OF_THE_SITE, "fabric": {"global_pause": True}})
    assert (code, host["status"]) == (4, "partly")
    (refused,) = [problem for problem in host["problems"] if problem["key"] == f"pfc {CARD}"]
    assert (refused["outcome"], refused["wanted"], refused["live"]) == ("refused", str(LOSSLESS), "none")
    assert _pfc(vm) == []


def test_bonds_vlans_and_an_mtu_beyond_the_driver(vm: VirtualMachine) -> None:
    vm.ssh(
        f"ip link set {CARD} mtu 1500 && ip link add link {CARD} name {CARD}.7 type vlan id 7 && ip link set {CARD}.7 up"
    )
    rails = {"rails": [f"{CARD}.7"]}
    code, host = _provision(vm, "--tags", "mtu", policy={**POLICY_OF_THE_SITE, "fabric": rails})
    assert (code, host["problems"]) == (0, [])
    wanted = str(FABRIC["mtu"]["netdev"])
    assert vm.ssh(f"cat /sys/class/net/{CARD}/mtu /sys/class/net/{CARD}.7/mtu").split() == [wanted, wanted]
    # More than the policy lets anybody ask for, straight to the role.
    beyond = ("--tags", "mtu", "-e", json.dumps({"mtu_netdev": 70000}))
    code, host = _provision(vm, *beyond, policy={**POLICY_OF_THE_SITE, "fabric": rails})
    assert (code, host["status"]) == (4, "partly")
    assert {problem["live"] for problem in host["problems"]} == {int(wanted)}
    assert vm.ssh(f"cat /sys/class/net/{CARD}/mtu /sys/class/net/{CARD}.7/mtu").split() == [wanted, wanted]
