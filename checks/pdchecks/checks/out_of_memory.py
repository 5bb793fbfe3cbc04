"""Processes that the kernel killed because memory was used up."""

import re
from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# The kernel keeps 15 characters of a name: `VLLM::EngineCor`, `sglang::schedul`.
_ENGINE = re.compile(r"vllm|sglang|pdserve|pdctl|mooncake|trtllm|triton", re.IGNORECASE)
# An engine may run under its interpreter's name, and as PyTorch names its threads.
_MAYBE = re.compile(r"python[\d.]*|pt_\w+|ray\b.*")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    killed: dict[tuple[str, bool], list[KernelEvent]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "out-of-memory":
            killed.setdefault((event.device, event.driver.startswith("Memory cgroup")), []).append(event)
    groups = [event for event in node.all(KernelEvent) if event.kind == "out-of-memory-group"]
    for (process, in_group), events in killed.items():
        of_engine = [e for e in groups if e.device == process and _ENGINE.search(e.detail)]
        yield _judge(process, in_group, events, of_engine)


def _judge(process: str, in_group: bool, events: list[KernelEvent], of_engine: list[KernelEvent]) -> Verdict:
    """of_engine: lines by which that process stood in the control group of an engine's unit or container."""
    engine, maybe = bool(of_engine) or _ENGINE.match(process) is not None, _MAYBE.fullmatch(process) is not None
    # Another program's own limit is no trouble of the node's.
    harmless = in_group and not (engine or maybe)
    where = "the limit of its control group" if in_group else "the memory of the node"
    times = f", {len(events)} times" if len(events) > 1 else ""
    who = "an engine" if engine else "which may be an engine" if maybe else "no engine by its name"
    return Verdict(
        Status.INFO if harmless else Status.FAIL if engine else Status.WARN,
        f"process {process}",
        f"the kernel killed {process} ({who}) for want of memory{times}: {where} was used up",
        "Of all processes the kernel ends the one that frees most, without a word in the program's own log. Pinned "
        "memory (KV offloaded to the host, registered regions) cannot be swapped out.",
        tuple(event.quote for event in (events + of_engine)[:4]),
        ("dmesg -T | grep -A40 'invoked oom-killer'", "free -h", "systemctl show -p MemoryMax,MemoryCurrent UNIT"),
        None
        if harmless
        else Remedy(
            "Lower what the engine takes of host memory (KV offload and swap space, loader threads) or raise its limit "
            "(MemoryMax of the unit, the container's memory); reserve memory for it on a shared node.",
            impact=Impact.RESTART_ENGINE,
        ),
    )


CHECK = NodeCheck(
    id="PD-MEM-001",
    topic="host.memory",
    title="Process killed for want of memory",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=("linux mm/oom_kill.c", "linux Documentation/admin-guide/cgroup-v2.rst, memory.max"),
    silence_passes=True,
    judge=judge,
)
