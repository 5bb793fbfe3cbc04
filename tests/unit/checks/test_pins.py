"""Which devices and GID a node's libraries should use."""

from tests.unit.checks.reports import POLICY

from pdchecks.evidence import by_node, read_blocks
from pdchecks.nodefacts import NodeFacts, gather
from pdchecks.pins import Pins, pins
from pdchecks.policy import Layer, read_layer, resolve
from pdctl.content import content_root
from pdctl.render.pins import environment_file

# Format: mlnx-tools show_gids, tabs between columns.
HEAD = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"


def _row(device: str, index: int, gid: str, ipv4: str, version: str, netdev: str) -> str:
    return f"{device}\t1\t{index}\t{gid}\t{ipv4}  \t{version}\t{netdev}\n"


def _table(*rows: str) -> str:
    return f"=== cmd: show_gids\n=== rc: 0\n{HEAD}{''.join(rows)}n_gids_found={len(rows)}\n=== end\n"


def _v2(device: str, index: int, last: int, netdev: str, net: str = "c000:02") -> str:
    dotted = "192.0.2" if net == "c000:02" else "198.51.100"
    return _row(device, index, f"0000:0000:0000:0000:0000:ffff:{net}{last:02x}", f"{dotted}.{last}", "v2", netdev)


LOCAL = _row("mlx5_0", 1, "fe80:0000:0000:0000:0a3f:0bff:fe0c:0d0e", "", "v2", "ens4f0np0")
V1 = _row("mlx5_0", 2, "0000:0000:0000:0000:0000:ffff:c000:0207", "192.0.2.7", "v1", "ens4f0np0")


def _node(text: str, name: str = "decode-1") -> NodeFacts:
    (evidence,) = by_node(read_blocks(text), name)
    return gather(evidence)


def _values(made: Pins) -> dict[str, str | None]:
    return {pin.name: pin.value for pin in made.pins}


def test_link_local_and_v1_entries_are_passed_over() -> None:
    made = pins(_node(_table(LOCAL, V1, _v2("mlx5_0", 3, 7, "ens4f0np0"))), POLICY)
    values = _values(made)
    assert values["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert values["UCX_NET_DEVICES"] == "mlx5_0:1"
    assert {values[f"{name}_GID_INDEX"] for name in ("NCCL_IB", "UCX_IB", "MC")} == {"3"}
    assert values["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "192.0.2.7"
    assert values["MC_IB_PORT"] == "1"
    assert all(pin.reason for pin in made.pins)


def test_the_traffic_class_is_the_policys_dscp_with_ect() -> None:
    policy = resolve(
        [read_layer(content_root() / "roles/policy/files/policy.yml"), Layer("x", {"fabric": {"dscp": 40}})]
    )
    values = _values(pins(_node(_table(_v2("mlx5_0", 3, 7, "ens4f0np0"))), policy))
    assert values["NCCL_IB_TC"] == values["UCX_IB_TRAFFIC_CLASS"] == "162"


def test_ports_that_need_different_indices_get_none_and_the_reason() -> None:
    made = pins(_node(_table(_v2("mlx5_0", 3, 7, "ens4f0np0"), _v2("mlx5_1", 5, 8, "ens5f0np0"))), POLICY)
    values = _values(made)
    assert values["NCCL_IB_GID_INDEX"] is None
    assert values["UCX_IB_GID_INDEX"] == "auto"
    assert "mlx5_0:1: 3, mlx5_1:1: 5" in {pin.name: pin.reason for pin in made.pins}["MC_GID_INDEX"]
    assert "# MC_GID_INDEX is left unset" in environment_file(made)
    assert "\nMC_GID_INDEX=" not in environment_file(made)


def test_an_index_that_all_ports_share_is_used_even_where_it_is_not_the_first() -> None:
    rows = (_v2("mlx5_0", 3, 7, "ens4f0np0"), _v2("mlx5_0", 5, 9, "ens4f0np0"), _v2("mlx5_1", 5, 8, "ens5f0np0"))
    assert _values(pins(_node(_table(*rows)), POLICY))["NCCL_IB_GID_INDEX"] == "5"


def test_a_port_that_is_down_or_outside_the_policys_subnets_is_left_out_and_named() -> None:
    down = "=== cmd: rdma link show\n=== rc: 0\nlink mlx5_1/1 state DOWN physical_state DISABLED netdev ens5f0np0 \n=== end\n"
    text = _table(_v2("mlx5_0", 3, 7, "ens4f0np0"), _v2("mlx5_1", 3, 8, "ens5f0np0")) + down
    made = pins(_node(text), POLICY)
    assert made.left_out == (("mlx5_1/1", "the port is DOWN"),)
    assert _values(made)["UCX_NET_DEVICES"] == "mlx5_0:1"
    shipped = read_layer(content_root() / "roles/policy/files/policy.yml")
    policy = resolve([shipped, Layer("x", {"fabric": {"gid": {"subnets": ["198.51.100.0/24"]}}})])
    nothing = pins(_node(text.replace("DOWN", "ACTIVE")), policy)
    assert nothing.rails == ()
    assert nothing.pins == ()
    assert all("198.51.100.0/24" in why for _, why in nothing.left_out)


def test_a_peers_subnet_decides_between_two_good_gids() -> None:
    rows = (_v2("mlx5_0", 3, 7, "ens4f0np0"), _v2("mlx5_0", 5, 7, "ens4f0np0.100", "c633:64"))
    addresses = (
        "=== cmd: ip addr show\n=== rc: 0\n"
        "2: ens4f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000\n"
        "    link/ether 02:00:00:00:00:07 brd ff:ff:ff:ff:ff:ff\n"
        "    inet 192.0.2.7/24 brd 192.0.2.255 scope global ens4f0np0\n"
        "3: ens4f0np0.100@ens4f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP group default\n"
        "    link/ether 02:00:00:00:00:07 brd ff:ff:ff:ff:ff:ff\n"
        "    inet 198.51.100.7/24 brd 198.51.100.255 scope global ens4f0np0.100\n=== end\n"
    )
    node = _node(_table(*rows) + addresses)
    peer = _node(_table(_v2("mlx5_0", 9, 9, "ens4f0np0", "c633:64")), "prefill-1")
    assert _values(pins(node, POLICY))["NCCL_IB_GID_INDEX"] == "3"
    assert _values(pins(node, POLICY, [peer]))["NCCL_IB_GID_INDEX"] == "5"


def test_ends_with_different_path_mtus_get_the_smaller_for_mooncake() -> None:
    def mtu(active: str) -> str:
        return (
            "=== cmd: ibv_devinfo -d mlx5_0\n=== rc: 0\nhca_id:\tmlx5_0\n\tphys_port_cnt:\t1\n\t\tport:\t1\n"
            f"\t\t\tstate:\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t4096 (5)\n\t\t\tactive_mtu:\t{active}\n"
            "\t\t\tlink_layer:\tEthernet\n=== end\n"
        )

    table = _table(_v2("mlx5_0", 3, 7, "ens4f0np0"))
    mine, other = _node(table + mtu("4096 (5)")), _node(table + mtu("1024 (3)"), "prefill-1")
    assert _values(pins(mine, POLICY, [other]))["MC_MTU"] == "1024"
    assert "MC_MTU" not in _values(pins(mine, POLICY, [mine]))
