"""NVUE, the command line of Cumulus Linux 5.6 and later; words as in its "Quality of Service" and "RDMA over Converged Ethernet"."""

from collections.abc import Iterator, Sequence

from pdctl.switches.settings import PRIORITIES, Printed, SwitchSide

# What `nv set qos roce` sets by itself: switch priority and traffic class of RoCE, and of notifications.
_ROCE, _CNP = 3, 6
_BLOCK = 8
"""DSCP values that one switch priority has by default: 24 to 31 are those of priority 3."""


def printed(side: SwitchSide, ports: Sequence[str]) -> Printed:
    notes = list(side.notes)
    if not ports:
        notes.append("no --port was given: what names ports stands as a comment")
    notes.append(
        "`nv config diff` shows what would change, `nv config apply` applies it, `nv show qos roce` reads it back"
    )
    return Printed("\n".join(_lines(side, ports)), tuple(notes))


def _lines(side: SwitchSide, ports: Sequence[str]) -> Iterator[str]:
    yield "# The switches' side of the policy; Cumulus Linux 5.6 and later."
    yield "nv set qos roce mode lossless"
    yield "nv set qos mapping default-global trust l3"
    for priority, dscps in _by_priority(side).items():
        yield f"nv set qos mapping default-global dscp {','.join(map(str, dscps))} switch-priority {priority}"
    yield from _classes(side)
    yield f"nv set qos pfc default-global switch-priority {side.lossless}"
    yield f"nv set qos pfc default-global cable-length {side.cable_length_m}"
    if side.ecn:
        queue = f"nv set qos congestion-control default-global traffic-class {_ROCE}"
        yield f"{queue} min-threshold {side.ecn.min_bytes}"
        yield f"{queue} max-threshold {side.ecn.max_bytes}"
        yield f"{queue} probability {side.ecn.probability_percent}"
    yield from _scheduler(side)
    yield from _watchdog(side)
    of_ports = list(_of_ports(side, ",".join(ports) or "PORTS"))
    yield from of_ports if ports else (f"# {line}" for line in of_ports)
    for note in side.notes:
        yield f"# {note}"


def _by_priority(side: SwitchSide) -> dict[int, list[int]]:
    """Only where the default, by blocks of eight, is another; none but RoCE's own may end up in the lossless class."""
    moved: dict[int, list[int]] = {}
    for dscp, priority in sorted(side.by_dscp.items()):
        default = dscp // _BLOCK
        if priority:
            moved.setdefault(priority, []).append(dscp)
        elif default in (side.lossless, side.cnp):
            moved.setdefault(0, []).append(dscp)
    return dict(sorted(moved.items()))


def _classes(side: SwitchSide) -> Iterator[str]:
    """RoCE and notifications keep the traffic classes that `roce` gave them, whatever their priorities are."""
    wanted = dict.fromkeys(PRIORITIES, 0) | {side.lossless: _ROCE, side.cnp: _CNP}
    usual = dict.fromkeys(PRIORITIES, 0) | {_ROCE: _ROCE, _CNP: _CNP}
    for priority in PRIORITIES:
        if wanted[priority] != usual[priority]:
            mapping = f"nv set qos egress-queue-mapping default-global switch-priority {priority}"
            yield f"{mapping} traffic-class {wanted[priority]}"


def _scheduler(side: SwitchSide) -> Iterator[str]:
    if (share := side.bandwidth_percent) is None:
        return
    scheduler = "nv set qos egress-scheduler default-global traffic-class"
    yield f"{scheduler} {_CNP} mode strict"
    yield f"{scheduler} {_ROCE} mode dwrr"
    yield f"{scheduler} {_ROCE} bw-percent {share}"
    if share < 100:
        yield f"{scheduler} 0 mode dwrr"
        yield f"{scheduler} 0 bw-percent {100 - share}"


def _watchdog(side: SwitchSide) -> Iterator[str]:
    """A storm ends with one interval without a pause, and begins with so many of them in a row."""
    if side.watchdog is None:
        return
    interval = side.watchdog.restoration_ms
    yield f"nv set qos pfc-watchdog polling-interval {interval}"
    yield f"nv set qos pfc-watchdog robustness {-(-side.watchdog.detection_ms // interval)}"
    if side.watchdog.action != "drop":
        yield "# Cumulus Linux's watchdog drops what stands in the queue; it has no other action."


def _of_ports(side: SwitchSide, ports: str) -> Iterator[str]:
    if side.mtu is not None:
        yield f"nv set interface {ports} link mtu {side.mtu}"
    if side.watchdog:
        yield f"nv set interface {ports} qos pfc-watchdog"
