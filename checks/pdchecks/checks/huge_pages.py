"""Huge pages: whether a program that asks for some finds any."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import HugePages, HugePagesRefused
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.quantity import size

_VERIFY = ("grep -i huge /proc/meminfo", "cat /sys/kernel/mm/hugepages/*/nr_hugepages")
_RESERVE = Remedy(
    "Reserve as many pages as the program that asked for them maps (512 pages of 2 MiB are 1 GiB); at boot, since memory is "
    "in pieces later.",
    commands=(
        "echo 'vm.nr_hugepages = COUNT' > /etc/sysctl.d/90-hugepages.conf",
        "sysctl -p /etc/sysctl.d/90-hugepages.conf",
    ),
    until_reboot=("sysctl -w vm.nr_hugepages=COUNT",),
    impact=Impact.NONE,
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    pages = node.all(HugePages)
    refused = node.all(HugePagesRefused)
    quotes = tuple(fact.quote for fact in (*refused, *pages))
    if refused:
        left = f"; {pages[0].free} of {pages[0].total} are free" if pages else ""
        yield Verdict(
            Status.FAIL,
            "huge pages",
            f"a program was refused huge pages{left}",
            "None are reserved, all are taken, or the process may not use them (CAP_IPC_LOCK, vm.hugetlb_shm_group).",
            quotes,
            _VERIFY,
            _RESERVE,
        )
        return
    for fact in pages:
        yield _pool(fact)


def _pool(pages: HugePages) -> Verdict:
    each, quotes = size(pages.page), (pages.quote,)
    usable = pages.free - pages.reserved
    if pages.total == 0:
        summary = f"no huge pages of {each} are reserved; none are needed unless a program asks for them"
        return Verdict(Status.INFO, "huge pages", summary, quotes=quotes)
    if usable > 0:
        return Verdict(
            Status.PASS, "huge pages", f"{usable} of {pages.total} huge pages of {each} are free", quotes=quotes
        )
    return Verdict(
        Status.WARN,
        "huge pages",
        f"all {pages.total} huge pages of {each} are taken or promised: {pages.free} free, {pages.reserved} reserved",
        "The next program that maps huge pages is refused, or falls back to ordinary pages.",
        quotes,
        _VERIFY,
        _RESERVE,
    )


CHECK = NodeCheck(
    id="PD-LIMIT-003",
    topic="limits.hugepages",
    title="Huge pages ran out",
    severity=Severity.MEDIUM,
    tools=("meminfo",),
    sources=("linux Documentation/admin-guide/mm/hugetlbpage.rst", "mmap(2), MAP_HUGETLB"),
    judge=judge,
)
