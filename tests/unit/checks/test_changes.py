"""What changed between two times, and which new fault may come from it."""

from tests.unit.checks.reports import MTU_AND_ITS_ERRORS, POLICY

from pdchecks.changes import Comparison, compare
from pdchecks.evidence import by_node, read_blocks
from pdchecks.nodefacts import gather
from pdchecks.run import diagnose
from pdctl.render.changes import lines

# Formats: uname(1), dpkg-query(1), ip-route(8), modprobe(8).
HOST = """
=== cmd: decode-1: uname -srm
=== rc: 0
Linux 6.1.0-28-amd64 x86_64
=== end
=== cmd: decode-1: dpkg-query -W rdma-core libibverbs*
=== rc: 0
libibverbs1:amd64\t44.0-2
rdma-core\t44.0-2
=== end
=== cmd: decode-1: ip route show
=== rc: 0
default via 192.0.2.1 dev eth0 proto static
198.51.100.0/24 dev ens4f0np0 proto kernel scope link src 198.51.100.7
=== end
=== cmd: decode-1: modprobe -c | grep ^options
=== rc: 0
options mlx5_core prof_sel=2
=== end
=== cmd: decode-1: cat /home/op/.local/state/pdctl/deployments/local/record.json
=== rc: 0
{"schema": "pdctl.deployment/1", "name": "local", "model_name": "Qwen3-0.6B", "dtype": "float32",
 "units": [{"role": "prefill", "gpu_kind": "cpu", "device": "cpu", "threads": 1}]}
=== end
"""


def _compare(before: str, after: str) -> Comparison:
    times = [by_node(read_blocks(text), "node-1") for text in (before, after)]
    found = [diagnose(evidence, lambda node: POLICY) for evidence in times]
    return compare([gather(one) for one in times[0]], [gather(one) for one in times[1]], *found)


def test_nothing_changed() -> None:
    made = _compare(HOST + MTU_AND_ITS_ERRORS, HOST + MTU_AND_ITS_ERRORS)
    assert made == Comparison((), (), (), ())


def test_the_change_behind_a_new_fault_stands_first() -> None:
    good = HOST + MTU_AND_ITS_ERRORS.replace("1024 (3)", "4096 (5)").replace("local length error", "Link up")
    bad = HOST.replace("6.1.0-28", "6.1.0-31").replace("rdma-core\t44.0-2", "rdma-core\t50.0-1") + MTU_AND_ITS_ERRORS
    made = _compare(good, bad)
    first = made.changes[0]
    assert (first.kind, first.node, first.object) == ("MTU", "decode-1", "mlx5_0/1 active")
    assert first.before
    assert first.after
    assert (first.before.value, first.after.value) == ("4096", "1024")
    assert {finding.check for finding in first.behind} >= {"PD-MTU-002", "PD-MTU-003"}
    assert [(c.kind, c.object) for c in made.changes[1:]] == [("kernel", "kernel"), ("package", "rdma-core")]
    assert not any(change.behind for change in made.changes[1:])


def test_kernel_route_option_package_model_and_flag_are_compared() -> None:
    after = (
        HOST.replace("6.1.0-28-amd64", "6.1.0-31-amd64")
        .replace("ens4f0np0 proto", "ens5 proto")
        .replace("prof_sel=2", "prof_sel=1")
        .replace("libibverbs1:amd64\t44.0-2", "libibverbs1:amd64\t50.0-1")
        .replace("Qwen3-0.6B", "Qwen3-4B")
        .replace('"float32"', '"bfloat16"')
    )
    seen = {change.kind: (change.before, change.after) for change in _compare(HOST, after).changes}
    assert set(seen) == {"kernel", "route", "option", "package", "model", "flag"}
    before, now = seen["route"]
    assert before
    assert now
    assert (before.value, now.value) == ("ens4f0np0 src 198.51.100.7", "ens5 src 198.51.100.7")


def test_what_one_time_does_not_show_is_not_a_change() -> None:
    without = HOST.replace("=== cmd: decode-1: dpkg-query -W", "=== cmd: decode-1: true")
    made = _compare(HOST, without)
    assert made.changes == ()
    assert made.unseen == (("decode-1", "package"),)


def test_what_came_or_went_beside_its_siblings_is_a_change() -> None:
    (change,) = _compare(HOST, HOST.replace("rdma-core\t44.0-2\n", "")).changes
    assert (change.object, change.after) == ("rdma-core", None)


def test_faults_that_are_gone_are_told() -> None:
    good = MTU_AND_ITS_ERRORS.replace("1024 (3)", "4096 (5)").replace("local length error", "Link up")
    made = _compare(MTU_AND_ITS_ERRORS, good)
    assert made.appeared == ()
    assert {finding.check for finding in made.gone} == {"PD-MTU-002", "PD-MTU-003", "PD-RDMA-002"}


def test_one_node_at_both_times_is_one_node_whatever_it_is_called() -> None:
    before = HOST.replace("decode-1: ", "monday: ")
    (change,) = _compare(before, HOST.replace("6.1.0-28", "6.1.0-31").replace("decode-1: ", "friday: ")).changes
    assert (change.kind, change.node) == ("kernel", "friday")


LIMIT = """\
=== cmd: decode-1: cat /proc/self/limits
=== rc: 0
Max open files            1024                 1024                 files
=== end
"""


def test_a_fault_is_gone_only_where_somebody_looked_again() -> None:
    mended = _compare(HOST + LIMIT, HOST + LIMIT.replace("1024 ", "1048576 "))
    assert ([finding.check for finding in mended.gone], mended.unjudged) == (["PD-LIMIT-002"], ())
    unseen = _compare(HOST + LIMIT, HOST)
    assert (unseen.gone, [finding.check for finding in unseen.unjudged]) == ((), ["PD-LIMIT-002"])
    missing = LIMIT.partition("=== rc")[0] + "=== rc: 127\npdctl: cat is not installed\n=== end\n"
    refused = _compare(HOST + LIMIT, HOST + missing)
    assert (refused.gone, [finding.check for finding in refused.unjudged]) == ((), ["PD-LIMIT-002"])


XID = "=== cmd: decode-1: dmesg\n=== rc: 0\n[   10.0] {}\n=== end\n"


def test_an_event_is_gone_where_the_log_was_read_again_without_it() -> None:
    fallen = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."
    made = _compare(HOST + XID.format(fallen), HOST + XID.format("usb 1-1: new device"))
    assert "PD-GPU-005" in {finding.check for finding in made.gone}
    assert made.unjudged == ()


GPUS = """=== cmd: decode-1: nvidia-smi
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   34C    P0             72W /  700W |       1MiB /  81559MiB |      0%      Default |
=== end
"""


def test_a_new_driver_is_seen_in_the_banner_of_nvidia_smi() -> None:
    made = _compare(GPUS, GPUS.replace("550.54.15", "570.124.06"))
    assert [(change.kind, change.object) for change in made.changes] == [("driver", "NVIDIA driver")]
    assert [line for line, _ in lines(made, 100)][-1] == "1 change, no new fault"


def test_modules_that_grep_left_out_did_not_go_away() -> None:
    listed = "ib_core 1 0\nmlx5_core 1 0\n=== end\n"
    made = _compare(
        f"=== cmd: decode-1: lsmod\nModule Size Used by\nnvidia 1 0\n{listed}",
        f"=== cmd: decode-1: lsmod | grep core\n{listed}",
    )
    assert made.changes == ()
    assert made.unseen == (("decode-1", "module"),)


def test_where_nothing_changed_the_last_line_says_so() -> None:
    assert [line for line, _ in lines(_compare(HOST, HOST), 100)] == ["nothing changed, no new fault"]
