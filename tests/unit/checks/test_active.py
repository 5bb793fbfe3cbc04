"""Active tests are planned from facts: who meets whom, from which address, with packets of what size."""

from ipaddress import IPv4Address
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checks.reports import POLICY

from pdchecks.active.commands import Line, pings
from pdchecks.active.ends import End, ends
from pdchecks.active.marker import bare, is_active, marked, peer_of
from pdchecks.active.plan import BANDWIDTH, DF_PING, KV_ECHO, TESTS, Plan, make
from pdchecks.active.rounds import rounds
from pdchecks.evidence import Block, Evidence
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.policy import Policy
from pdchecks.roce import netdev_mtu_for

ROCE = netdev_mtu_for(POLICY.values.fabric.mtu.roce)
_IP = (
    "{n}: {name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {mtu} qdisc mq state UP group default qlen 1000\n"
    "    inet {address} scope global {name}\n"
)


def _node(name: str, *interfaces: tuple[str, int, str], rdma: bool = False) -> NodeFacts:
    """interfaces: name, MTU, address with prefix. rdma: each carries a device mlx5_N with a RoCE v2 GID at index 3."""
    shown = "".join(_IP.format(n=n, name=i[0], mtu=i[1], address=i[2]) for n, i in enumerate(interfaces, 2))
    blocks = [Block("ip addr show", 0, shown.rstrip("\n"))]
    if rdma:
        links = [
            f"link mlx5_{n}/1 state ACTIVE physical_state LINK_UP netdev {i[0]} " for n, i in enumerate(interfaces)
        ]
        gids = "".join(
            f"/sys/class/infiniband/mlx5_{n}/ports/1/gids/3:{_gid(i[2])}\n"
            f"/sys/class/infiniband/mlx5_{n}/ports/1/gid_attrs/types/3:RoCE v2\n"
            f"/sys/class/infiniband/mlx5_{n}/ports/1/gid_attrs/ndevs/3:{i[0]}\n"
            for n, i in enumerate(interfaces)
        )
        blocks += [Block("rdma link show", 0, "\n".join(links)), Block("grep -sH '' gids", 0, gids.rstrip("\n"))]
    else:
        blocks.append(
            Block("ls /sys/class/infiniband", 2, "ls: cannot access '/sys/class/infiniband': No such file or directory")
        )
    return gather(Evidence(name, tuple(blocks)))


def _gid(address: str) -> str:
    a, b, c, d = IPv4Address(address.split("/")[0]).packed
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def _policy(node: str) -> Policy:
    return POLICY


def _plan(*nodes: NodeFacts, checks: tuple[str, ...] = tuple(TESTS), serving: tuple[str, ...] = ()) -> Plan:
    return make(nodes, _policy, {}, checks, serving)


@given(st.integers(0, 40))
def test_every_pair_meets_once_and_nobody_is_in_two_tests_at_a_time(number: int) -> None:
    made = rounds(range(number))
    met = [tuple(sorted(pair)) for pairs in made for pair in pairs]
    assert sorted(met) == list(combinations(range(number), 2))
    for pairs in made:
        players = [player for pair in pairs for player in pair]
        assert len(players) == len(set(players))
    assert len(made) == (max(0, number - 1) if number % 2 == 0 else number)


def test_a_block_of_an_active_test_says_between_whom_it_ran() -> None:
    asked, served = marked("ping 192.0.2.1", "decode-1"), marked("ib_write_bw", "prefill-1", served=True)
    assert (peer_of(asked), peer_of(asked, served=True), bare(asked)) == ("decode-1", "", "ping 192.0.2.1")
    assert (peer_of(served), peer_of(served, served=True)) == ("", "prefill-1")
    assert not is_active("ping 192.0.2.1   # by hand")


def test_rails_meet_rails_with_packets_of_roces_size_whatever_their_mtu() -> None:
    one = _node("p1", ("ens1", 1500, "198.51.100.1/24"), ("ens2", 9000, "203.0.113.1/24"), rdma=True)
    other = _node("d1", ("ens1", 9000, "203.0.113.2/24"), ("ens2", 9000, "198.51.100.2/24"), rdma=True)
    found = [(a.netdev, str(b.address), a.size) for a, b in ends(one, other, (POLICY, POLICY), ("", ""))]
    assert found == [("ens1", "198.51.100.2", ROCE), ("ens2", "203.0.113.2", ROCE)]


def test_routed_rails_meet_by_their_order() -> None:
    one = _node("p1", ("ens1", 9000, "198.51.100.1/31"), ("ens2", 9000, "198.51.100.3/31"), rdma=True)
    other = _node("d1", ("ens1", 9000, "203.0.113.1/31"), ("ens2", 9000, "203.0.113.3/31"), rdma=True)
    found = [str(b.address) for _, b in ends(one, other, (POLICY, POLICY), ("", ""))]
    assert found == ["203.0.113.1", "203.0.113.3"]


def test_without_rails_each_end_sends_what_its_own_interface_promises() -> None:
    one, other = _node("p1", ("eth0", 9000, "192.0.2.1/24")), _node("d1", ("eth0", 1500, "192.0.2.2/24"))
    ((a, b),) = ends(one, other, (POLICY, POLICY), ("", ""))
    assert (a.size, b.size) == (9000, 1500)


def test_nodes_that_share_no_subnet_meet_where_they_are_reached_or_say_why_not() -> None:
    one, other = _node("p1", ("eth0", 1500, "192.0.2.1/24")), _node("d1", ("eth0", 1400, "203.0.113.2/24"))
    ((a, b),) = ends(one, other, (POLICY, POLICY), ("192.0.2.1", "203.0.113.2"))
    assert (a.netdev, a.size, b.size) == ("", 1500, 1400)
    made = _plan(one, other)
    assert made.pairs == 0
    said = {(node, block.output) for node, block in made.left_out if "ping" in block.command}
    why = "pdctl: not run, this node and d1 share no IPv4 subnet, nor are both reached by an address of their own"
    assert said == {("p1", why)}


def test_a_rail_is_measured_both_ways_with_the_gid_of_each_end() -> None:
    one = _node("p1", ("ens1", 9000, "198.51.100.1/24"), rdma=True)
    other = _node("d1", ("ens1", 9000, "198.51.100.2/24"), rdma=True)
    ((meeting,),) = _plan(one, other, checks=(BANDWIDTH,)).rounds
    assert [(talk.client, talk.server) for talk in meeting.talks] == [("p1", "d1"), ("d1", "p1")]
    there, back = meeting.talks
    assert there.ask.shell.startswith("ib_write_bw -d mlx5_0 -i 1 -x 3 ") and there.ask.shell.endswith(" 198.51.100.2")
    assert "$bind=198.51.100.2 " in there.serve.shell
    assert there.serve.label.split("-p ")[1] != back.serve.label.split("-p ")[1]


def test_a_node_without_a_device_or_with_an_active_engine_is_left_out_by_name() -> None:
    nodes = [_node(f"n{n}", ("eth0", 1500, f"192.0.2.{n}/24")) for n in (1, 2, 3)]
    made = _plan(*nodes, serving=("n2",))
    assert made.serving == ("n2",)
    assert [meeting.nodes for meetings in made.rounds for meeting in meetings] == [("n1", "n3")]
    reasons = {(node, block.command.split()[0], block.output) for node, block in made.left_out}
    engine = "pdctl: not run, an engine is active on this node (--while-serving)"
    assert {("n2", "ping", engine), ("n2", "ib_write_bw", engine), ("n2", "pdctl", engine)} <= reasons
    assert ("n1", "ib_write_bw", "pdctl: not run, there is no RDMA device on this node") in reasons


def test_only_what_was_asked_for_is_run_and_told() -> None:
    nodes = [_node(f"n{n}", ("eth0", 1500, f"192.0.2.{n}/24")) for n in (1, 2)]
    (pairs, load), _ = (_plan(*nodes, checks=(DF_PING,)).load, None)
    assert "1 pair(s)" in pairs and load.startswith("DF pings: 2 times")
    assert [line.split(":")[0] for line in _plan(*nodes, checks=(KV_ECHO,)).load][1:] == ["KV echo"]


@pytest.mark.parametrize("word", ["a b", "$(reboot)", "';x"])
def test_nothing_of_a_name_becomes_a_command(word: str) -> None:
    small, large = pings(End(word, IPv4Address("192.0.2.1"), "", 1500), word, IPv4Address("192.0.2.2"))
    quoted = "'" + word.replace("'", "'\"'\"'") + "'"
    assert f"-I {quoted} 192.0.2.2" in large.shell
    assert isinstance(small, Line)
