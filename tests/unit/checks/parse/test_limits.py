import pytest
from tests.unit.checks.parse.reading import read

from pdchecks.facts.host import HugePagesRefused, Limit

KIB = 1024


def _limits(command: str, output: str) -> list[tuple[str, str, int | None, int | None]]:
    return [(limit.name, limit.scope, limit.soft, limit.hard) for limit in read(Limit, command, output)]


@pytest.mark.parametrize(
    "line",
    [
        "max locked memory       (kbytes, -l) 64",  # bash 5.0
        "max locked memory           (kbytes, -l) 64",  # bash 5.1, wider columns
        "locked memory (kbytes) 64",  # dash
        "-l: locked memory (kb)              64",  # busybox
        "-l: locked-in-memory size (kbytes)  64",  # zsh
    ],
)
def test_shells_count_locked_memory_in_kib(line: str) -> None:
    assert _limits("ulimit -a", line) == [("memlock", "this session", 64 * KIB, 64 * KIB)]


def test_one_value_alone_belongs_to_the_flag_that_was_asked() -> None:
    assert _limits("ulimit -l", "8192") == [("memlock", "this session", 8192 * KIB, 8192 * KIB)]
    assert _limits("ulimit -n", "1024") == [("nofile", "this session", 1024, 1024)]
    assert _limits("ulimit -l", "unlimited") == [("memlock", "this session", None, None)]


def test_proc_and_prlimit_count_in_bytes_and_tell_soft_from_hard() -> None:
    proc = "Max locked memory         65536                unlimited            bytes     "
    assert _limits("cat /proc/4711/limits", proc) == [("memlock", "process 4711", 65536, None)]
    prlimit = "MEMLOCK    max locked-in-memory address space     65536     131072 bytes"
    assert _limits("prlimit", prlimit) == [("memlock", "this session", 65536, 131072)]


def test_systemd_writes_no_limit_as_infinity_or_as_the_largest_number() -> None:
    text = "DefaultLimitMEMLOCK=infinity\nDefaultLimitMEMLOCKSoft=8388608\nDefaultLimitNOFILE=18446744073709551615"
    command = "systemctl show -p DefaultLimitMEMLOCK"
    assert _limits(command, text) == [
        ("memlock", "systemd services", 8388608, None),
        ("nofile", "systemd services", None, None),
    ]


def test_a_units_limit_is_that_units() -> None:
    command = "systemctl show -p LimitMEMLOCK vllm.service"
    assert _limits(command, "LimitMEMLOCK=65536") == [("memlock", "unit vllm.service", 65536, 65536)]


def test_each_paragraph_is_the_unit_that_it_names() -> None:
    text = "LimitNOFILE=524288\nLimitNOFILESoft=1024\nId=pdctl-a.service\n\nLimitNOFILE=infinity\nId=pdctl-b.service"
    assert _limits("systemctl show -p Id,LimitNOFILE,LimitNOFILESoft -- pdctl-*.service", text) == [
        ("nofile", "unit pdctl-a.service", 1024, 524288),
        ("nofile", "unit pdctl-b.service", None, None),
    ]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)", 64 * KIB),
        ("libibverbs: Warning: RLIMIT_MEMLOCK is 32768 bytes.", 32768),
    ],
)
def test_a_program_that_met_its_limit_names_it(line: str, count: int) -> None:
    assert _limits("mpirun ./a.out", line) == [("memlock", "the process that logged it", count, count)]


@pytest.mark.parametrize(
    "line",
    [
        "mmap(MAP_HUGETLB) failed: Cannot allocate memory",
        "Failed to allocate 2048 hugepages of 2 MB",
        "shmget(size=2097152,flags=SHM_HUGETLB) failed: Operation not permitted",
    ],
)
def test_a_refusal_of_huge_pages_is_seen(line: str) -> None:
    assert len(read(HugePagesRefused, "journalctl -u decode", line)) == 1


def test_a_count_of_huge_pages_is_no_refusal() -> None:
    assert not read(HugePagesRefused, "cat /proc/meminfo", "HugePages_Total:       0\nHugePages_Free:        0")
