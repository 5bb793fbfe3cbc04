"""Runs of ib_write_bw and its sisters."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.facts.base import Fact
from pdchecks.unknown import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class PerftestRun(Fact):
    """failures: the lines in which the run says that it failed. status: ibv_wc_status of a failed completion.

    layer: Ethernet, IB, or empty. averages: average Gbit/s by message size in bytes (bandwidth tests only).
    both_ways: the figures are the sum of both directions. cuda: GPU memory was asked for. ordering_warning: the tool
    says that the CPU does not do relaxed ordering. to, by: the other node of an active test, where this end asked or
    served; both empty for any other run.
    """

    tool: str
    device: str
    mtu: int | Unknown
    layer: str
    averages: Mapping[int, float]
    both_ways: bool
    cuda: bool
    ordering_warning: bool
    failures: tuple[str, ...]
    status: int | None
    to: str = ""
    by: str = ""
