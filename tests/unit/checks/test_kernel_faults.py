"""What the doctor makes of a kernel log and of kernel settings: one fault for one event, and words that fit the value."""

from pathlib import Path

import pytest

from pdchecks.evidence import Block, Evidence, by_node, read_blocks
from pdchecks.finding import Finding, Status
from pdchecks.nodefacts import gather
from pdchecks.policy import Policy, read_layer, resolve
from pdchecks.ranking import rank
from pdchecks.run import diagnose

ROOT = Path(__file__).parents[3]
POLICY = resolve([read_layer(ROOT / "roles" / "policy" / "files" / "policy.yml")])


def faults(command: str, *lines: str) -> list[Finding]:
    def policy(node: str) -> Policy:
        return POLICY

    text = f"=== cmd: {command}\n=== rc: 0\n" + "\n".join(lines) + "\n=== end\n"
    return [finding for finding in diagnose(by_node(read_blocks(text), "node"), policy) if finding.fault]


def test_a_gpu_off_its_bus_is_one_fault_and_its_remedy_is_told_once() -> None:
    found = faults(
        "dmesg",
        "[ 6.2] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "[ 6.2] NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.",
    )
    assert [fault.check for fault in found] == ["PD-GPU-005"]
    assert found[0].remedy is not None
    assert found[0].remedy.text not in found[0].cause


def test_a_card_that_failed_is_one_fault_whatever_it_goes_on_to_say() -> None:
    found = faults(
        "dmesg",
        "[ 6.1] mlx5_core 0000:3b:00.0: poll_health:739:(pid 0): Fatal error 1 detected",
        "[ 6.2] mlx5_core 0000:3b:00.0: print_health_info:431:(pid 0): synd 0x8: unrecoverable hardware error",
        "[ 6.3] mlx5_core 0000:3b:00.0: wait_func:1151:(pid 13): MODIFY_QP(0x502) timeout. Will cause a leak",
        "[ 6.4] mlx5_core 0000:3b:00.0: health_care:251: health recovery flow aborted since the nic state is invalid",
    )
    assert [(fault.check, fault.status) for fault in found] == [("PD-MLX-002", Status.FAIL)]
    assert "unrecoverable hardware error" in found[0].summary


@pytest.mark.parametrize(
    "line",
    [
        "[ 1.0] mlx5_core 0000:3b:00.0: print_health_info:431:(pid 0): synd 0x0: none at all",
        "[ 1.0] blk_update_request: I/O error, dev sr0, sector 0 op 0x0:(READ)",
        "[ 1.0] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
        "[ 1.0] pcieport 0000:00:01.0: AER: enabled with IRQ 120",
        "[ 1.0] nvme nvme0: Shutdown timeout set to 10 seconds",
    ],
)
def test_an_ordinary_line_is_no_fault(line: str) -> None:
    assert faults("dmesg", line) == []


@pytest.mark.parametrize(("value", "words"), [("0", "filtering is off"), ("1", "is strict")])
def test_a_reverse_path_filter_is_explained_by_its_value(value: str, words: str) -> None:
    (fault,) = faults("sysctl net.ipv4.conf.all.rp_filter", f"net.ipv4.conf.all.rp_filter = {value}")
    assert words in fault.cause


@pytest.mark.parametrize(("slot", "roots"), [("3b", 1), ("c1", 2)], ids=["of-this-card", "of-another"])
def test_a_broken_slot_explains_its_own_card_only(slot: str, roots: int) -> None:
    found = faults(
        "dmesg",
        f"[ 6.0] pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:{slot}:00.0",
        "[ 6.1] mlx5_core 0000:3b:00.0: poll_health:739:(pid 0): Fatal error 1 detected",
    )
    assert len(rank(found)) == roots


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("dmesg", False),
        ("dmesg | tail -n 4000", False),
        ("sudo -n sh -c 'dmesg | tail -n 4000'", False),
        ("dmesg | grep -i xid", True),
        ("dmesg --level err", True),
        ("journalctl -q -u NetworkManager", True),
    ],
)
def test_an_empty_kernel_log_is_no_clean_one_unless_it_was_searched(command: str, read: bool) -> None:
    node = gather(Evidence("n1", (Block(command, 0, ""),)))
    assert (not node.unread) == read
