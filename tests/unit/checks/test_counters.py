"""What grew between two readings of a port's counters."""

from pdchecks.counters import Reading, nic_readings, rdma_readings
from pdchecks.evidence import by_node, read_blocks
from pdchecks.finding import Status
from pdchecks.nodefacts import NodeFacts, gather


def _node(*outputs: tuple[str, str]) -> NodeFacts:
    text = "".join(f"=== cmd: {command}\n=== rc: 0\n{output}\n=== end\n" for command, output in outputs)
    return gather(by_node(read_blocks(text), "node")[0])


def _ethtool(**counters: int) -> str:
    return "NIC statistics:\n" + "\n".join(f"     {name}: {value}" for name, value in counters.items())


def _nic(*outputs: tuple[str, str]) -> Reading:
    (reading,) = nic_readings(_node(*outputs))
    return reading


def test_two_readings_of_one_interface_give_growth_and_the_time_between() -> None:
    reading = _nic(
        ("ethtool -S eth0", _ethtool(rx_packets=10, rx_discards_phy=3)),
        ("sleep 12.50; ethtool -S eth0", _ethtool(rx_packets=25, rx_discards_phy=3)),
    )
    assert (reading.grown, reading.seconds) == ({"rx_packets": 15, "rx_discards_phy": 0}, 12.5)
    assert reading.since == "in 12.5 s"
    assert reading.at_most(Status.FAIL, 1800) is Status.FAIL


def test_a_gauge_that_fell_has_no_growth_and_takes_none_from_the_others() -> None:
    reading = _nic(
        ("ethtool -S eth0", _ethtool(rx_packets=10, outbound_pci_stalled_wr=7)),
        ("sleep 10; ethtool -S eth0", _ethtool(rx_packets=11, outbound_pci_stalled_wr=0)),
    )
    assert reading.grown == {"rx_packets": 1}


def test_one_reading_has_an_unknown_age_and_bears_a_warning_at_most() -> None:
    reading = _nic(("ethtool -S eth0", _ethtool(rx_discards_phy=3)))
    assert reading.grown is None
    assert "unknown" in reading.since
    assert reading.at_most(Status.FAIL, 1800) is Status.WARN
    assert reading.at_most(Status.INFO, 1800) is Status.INFO


def test_counters_of_a_node_that_booted_just_now_cannot_be_old() -> None:
    counters = ("ethtool -S eth0", _ethtool(rx_discards_phy=3))
    young = _nic(counters, ("cat /proc/uptime", "1260.12 9000.10"))
    assert young.at_most(Status.FAIL, 1800) is Status.FAIL
    assert "at most 21 min ago" in young.since
    old = _nic(counters, ("uptime", " 10:00:00 up 3 days,  2:11,  1 user,  load average: 0.00, 0.01, 0.05"))
    assert old.at_most(Status.FAIL, 1800) is Status.WARN
    assert "at most 3 days ago" in old.since


def test_a_saturated_counter_shows_no_growth() -> None:
    path = "/sys/class/infiniband/mlx5_0/ports/1/counters"
    lines = f"{path}/symbol_error:65535\n{path}/link_downed:2"
    (reading,) = rdma_readings(_node(("grep -sH '' x", lines), ("sleep 10; grep -sH '' x", lines)))
    assert reading.grown == {"link_downed": 0}


def test_what_was_never_idle_is_told_from_what_was() -> None:
    idle = _nic(
        ("ethtool -S eth0", _ethtool(rx_prio3_packets=7)), ("sleep 10; ethtool -S eth0", _ethtool(rx_prio3_packets=7))
    )
    assert idle.moved(["rx_prio3_packets"]).grown is None
    assert idle.recent == {"rx_prio3_packets": 0}
