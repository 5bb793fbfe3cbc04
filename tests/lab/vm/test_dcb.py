"""Data centre bridging by dcb and ethtool, over real netlink to labdcb, and what those tools do not say."""

import json
from typing import Any

import pytest
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

PRIORITY, DSCP = 3, 26


@pytest.fixture
def vm(machine: VirtualMachine) -> VirtualMachine:
    """No restored snapshot is needed: loading labdcb again gives a card in its first state."""
    machine.ssh("modprobe -r labdcb")
    return machine


@pytest.fixture
def card(vm: VirtualMachine) -> str:
    vm.ssh("modprobe labdcb")
    return "eth1"


def _dcb(vm: VirtualMachine, what: str, card: str) -> Any:
    return json.loads(vm.ssh(f"dcb -j {what} show dev {card}"))


def _counters(vm: VirtualMachine, card: str) -> dict[str, int]:
    lines = vm.ssh(f"ethtool -S {card}").splitlines()
    return {key.strip(): int(value) for key, _, value in (line.partition(":") for line in lines) if value.strip()}


def test_a_plain_card_has_no_bridging_state(vm: VirtualMachine) -> None:
    assert "Operation not supported" in vm.ssh("dcb pfc show dev eth1 2>&1; true")


def test_what_is_set_is_what_is_shown(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"ethtool -A {card} rx off tx off")
    vm.ssh(f"dcb pfc set dev {card} prio-pfc {PRIORITY}:on")
    vm.ssh(f"dcb app add dev {card} dscp-prio {DSCP}:{PRIORITY}")
    vm.ssh(f"dcb ets set dev {card} tc-tsa all:strict prio-tc {PRIORITY}:1")
    assert [priority for priority, on in enumerate(_dcb(vm, "pfc", card)["prio_pfc"]) if on] == [PRIORITY]
    assert _dcb(vm, "app", card)["dscp_prio"] == [[DSCP, PRIORITY]]
    assert _dcb(vm, "ets", card)["prio_tc"][PRIORITY] == 1
    assert "RX:\t\toff" in vm.ssh(f"ethtool -a {card}")


def test_pfc_refused_because_of_global_pause_leaves_exit_code_zero_and_no_word(vm: VirtualMachine, card: str) -> None:
    assert vm.ssh(f"dcb pfc set dev {card} prio-pfc {PRIORITY}:on 2>&1; echo exit $?").strip() == "exit 0"
    assert not any(_dcb(vm, "pfc", card)["prio_pfc"])


def test_global_pause_is_refused_while_pfc_is_on(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"ethtool -A {card} rx off tx off; dcb pfc set dev {card} prio-pfc {PRIORITY}:on")
    assert vm.ssh(f"ethtool -A {card} rx on tx on 2>/dev/null; echo $?").strip() != "0"
    assert "RX:\t\toff" in vm.ssh(f"ethtool -a {card}")


def test_one_dscp_has_one_priority(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"dcb app add dev {card} dscp-prio {DSCP}:{PRIORITY}; dcb app add dev {card} dscp-prio {DSCP}:5")
    assert _dcb(vm, "app", card)["dscp_prio"] == [[DSCP, 5]]


def test_buffers_and_rates_are_rounded_without_a_word(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"dcb buffer set dev {card} buffer-size 1:100000 prio-buffer {PRIORITY}:1")
    vm.ssh(f"dcb maxrate set dev {card} tc-maxrate 1:1250mbit")
    assert _dcb(vm, "buffer", card)["buffer_size"][1] == 100096
    # dcb hands over bytes per second where the kernel's interface says kilobits: the card's step is 0.8 Mbit/s here.
    assert "1:1249Mbit" in vm.ssh(f"dcb maxrate show dev {card}")


def test_counters_of_a_priority_move_with_the_traffic_of_its_dscp(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"dcb app add dev {card} dscp-prio {DSCP}:{PRIORITY}")
    vm.ssh(f"ip neigh replace 10.78.0.200 lladdr 02:00:00:00:00:c8 dev {card}")
    before = _counters(vm, card)
    vm.ssh(f"ping -q -c 4 -i 0.2 -W 1 -Q {DSCP << 2} 10.78.0.200; ping -q -c 2 -i 0.2 -W 1 10.78.0.200; true")
    after = _counters(vm, card)
    key = f"tx_prio{PRIORITY}_packets"
    assert after[key] - before[key] == 4


def test_a_pause_storm_can_be_shown(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"echo 900000 >/sys/kernel/debug/labdcb/rx_prio{PRIORITY}_pause")
    assert _counters(vm, card)[f"rx_prio{PRIORITY}_pause"] == 900000
    assert f"{PRIORITY}:900000" in vm.ssh(f"dcb -s pfc show dev {card}")


def test_the_module_leaves_the_card_as_it_was(vm: VirtualMachine, card: str) -> None:
    vm.ssh(f"dcb app add dev {card} dscp-prio {DSCP}:{PRIORITY}; modprobe -r labdcb")
    assert "Operation not supported" in vm.ssh(f"dcb pfc show dev {card} 2>&1; true")
    assert "prio" not in vm.ssh(f"ethtool -S {card}")
