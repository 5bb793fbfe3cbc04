"""`pdctl doctor --active` between real nodes: it finds what no node sees by itself, says what it will do, and spares engines."""

from collections.abc import Mapping
from ipaddress import IPv4Address

import pytest
from tests.lab.nodes import Lab
from tests.lab.site import Ran, Site

from pdchecks.active.commands import bandwidth, serve_bandwidth
from pdchecks.active.ends import End
from pdchecks.collector import script_of
from pdchecks.evidence import read_blocks

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

BOTH, PORT = 9000, 1500
ACTIVE = ("--active", "--interval", "0", "--connect-timeout", "60", "--timeout", "240")
DF = ("--select", "PD-MTU-004")
ENGINE = "[Service]\nExecStart=/bin/sleep infinity\n"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    for node in lab.up(["n1", "n2"]):
        lab.set_mtu(node, BOTH, BOTH)
    return Site(lab, tmp_path_factory.mktemp("site"), {"prefill": ["n1"], "decode": ["n2"]})


def _found(ran: Ran, check: str) -> Mapping[str, tuple[str, str]]:
    """By node, status and summary of a check."""
    return {f["subject"]["node"]: (f["status"], f["summary"]) for f in ran.document["findings"] if f["check"] == check}


def test_nothing_is_sent_where_nobody_can_be_asked_and_the_load_is_told(site: Site) -> None:
    ran = site.diagnose(site.ini(), *ACTIVE, *DF)
    assert ran.code == 2
    assert (
        "1 pair(s) in 1 round(s)" in ran.stderr and "DF pings: 2 times" in ran.stderr and "give `--yes`" in ran.stderr
    )


def test_a_healthy_pair_passes_both_ways_and_what_cannot_be_tested_says_why(site: Site) -> None:
    selected = ("--select", "PD-MTU-004", "--select", "PD-PERF-002", "--select", "PD-KV-003")
    ran = site.diagnose(site.ini(), *ACTIVE, *selected, "--yes")
    passed = ("pass", f"packets of {BOTH} bytes pass unbroken")
    assert _found(ran, "PD-MTU-004") == {"n1": passed, "n2": passed}, ran.stderr
    assert _found(ran, "PD-PERF-002")["n1"] == (
        "unknown",
        "no bandwidth was measured: not run, there is no RDMA device on this node",
    )
    for node, peer in (("n1", "n2"), ("n2", "n1")):
        why = f"no KV was sent: {peer} did not listen: pdctl is not installed"
        assert _found(ran, "PD-KV-003")[node] == ("unknown", why)
    assert ran.code == 3
    assert all("It proves" in f["cause"] for f in ran.document["findings"] if f["status"] == "pass")


def test_a_smaller_mtu_on_the_path_is_named_which_no_node_sees_and_a_bundle_says_the_same(site: Site) -> None:
    n2 = site.lab.nodes["n2"]
    site.lab.set_mtu(n2, BOTH, PORT)
    try:
        alone = site.diagnose(site.ini(), "--interval", "0", "--select", "PD-MTU")
        kept = site.collect(site.ini(), site.folder / "active.tar", *ACTIVE, "--yes")
    finally:
        site.lab.set_mtu(n2, BOTH, BOTH)
    assert not [f for f in alone.document["findings"] if f["status"] in ("warn", "fail")]
    assert kept.code == 0, kept.stderr
    read = site.diagnose_kept(site.folder / "active.tar")
    dropped = ("fail", f"packets of {BOTH} bytes do not pass unbroken: the path drops them")
    assert _found(read, "PD-MTU-004") == {"n1": dropped, "n2": dropped}
    subjects = {f["subject"]["object"] for f in read.document["findings"] if f["check"] == "PD-MTU-004"}
    assert subjects == {f"path to n2 ({n2.address}) by eth0", "path to n1 (10.77.1.1) by eth0"}
    assert read.code == 1


def test_a_node_with_an_active_engine_is_left_alone_unless_somebody_says_so(site: Site) -> None:
    n1 = site.lab.nodes["n1"]
    (n1.root / "etc/systemd/system/pdctl-decode.service").write_text(ENGINE, encoding="utf-8")
    n1.ssh("systemctl daemon-reload && systemctl start pdctl-decode")
    spared = site.diagnose(site.ini(), *ACTIVE, *DF, "--yes")
    assert "left alone, since an engine is active there (--while-serving): n1" in spared.stderr
    assert _found(spared, "PD-MTU-004") == {
        "n1": ("unknown", "no DF ping: not run, an engine is active on this node (--while-serving)")
    }
    asked = site.diagnose(site.ini(), *ACTIVE, *DF, "--yes", "--while-serving")
    assert {status for status, _ in _found(asked, "PD-MTU-004").values()} == {"pass"}


# What perftest's server does as far as its listener goes: it says nothing, and ends when nobody comes.
_SERVER = """#!/usr/bin/python3
import socket, sys, time
if "--help" in sys.argv:
    sys.exit(print("--bind_source_ip=<ip>") or 0)
bound = next(word.split("=")[1] for word in sys.argv if word.startswith("--bind_source_ip="))
with socket.create_server(("0.0.0.0" if WIDE else bound, int(sys.argv[sys.argv.index("-p") + 1]))):
    time.sleep(1)
"""


@pytest.mark.parametrize("wide", [False, True])
def test_a_bandwidth_server_says_when_it_listens_and_one_on_every_interface_is_ended_at_once(
    site: Site, wide: bool
) -> None:
    node = site.lab.nodes["n2"]
    tool = node.root / "usr/local/bin/ib_write_bw"
    tool.write_text(_SERVER.replace("WIDE", str(wide)), encoding="utf-8")
    tool.chmod(0o755)
    end = End("eth0", IPv4Address(node.address), "mlx5_0", 4192)
    line = serve_bandwidth(bandwidth(end, 3, 1, 106, 18515), end, 18515, "n1")
    (node.root / "root/serve.sh").write_text(script_of([line.script()], 20, 20), encoding="utf-8")
    said = node.ssh("sh /root/serve.sh; grep -c ':4853 [^ ]* 0A ' /proc/net/tcp; true")
    (block,) = read_blocks(said)
    if wide:
        assert (block.rc, block.output) == (126, "pdctl: it would listen on every interface")
        assert "listening" not in said
    else:
        assert (block.rc, block.output) == (0, "")
        assert said.startswith(f"listening at {node.address}\n")
    assert said.endswith("=== end\n0\n")
