"""DCQCN: the switch marks, the receiver (notification point) sends CNPs, the sender (reaction point) slows down."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pdchecks.check import Verdict
from pdchecks.counters import Reading, rdma_readings, total
from pdchecks.fabric import is_infiniband, judged
from pdchecks.facts.firmware import NvParameter
from pdchecks.facts.qos import CongestionControl
from pdchecks.finding import Remedy, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# linux mlx5 counters.c, irdma verbs.c, bnxt_re hw_counters.c.
MARKED = ("np_ecn_marked_roce_packets", "RxECNMrkd", "rxECNMrkd", "rx_ecn_marked_pkts")
CNP_SENT = ("np_cnp_sent", "cnpSent", "tx_cnp_pkts")
CNP_HANDLED = ("rp_cnp_handled", "cnpHandled", "rx_cnp_pkts")
CNP_IGNORED = ("rp_cnp_ignored", "cnpIgnored")


# mlxconfig prints a mask as 255 or 0xff.
_MASK = re.compile(r"(?P<mask>0x[0-9a-fA-F]{1,8}|0|[1-9]\d{0,8})")


@dataclass(frozen=True, slots=True)
class Role:
    """One side of DCQCN. short: its folder; said: its name for a person; effect: what happens while it is off."""

    short: str
    said: str
    effect: str
    sign: tuple[str, ...]
    healthy: tuple[str, ...]


NOTIFICATION = Role(
    "np",
    "notification point",
    "Packets marked by the switch arrive here, but no sender is told: it goes on at full speed until PFC stops it.",
    MARKED,
    CNP_SENT,
)
REACTION = Role(
    "rp",
    "reaction point",
    "Receivers ask this sender to slow down and it does not: only PFC is left to stop it, and that stops others too.",
    CNP_IGNORED,
    CNP_HANDLED,
)


def judge_role(role: Role, node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    """The verdicts on one side: its setting for the lossless priority, and what its counters give away."""
    ecn, lossless = policy.values.fabric.ecn, policy.values.fabric.lossless_priority
    wanted = ecn.notification_point if role is NOTIFICATION else ecn.reaction_point
    for fact in node.all(CongestionControl):
        if fact.role == role.short and judged(node, fact.netdev) and lossless in fact.enabled:
            yield _from_setting(role, fact, wanted, lossless)
    for parameter in node.all(NvParameter):
        mask = _MASK.fullmatch(parameter.next_boot)
        if wanted and mask and parameter.name.startswith("ROCE_CC_PRIO_MASK_P"):
            yield _from_mask(role, parameter, int(mask["mask"], 0), lossless)
    if wanted:
        for reading in rdma_readings(node):
            if not is_infiniband(node, reading.name.partition("/")[0]):
                yield from _from_counters(role, reading, policy.values.counters.young_s)


def _from_setting(role: Role, fact: CongestionControl, wanted: bool, lossless: int) -> Verdict:
    on = fact.enabled[lossless]
    state = f"{role.said} of priority {lossless} is {'on' if on else 'off'}"
    if on == wanted:
        return Verdict(Status.PASS, fact.netdev, state, quotes=(fact.quote,))
    return Verdict(
        Status.FAIL if wanted else Status.WARN,
        fact.netdev,
        f"{state}, the policy wants it {'on' if wanted else 'off'}",
        role.effect if wanted else "Rates are controlled here although the policy leaves that to others.",
        (fact.quote,),
        (f'grep "" /sys/class/net/{fact.netdev}/ecn/roce_{role.short}/enable/*',),
        _remedy(role, fact.netdev, lossless, wanted),
    )


def _from_mask(role: Role, parameter: NvParameter, mask: int, lossless: int) -> Verdict:
    subject = f"{parameter.device} {parameter.name}"
    if mask & 1 << lossless:
        summary = f"{parameter.name} is {mask}: congestion control is the card's default for priority {lossless}"
        return Verdict(Status.PASS, subject, summary, quotes=(parameter.quote,))
    return Verdict(
        Status.WARN,
        subject,
        f"{parameter.name} is {mask}: after a boot the {role.said} of priority {lossless} is off",
        role.effect,
        (parameter.quote,),
        (f"mlxconfig -d {parameter.device} query {parameter.name}",),
        _remedy(role, "<netdev>", lossless, True),
    )


def _remedy(role: Role, netdev: str, lossless: int, wanted: bool) -> Remedy:
    return Remedy(
        "Set it at each boot, or as the card's own default with mlxconfig. Firmware since 22.45 (and its "
        "sisters) knows one "
        "setting for all priorities: set all eight alike there.",
        commands=(
            f"echo {int(wanted)} > /sys/class/net/{netdev}/ecn/roce_{role.short}/enable/{lossless}",
            "mlxconfig -d <bus address> set ROCE_CC_PRIO_MASK_P1=255",
        ),
        survives_reboot=False,
    )


def _from_counters(role: Role, reading: Reading, young_s: int) -> Iterator[Verdict]:
    # An idle interval shows nothing of how marks are answered.
    reading = reading.moved((*role.sign, *role.healthy))
    values, since = reading.recent, reading.since
    sign, healthy = total(values, role.sign), total(values, role.healthy)
    quotes = (reading.quote([*role.sign, *role.healthy]),)
    if role is NOTIFICATION and sign and healthy == 0:
        yield _off(role, reading, f"{sign} marked packets arrived and no CNP was sent {since}", young_s)
    elif role is REACTION and sign:
        yield _off(role, reading, f"{sign} CNPs were ignored {since}, {healthy or 0} were handled", young_s)
    elif sign == 0 and healthy == 0:
        what = "no marked packet arrived" if role is NOTIFICATION else "no CNP arrived"
        yield Verdict(Status.INFO, reading.name, f"{what} {since}: the {role.said} was never tried", quotes=quotes)
    elif healthy:
        verb = "sent" if role is NOTIFICATION else "handled"
        yield Verdict(Status.PASS, reading.name, f"{healthy} CNPs were {verb} {since}", quotes=quotes)


def _off(role: Role, reading: Reading, summary: str, young_s: int) -> Verdict:
    return Verdict(
        reading.at_most(Status.FAIL, young_s),
        reading.name,
        f"{summary}: the {role.said} " + ("is off" if reading.grown is not None else "is or was off"),
        role.effect,
        (reading.quote([*role.sign, *role.healthy]),),
        (f"rdma statistic show link {reading.name}",),
        _remedy(role, "<netdev>", 0, True),
    )
