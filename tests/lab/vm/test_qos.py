"""Roles mtu, qos and dcqcn on a machine whose data card answers dcb: set, read back, refused, clamped, made again, rolled back."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from tests.lab.vm import rdma
from tests.lab.vm.fabric import POLICY_VALUES
from tests.lab.vm.machine import Card, VirtualMachine
from tests.lab.vm.provisioning import changes, pdctl, problem, provision

from pdchecks.roce import xoff_bytes

pytestmark = [pytest.mark.lab, pytest.mark.timeout(10800)]

CARD = Card.DATA.device
FABRIC = POLICY_VALUES["fabric"]
LOSSLESS, MARK = FABRIC["lossless_priority"], FABRIC["dscp"] << 2
FABRIC_TAGS = "mtu,qos,dcqcn"
TOS = f"/sys/kernel/config/rdma_cm/{rdma.RXE}/ports/1/default_roce_tos"


@pytest.fixture
def vm(soak: None, machine: VirtualMachine) -> VirtualMachine:
    machine.restore()
    rdma.add_rxe(machine)
    # The card tells no speed of its own, and headroom is computed from it.
    machine.ssh(f"modprobe -a labdcb rdma_cm && ethtool -s {CARD} speed 100000 duplex full")
    return machine


def _live(vm: VirtualMachine) -> str:
    """Everything that the roles may set, as the tools print it."""
    shows = " ; ".join(f"dcb -j -N {what} show dev {CARD}" for what in ("app", "pfc", "ets", "buffer", "dcbx"))
    kept = "find /usr/local/lib/pdctl /etc/udev/rules.d /etc/systemd/system -name '*pdctl*' 2>/dev/null | sort"
    return vm.ssh(f"{shows} ; ethtool -a {CARD} ; ip -o link show {CARD} | grep -o 'mtu [0-9]*' ; {kept} ; true")


def _pfc(vm: VirtualMachine) -> list[int]:
    shown = json.loads(vm.ssh(f"dcb -j pfc show dev {CARD}"))["prio_pfc"]
    return [priority for priority, on in enumerate(shown) if on]


def test_qos_is_set_read_back_made_again_when_the_driver_forgot_it_and_rolled_back(vm: VirtualMachine) -> None:
    former = _live(vm)
    code, check = provision(vm, "--check", "--diff", tags=FABRIC_TAGS)
    assert (code, check["problems"]) == (0, [])
    assert _live(vm) == former

    code, first = provision(vm, tags=FABRIC_TAGS)
    assert (code, first["status"], first["problems"]) == (0, "changed", [])
    assert changes(first) == changes(check) != []
    fit = _live(vm)
    assert _pfc(vm) == [LOSSLESS]
    assert [FABRIC["dscp"], LOSSLESS] in json.loads(vm.ssh(f"dcb -j -N app show dev {CARD} dscp-prio"))["dscp_prio"]
    buffer = json.loads(vm.ssh(f"dcb -j buffer show dev {CARD}"))
    own = buffer["prio_buffer"][LOSSLESS]
    assert buffer["prio_buffer"].count(own) == 1
    mtu = FABRIC["mtu"]["netdev"]
    assert buffer["buffer_size"][own] >= xoff_bytes(100_000, FABRIC["cable_length_m"], mtu) + mtu
    assert "RX:\t\toff" in vm.ssh(f"ethtool -a {CARD}")
    tos = vm.ssh(f"cat {TOS}")
    assert int(tos) & ~3 == MARK
    code, second = provision(vm, tags=FABRIC_TAGS)
    assert (code, second["status"], second["changed"]) == (0, "ok", 0)

    # What a driver that is loaded again starts from; the unit is what a boot runs.
    vm.ssh("modprobe -r labdcb && modprobe labdcb && systemctl is-enabled pdctl-qos && systemctl start pdctl-qos")
    assert _live(vm) == fit
    # Nobody starts it where a device appears again, as by a driver that was loaded again.
    marked = f'[ "$(cat {TOS})" = {tos.strip()} ]'
    vm.ssh(f"rdma link delete {rdma.RXE} && rdma link add {rdma.RXE} type rxe netdev {CARD}")
    vm.ssh(f"timeout 100 sh -c 'until {marked}; do sleep 1; done'")

    code, rolled = pdctl(vm, "runs", "rollback", first["run"])
    assert (code, rolled["problems"]) == (0, [])
    assert _live(vm) == former


def test_what_the_driver_refuses_without_a_word_is_refused_and_never_done(vm: VirtualMachine) -> None:
    """PFC is refused while 802.3x pause is on, which this site wants: dcb prints nothing and exits 0."""
    code, host = provision(vm, tags=FABRIC_TAGS, policy={"fabric": {"global_pause": True}})
    assert (code, host["status"]) == (4, "partly")
    refused = problem(host, f"pfc {CARD}")
    assert (refused["outcome"], refused["wanted"], refused["live"]) == ("refused", str(LOSSLESS), "none")
    assert _pfc(vm) == []


class TestBondAndVlan:
    """The rail is a VLAN on a bond of the card; by hand, so that whoever configures it is nobody."""

    BOND, VLAN = "bond0", "bond0.7"
    RAILS: Mapping[str, Any] = MappingProxyType({"fabric": {"rails": [VLAN]}})
    FORMER = 1500

    @pytest.fixture
    def vm(self, vm: VirtualMachine) -> VirtualMachine:
        vm.ssh(
            f"ip link add {self.BOND} type bond mode active-backup miimon 100 && ip link set {CARD} down && "
            f"ip link set {CARD} master {self.BOND} && ip link set {self.BOND} up && "
            f"ip addr add {vm.data_address}/24 dev {self.BOND} && "
            f"ip link add link {self.BOND} name {self.VLAN} type vlan id 7 && ip link set {self.VLAN} up"
        )
        assert self._mtus(vm) == [self.FORMER] * 3
        return vm

    def _mtus(self, vm: VirtualMachine) -> list[int]:
        return [int(mtu) for mtu in vm.ssh(f"cat /sys/class/net/{{{CARD},{self.BOND},{self.VLAN}}}/mtu").split()]

    def test_what_a_rail_stands_on_is_converged_with_it_once_and_goes_back(self, vm: VirtualMachine) -> None:
        former = _live(vm)
        code, first = provision(vm, tags=FABRIC_TAGS, policy=self.RAILS)
        assert (code, first["status"], first["problems"]) == (0, "changed", [])
        assert self._mtus(vm) == [FABRIC["mtu"]["netdev"]] * 3
        assert _pfc(vm) == [LOSSLESS]
        code, second = provision(vm, tags=FABRIC_TAGS, policy=self.RAILS)
        assert (code, second["status"], second["changed"]) == (0, "ok", 0)
        code, rolled = pdctl(vm, "runs", "rollback", first["run"])
        assert (code, rolled["problems"]) == (0, [])
        assert self._mtus(vm) == [self.FORMER] * 3
        assert _live(vm) == former

    def test_an_mtu_beyond_the_driver_is_refused_and_nothing_moves(self, vm: VirtualMachine) -> None:
        # More than the policy lets anybody ask for, straight to the role.
        beyond = ("-e", json.dumps({"mtu_netdev": 70000}))
        code, host = provision(vm, *beyond, tags="mtu", policy=self.RAILS)
        assert (code, host["status"]) == (4, "partly")
        assert problem(host, f"mtu {CARD}")["outcome"] == "refused"
        assert {each["live"] for each in host["problems"]} == {self.FORMER}
        assert self._mtus(vm) == [self.FORMER] * 3
