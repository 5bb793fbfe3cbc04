import pytest
from tests.unit.checks.parse.reading import node, read

from pdchecks.facts.gpu import GpuPresent, VisibleDevices
from pdchecks.facts.host import ClockSync, HugePages, PythonModule, PythonVersion


def test_huge_pages_are_counted_in_pages_of_the_default_size() -> None:
    text = "HugePages_Total:    1024\nHugePages_Free:      256\nHugePages_Rsvd:       16\nHugepagesize:    1048576 kB"
    (pages,) = read(HugePages, "grep -i huge /proc/meminfo", text)
    assert (pages.total, pages.free, pages.reserved, pages.page) == (1024, 256, 16, 1 << 30)


@pytest.mark.parametrize(
    ("command", "text", "version"),
    [
        ("/usr/libexec/platform-python -V", "Python 3.6.8", (3, 6)),
        ("python3 --version", "Python 3.12.0rc1", (3, 12)),
        ("/usr/bin/python -V", "Python 2.7.5", (2, 7)),
    ],
)
def test_an_interpreter_tells_its_version(command: str, text: str, version: tuple[int, int]) -> None:
    assert [fact.version for fact in read(PythonVersion, command, text)] == [version]


def test_a_module_that_cannot_be_imported_gives_its_error() -> None:
    text = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'dnf'"
    (module,) = read(PythonModule, "/usr/bin/python3 -c import dnf", text, 1)
    assert (module.path, module.module, module.present) == ("/usr/bin/python3", "dnf", False)
    assert "No module named" in module.why


def test_the_devices_that_a_process_was_given() -> None:
    command = "tr '\\0' '\\n' </proc/512/environ | grep ^CUDA_VISIBLE_DEVICES="
    (visible,) = read(VisibleDevices, command, "CUDA_VISIBLE_DEVICES=GPU-1a,GPU-2b")
    assert (visible.pid, visible.devices) == (512, ("GPU-1a", "GPU-2b"))
    assert not read(VisibleDevices, command, "", 1)


def test_a_gpu_on_the_bus_is_seen_whatever_its_driver_says() -> None:
    command = "grep -H '' /sys/bus/pci/devices/0000:03:00.0/vendor"
    (gpu,) = read(GpuPresent, command, "/sys/bus/pci/devices/0000:03:00.0/vendor:0x10de")
    assert gpu.addresses == ("0000:03:00.0",)


@pytest.mark.parametrize(
    ("command", "text", "synchronised"),
    [
        ("timedatectl show -p NTPSynchronized", "NTPSynchronized=yes", True),
        ("timedatectl", "System clock synchronized: no\n NTP service: inactive", False),
        ("timedatectl", "     NTP synchronized: yes", True),  # systemd 219
        ("chronyc tracking", "Stratum         : 0\nLeap status     : Not synchronised", False),
    ],
)
def test_the_clock(command: str, text: str, synchronised: bool) -> None:
    assert [fact.synchronised for fact in read(ClockSync, command, text)] == [synchronised]


def test_a_clock_that_was_not_told_is_unknown() -> None:
    asked = node("timedatectl show", "Failed to connect to bus: No such file or directory", 1)
    assert "Failed to connect" in asked.unread[0].reason
