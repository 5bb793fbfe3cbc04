"""Commands that a card refused: resources used up, or a query that it does not answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import NodeCheck, Verdict
from pdchecks.evidence import Quote
from pdchecks.facts.log import KernelEvent, ObjectRefused
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

_COMMAND = re.compile(
    r"(?P<command>[A-Z0-9_]+)\(0x[0-9a-f]+\).*?failed, status (?P<status>[^(]+)\((?P<code>0x[0-9a-f]+)\)"
)
# linux include/linux/mlx5/device.h: internal error, bad resource state, limits, no resources.
_EXHAUSTED = {"0x8": "limits exceeded", "0xf": "no resources"}
# A register that a function may not read: monitoring asks again and again, traffic is not touched.
_HARMLESS = {"ACCESS_REG", "QUERY_VPORT_COUNTER", "QUERY_PPCNT"}


@dataclass(frozen=True, slots=True)
class _What:
    cause: str
    remedy: Remedy


_UAR = _What(
    "Each open device context takes pages of the card's UAR space in its BAR; many processes times many contexts use "
    "it up. Neither memory nor the locked-memory limit is short.",
    Remedy(
        "Give the card a larger BAR for UAR pages (LOG_BAR_SIZE; PF_LOG_BAR_SIZE and VF_LOG_BAR_SIZE on newer cards) "
        "and power-cycle, or run fewer processes and contexts.",
        commands=(
            "mlxconfig -d <bus address> query | grep LOG_BAR_SIZE",
            "mlxconfig -d <bus address> set LOG_BAR_SIZE=<n+1>",
        ),
        impact=Impact.REBOOT,
    ),
)
_MKEY = _What(
    "The card could not make another memory key (MR): keys or the card's own memory (ICM) are used up, or the host "
    "is short of memory. Programs see ibv_reg_mr fail with ENOMEM.",
    Remedy(
        "Register fewer and larger regions, free what is cached (UCX_RCACHE, allocator caches), look for a leak, and "
        "look at free memory.",
        commands=("rdma resource show", "rdma -d resource show mr | wc -l"),
        impact=Impact.RESTART_ENGINE,
    ),
)
_OTHER = _What(
    "The card has no room for another object of this kind (queue, queue pair, key or event queue).",
    Remedy(
        "Count what is open and close what leaks; spread processes over cards.",
        commands=("rdma resource show",),
        impact=Impact.RESTART_ENGINE,
    ),
)


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    groups: dict[tuple[str, str, str], list[Quote]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "mkey-refused":
            groups.setdefault((event.device, "memory key (MR)", event.detail), []).append(event.quote)
        elif event.kind == "command-refused" and (match := _COMMAND.search(event.detail)):
            status = f"{match['status'].strip()} ({match['code']})"
            groups.setdefault((event.device, match["command"], status), []).append(event.quote)
    refused = [fact for fact in node.all(ObjectRefused) if fact.call == "ibv_open_device"]
    for (device, command, status), quotes in groups.items():
        yield _judge(device, command, status, [*quotes, *(fact.quote for fact in refused)])


def _judge(device: str, command: str, status: str, quotes: list[Quote]) -> Verdict:
    times = f"{len(quotes)} times" if len(quotes) > 1 else "once"
    verify = (f"dmesg -T | grep -E '{device}.*(failed|async reg mr)'",)
    if command in _HARMLESS:
        return Verdict(
            Status.INFO,
            f"{device} {command}",
            f"the card refused {command} {times}: {status}",
            "Something asks for a register or counter that this function may not read (a restricted or virtual "
            "function, or a monitoring agent that reads every counter). It floods the log and touches no traffic.",
            tuple(quotes),
            verify,
        )
    exhausted = command == "memory key (MR)" or any(f"({code})" in status for code in _EXHAUSTED)
    what = _UAR if "UAR" in command else _MKEY if "MKEY" in command or "key" in command else _OTHER
    if not exhausted:
        return Verdict(
            Status.WARN,
            f"{device} {command}",
            f"the card refused {command} {times}: {status}",
            "Driver and firmware disagree on this command, or a program asked for what the card cannot do.",
            tuple(quotes),
            verify,
            Remedy("See which program runs at these times; bring driver and firmware to releases of the same time."),
        )
    named = "UAR pages" if "UAR" in command else command
    return Verdict(
        Status.FAIL,
        f"{device} {command}",
        f"the card has no more {named}: {status}, {times}",
        what.cause,
        tuple(quotes),
        (*verify, "rdma resource show"),
        what.remedy,
    )


CHECK = NodeCheck(
    id="PD-MLX-001",
    topic="mlx5.resources",
    title="Card refuses commands",
    severity=Severity.HIGH,
    tools=("dmesg", "journalctl"),
    sources=(
        "https://github.com/openucx/ucx/issues/6049",
        "https://github.com/openucx/ucx/issues/6264",
        "linux drivers/net/ethernet/mellanox/mlx5/core/cmd.c",
    ),
    silence_passes=True,
    judge=judge,
)
