"""Soft RoCE on machines: the MTU that it offers, and real RDMA writes between two."""

import pytest
from tests.lab.vm import rdma
from tests.lab.vm.machine import VirtualMachine

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DSCP, PRIORITY = 26, 3


def test_the_roce_mtu_follows_the_card_and_leaves_room_for_headers(vm: VirtualMachine) -> None:
    rdma.add_rxe(vm)
    assert rdma.port(vm)["state"].startswith("PORT_ACTIVE")
    assert rdma.port(vm)["active_mtu"].startswith("4096")
    vm.ssh("ip link set eth1 mtu 4096")
    assert rdma.port(vm)["active_mtu"].startswith("2048")


@pytest.mark.usefixtures("soak")
def test_writes_between_two_machines_arrive_in_the_priority_of_their_dscp(
    pair: tuple[VirtualMachine, VirtualMachine],
) -> None:
    server, client = pair
    for vm in pair:
        vm.restore()
        rdma.add_rxe(vm)
        vm.ssh(f"modprobe labdcb && dcb app add dev eth1 dscp-prio {DSCP}:{PRIORITY}")
    result = rdma.write_bandwidth(server, client, iterations=200, tos=DSCP << 2)
    assert result.iterations == 200
    assert result.mb_per_s > 0
    received = server.ssh(f"ethtool -S eth1 | sed -n 's/.*rx_prio{PRIORITY}_bytes: //p'")
    assert int(received) > 200 * result.message_bytes


@pytest.mark.usefixtures("soak")
def test_lost_packets_are_sent_again_and_counted(pair: tuple[VirtualMachine, VirtualMachine]) -> None:
    server, client = pair
    for vm in pair:
        vm.restore()
        rdma.add_rxe(vm)
    client.ssh("tc qdisc add dev eth1 root netem loss 5%")
    rdma.write_bandwidth(server, client, iterations=100)
    statistics = client.ssh(f"rdma -j -p statistic show link {rdma.RXE}/1")
    retried = [
        int(word.rstrip(","))
        for line in statistics.splitlines()
        if "completer_retry_err" in line
        for word in line.split()[1:]
    ]
    assert sum(retried) > 0
