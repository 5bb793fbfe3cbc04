import pytest
from tests.unit.checks.parse.reading import node, read

from pdchecks.facts.log import KernelEvent


@pytest.mark.parametrize(
    ("line", "kind", "device", "detail"),
    [
        (
            "[  12.5] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', GPU has fallen off the bus.",
            "xid",
            "0000:c1:00",
            "79",
        ),
        ("Mar 03 10:11:12 n1 kernel: NVRM: Xid (PCI:0000:2a:00 GPU-I:05): 94, pid=4711", "xid", "0000:2a:00", "94"),
        ("[5.1] NVRM: Xid (0000:03:00): 31, Ch 00000008", "xid", "0000:03:00", "31"),  # before 340
        (
            "[9.1] NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.",
            "gpu-lost",
            "0000:c1:00.0",
            "GPU has fallen off the bus",
        ),
        (
            "[9.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1290)",
            "gpu-init",
            "0000:01:00.0",
            "RmInitAdapter failed! (0x26:0xffff:1290)",
        ),
        (
            "[9.1] NVRM: API mismatch: the client has the version 550.90.07, but",
            "nvml-mismatch",
            "NVRM",
            "API mismatch: the client has the version 550.90.07, but",
        ),
    ],
)
def test_a_line_of_the_nvidia_driver_is_known(line: str, kind: str, device: str, detail: str) -> None:
    (event,) = read(KernelEvent, "dmesg", line)
    assert (event.kind, event.device, event.detail) == (kind, device, detail)


def test_the_banner_of_the_driver_is_no_event() -> None:
    line = "[ 12.3] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"
    assert not read(KernelEvent, "dmesg", line)


@pytest.mark.parametrize(
    "text",
    [
        "dmesg: read kernel buffer failed: Operation not permitted",
        "sudo: a password is required",
        "Sorry, user op is not allowed to execute '/bin/sh -c dmesg' as root on n1.",
        "No journal files were opened due to insufficient permissions.",
    ],
)
def test_a_log_that_was_refused_is_not_a_log_without_events(text: str) -> None:
    assert "not read" in node("dmesg | tail", text, 1).unread[0].reason


def test_a_search_that_found_nothing_was_read() -> None:
    assert node("dmesg | grep -i xid", "", 1).saw("dmesg")
