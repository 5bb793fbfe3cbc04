"""A policy value that no node can have is refused by the name of its file and its key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdchecks.policy import Layer, Policy, PolicyError, read_layer, resolve

SHIPPED = read_layer(Path(__file__).parents[3] / "roles" / "policy" / "files" / "policy.yml")


def _with(text: str) -> Policy:
    site: Mapping[str, Any] = yaml.safe_load(text)
    return resolve([SHIPPED, Layer("site/policy.yml", site)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fabric: {lossless_priority: 9}", "`fabric.lossless_priority` must be at most 7, not `9`"),
        ("fabric: {dscp: 99}", "`fabric.dscp` must be at most 63, not `99`"),
        ("fabric: {cnp: {dscp: -1}}", "`fabric.cnp.dscp` must be at least 0, not `-1`"),
        ("fabric: {mtu: {netdev: -5}}", "`fabric.mtu.netdev` must be at least 68, not `-5`"),
        ("fabric: {mtu: {netdev: 70000}}", "`fabric.mtu.netdev` must be at most 65535, not `70000`"),
        ("fabric: {mtu: {roce: 4200}}", "`fabric.mtu.roce` must be one of 256, 512, 1024, 2048, 4096, not `4200`"),
        ("fabric: {trust: both}", "`fabric.trust` must be `dscp` or `pcp`, not `both`"),
        ("fabric: {cable_length_m: 0}", "`fabric.cable_length_m` must be at least 1, not `0`"),
        ("fabric: {gid: {subnets: [10.0.0.300]}}", "`fabric.gid.subnets.0` must be an address or a subnet"),
        ("fabric: {rails: ['eth0; reboot']}", "`fabric.rails.0` must be the name of an interface"),
        ("fabric: {addresses: {r0: [10.0.0.7]}}", "`fabric.addresses.r0.0` must be an address with its prefix length"),
        (
            "fabric: {addresses: {r0: [10.0.0.0/24]}}",
            "`fabric.addresses.r0.0` must be an address of one host: this is the s",
        ),
        (
            "fabric: {addresses: {r0: [10.0.0.255/24]}}",
            "`fabric.addresses.r0.0` must be an address of one host: this is the b",
        ),
        ("fabric: {addresses: {r0: [127.0.0.1/8]}}", "`fabric.addresses.r0.0` must be an address of one host"),
        ("fabric: {addresses: {r0: ['fe80::1/64']}}", "`fabric.addresses.r0.0` must be an address that routes"),
        ("fabric: {addresses: {r0: []}}", "`fabric.addresses.r0` must be a list of at least one address, or null"),
        (
            "fabric: {addresses: {r0: [10.0.0.1/24, 10.0.0.1/16]}}",
            "`fabric.addresses.r0` must be a list that names each",
        ),
        ("fabric: {addresses: {a/b: [10.0.0.1/24]}}", "`fabric.addresses.a/b` must be the name of an interface"),
        ("confirm: {window_s: 0}", "`confirm.window_s` must be at least 1"),
        ("switch: {mtu: 10000}", "`switch.mtu` must be at most 9216"),
        ("switch: {roce_bandwidth_percent: 120}", "`switch.roce_bandwidth_percent` must be at most 100"),
        ("switch: {ecn: {min_bytes: -1}}", "`switch.ecn.min_bytes` must be at least 0"),
        (
            "firmware: {families: {connectx-7: {minimum: newest}}}",
            "`firmware.families.connectx-7.minimum` must be a version",
        ),
        ("sysctl: {../../etc/shadow: 1}", "`sysctl.../../etc/shadow` must be the name of a kernel setting"),
        ("sysctl: {/etc/shadow: 1}", "`sysctl./etc/shadow` must be the name of a kernel setting"),
        ("sysctl: {net//core: 1}", "`sysctl.net//core` must be the name of a kernel setting"),
        ('sysctl: {net.core.somaxconn: "1\\nkernel.panic = 1"}', "`sysctl.net.core.somaxconn` must be one line"),
        ("limits: {memlock: lots}", "`limits.memlock` must be a whole number from 0 on, or `unlimited`, not `lots`"),
        ("limits: {nofile: -1}", "`limits.nofile` must be a whole number from 0 on"),
        ("hugepages: {pages: -1}", "`hugepages.pages` must be at least 0"),
        ("modules: {load: [../evil]}", "`modules.load.0` must be a name of letters"),
        ("modules: {options: {'mlx5 core': {}}}", "`modules.options.mlx5 core` must be a name of letters"),
        ("gpu: {compute_mode: Shared}", "`gpu.compute_mode` must be `Default`, `Exclusive_Process` or `Prohibited`"),
        ("engine: {peers: [router]}", "`engine.peers.0` must be an address or a subnet"),
        ("counters: {pause_warn: 1.5}", "`counters.pause_warn` must be at most 1"),
        ("counters: {retransmission_ratio: .nan}", "`counters.retransmission_ratio` must be a finite number"),
        ("serving: {kv_full: 1.2}", "`serving.kv_full` must be at most 1"),
        ("serving: {at_least: 0}", "`serving.at_least` must be at least 1"),
        ("perf: {bandwidth_share: 0}", "`perf.bandwidth_share` must be more than 0"),
        ("pcie: {corrected_storm: 0}", "`pcie.corrected_storm` must be at least 1"),
        ("sysctl: {net.ipv4.tcp_rmem: [1, 2]}", "`sysctl.net.ipv4.tcp_rmem` must be "),
        ("1: 2", "`1` must be a key that is text, not `1`"),
        ("sysctl: {1: 2}", "`sysctl.1` must be text, not `1`"),
        ("time: {servers: ['-x']}", "`time.servers.0` must be a name or an address"),
    ],
)
def test_a_value_out_of_range_names_its_origin_and_its_key(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        _with(text)
    assert str(caught.value).startswith(f"site/policy.yml: {says}")


@pytest.mark.parametrize(
    "text",
    [
        "sysctl: {net.ipv4.conf.eth0/100.rp_filter: 0, net/core/rmem_max: null, kernel.sched_rt_runtime_us: -1}",
        "fabric: {rails: [eth0.100, bond0, enp94s0f0np0], gid: {subnets: [10.1.2.3/16, 'fd00::/8']}}",
        "fabric: {addresses: {r0: [10.0.0.1/24, 10.0.0.2/31, 10.0.0.4/32, 'fd00::/127'], r1: null}}",
        "limits: {memlock: 67108864, nofile: '65536'}",
        "engine: {peers: [10.0.0.7, 'fd00::7'], wheelhouse: /srv/wheels}",
        "time: {servers: [ntp.example.net, 10.0.0.1, '::1']}",
        "modules: {options: {mlx5_core: {prof_sel: 2}}, devlink: {enable_roce: true}}",
        "switch: {mtu: null, ecn: {probability_percent: 0}}",
    ],
)
def test_what_nodes_really_have_is_taken(text: str) -> None:
    assert _with(text).values
