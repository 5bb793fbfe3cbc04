"""Counters of ports: what grew between two readings, and the names by which drivers call the same thing.

A counter of one reading may have stood so for a year: what it tells is of unknown age, and no more than a warning. It
cannot be older than the node's last boot.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pdchecks.evidence import Quote, words
from pdchecks.facts.host import Uptime
from pdchecks.facts.net import NicCounters
from pdchecks.facts.rdma import RdmaCounters
from pdchecks.finding import Status
from pdchecks.nodefacts import NodeFacts

_SLEEP = re.compile(r"\bsleep (?P<seconds>\d{1,5}(?:\.\d{1,3})?)\b")
# Per-priority counters: mlx5 (en_stats.c), bnxt_en (bnxt_ethtool.c), ice and i40e (ice_ethtool.c).
_PRIORITY = (
    re.compile(r"(?P<way>[rt]x)_prio(?P<priority>[0-7])_(?P<what>\w{4,40})"),
    re.compile(r"(?P<way>[rt]x)_(?P<what>bytes|packets|pfc_ena_frames)_pri(?P<priority>[0-7])"),
    re.compile(r"pfc_pri(?P<priority>[0-7])_(?P<way>[rt]x)_(?P<what>duration_us|transitions)"),
    re.compile(r"(?P<way>[rt]x)_priority_(?P<priority>[0-7])_(?P<what>xoff)(?:\.nic)?"),
)
# All names in the words of mlx5, with the kernel's unit for a duration (microseconds; counters.rst).
_SAME = {"pfc_ena_frames": "pause", "xoff": "pause", "duration_us": "pause_duration", "transitions": "pause_transition"}


# Width in bits of the InfiniBand port counters (PortCounters attribute, InfiniBand specification 16.1.3.5). They stop at
# their largest value; newer kernels read the wider ones of PortCountersExtended under the same names.
WIDTHS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_data": 32,
    "port_rcv_data": 32,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}


def saturated(name: str, value: int) -> bool:
    return name in WIDTHS and value == 2 ** WIDTHS[name] - 1


@dataclass(frozen=True, slots=True)
class Reading:
    """One port's counters. values: the latest; grown: since an earlier reading, or None where there is none.

    seconds: between the two, where the command says so. A counter that fell or is saturated has no growth.
    age_s: since when the counters count at the earliest, where the node's uptime is known.
    """

    name: str
    values: Mapping[str, int]
    grown: Mapping[str, int] | None
    seconds: float | None
    command: str
    age_s: float | None = None

    @property
    def since(self) -> str:
        """The period that `recent` is about, for a summary."""
        if self.grown is None and self.age_s is not None:
            return f"since the counters began, at most {_span(self.age_s)} ago"
        if self.grown is None:
            return "since the counters began, at an unknown time"
        return f"in {self.seconds:g} s" if self.seconds else "between two readings"

    @property
    def recent(self) -> Mapping[str, int]:
        """What grew, or from one reading everything since the counters began."""
        return self.values if self.grown is None else self.grown

    def at_most(self, status: Status, young_s: int) -> Status:
        """The status that one reading can bear: nobody knows when its counters grew, unless the node booted just now.

        young_s: the policy's `counters.young_minutes`, in seconds.
        """
        old = self.grown is None and (self.age_s is None or self.age_s > young_s)
        return Status.WARN if old and status is Status.FAIL else status

    def of_life(self) -> "Reading":
        """The same as one reading: for what an idle interval cannot show."""
        return replace(self, grown=None, seconds=None)

    def moved(self, names: Iterable[str]) -> "Reading":
        """This, or `of_life` where none of the named counters grew."""
        return self if self.grown is None or total(self.grown, names) else self.of_life()

    def quote(self, names: Iterable[str]) -> Quote:
        shown = [f"{name}: {self.values[name]}" for name in names if name in self.values]
        return Quote(self.command, "; ".join(shown)[:400])


def rdma_readings(node: NodeFacts) -> list[Reading]:
    """By port, named `device/port`."""
    return _readings([(f"{fact.device}/{fact.port}", fact) for fact in node.all(RdmaCounters)], _age(node))


def nic_readings(node: NodeFacts) -> list[Reading]:
    """By network interface."""
    return _readings([(fact.netdev, fact) for fact in node.all(NicCounters)], _age(node))


def _age(node: NodeFacts) -> float | None:
    return max((fact.seconds for fact in node.all(Uptime)), default=None)


def _span(seconds: float) -> str:
    """A length of time as a person would say it."""
    if seconds < 7200:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _readings(named: list[tuple[str, RdmaCounters | NicCounters]], age_s: float | None) -> list[Reading]:
    found: list[Reading] = []
    for name in dict.fromkeys(name for name, _ in named):
        # Two tools at one moment are no two readings in time.
        tools: dict[bool, list[RdmaCounters | NicCounters]] = {}
        for other, fact in named:
            if other == name:
                tools.setdefault("rdma" in words(fact.quote.command), []).append(fact)
        values: dict[str, int] = {}
        grown: dict[str, int] = {}
        seconds: float | None = None
        timed = False
        for facts in tools.values():
            for fact in facts:
                values |= fact.values
            first, last = facts[0], facts[-1]
            waited = _SLEEP.search(last.quote.command)
            growth = {key: last.values[key] - first.values[key] for key in last.values if key in first.values}
            # Two outputs side by side are two readings if one says that it waited, or if all that differs grew.
            if len(facts) > 1 and (waited or (any(growth.values()) and min(growth.values()) >= 0)):
                timed = True
                grown |= {
                    key: more for key, more in growth.items() if more >= 0 and not saturated(key, last.values[key])
                }
                seconds = float(waited["seconds"]) if waited else seconds
        command = next(iter(tools.values()))[-1].quote.command
        found.append(Reading(name, values, grown if timed else None, seconds, command, age_s))
    return found


def by_priority(values: Mapping[str, int]) -> dict[int, dict[str, int]]:
    """Counters of each priority by direction and mlx5's name, e.g. {3: {"rx_pause": 7}}."""
    found: dict[int, dict[str, int]] = {}
    for name, value in values.items():
        match = next((match for pattern in _PRIORITY if (match := pattern.fullmatch(name))), None)
        if match:
            what = _SAME.get(match["what"], match["what"])
            found.setdefault(int(match["priority"]), {})[f"{match['way']}_{what}"] = value
    return found


def total(values: Mapping[str, int], names: Iterable[str]) -> int | None:
    """The sum of those that are there; None where none is."""
    there = [values[name] for name in names if name in values]
    return sum(there) if there else None
