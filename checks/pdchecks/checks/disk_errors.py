"""Disks and file systems that the kernel found faulty."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    disks: dict[str, list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "disk-error":
            disks.setdefault(event.device, []).append(event)
    for device, events in disks.items():
        said = "; ".join(list(dict.fromkeys(event.detail for event in events))[:2])
        times = f", {len(events)} lines" if len(events) > 1 else ""
        yield Verdict(
            Status.FAIL,
            f"disk {device}",
            f"{device} is faulty: {said}{times}",
            "The kernel could not read or write it, or its file system is damaged and may have become read-only. If the "
            "model or the logs lie on it, loading stops or reads wrong bytes; which disk they lie on is not shown here.",
            tuple(event.quote for event in events[:4]),
            (
                f"dmesg -T | grep -w {device}",
                "findmnt -T <model directory>",
                "smartctl -a <disk>   # or: nvme smart-log <disk>",
            ),
            Remedy(
                "Save what is on it and replace the disk; check the file system unmounted (fsck, xfs_repair), and "
                "compare the model's files with their checksums before serving from it again.",
                impact=Impact.REBOOT,
            ),
        )


CHECK = NodeCheck(
    id="PD-DISK-001",
    topic="host.disk",
    title="Disk or file system is faulty",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=("linux fs/ext4/super.c", "linux block/blk-mq.c, blk_print_req_error()", "linux fs/xfs/xfs_message.c"),
    silence_passes=True,
    judge=judge,
)
