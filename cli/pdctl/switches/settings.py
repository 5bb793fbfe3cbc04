"""What a policy asks of switches: values by name, and what it leaves open. Pure."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from pdchecks.policy import Values

# Ethernet's header, one VLAN tag and the checksum: what a frame has around the netdev's MTU. IEEE 802.3, 802.1Q.
_AROUND_THE_PACKET = 14 + 4 + 4
_DSCPS = range(64)
PRIORITIES = range(8)


@dataclass(frozen=True, slots=True)
class Printed:
    """text: for the switch, on stdout. notes: for the person, one line each."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Times in milliseconds. action: drop or forward."""

    detection_ms: int
    restoration_ms: int
    action: str


@dataclass(frozen=True, slots=True)
class Ecn:
    """Thresholds of the queue in bytes; the probability at the second one, in percent."""

    min_bytes: int
    max_bytes: int
    probability_percent: int


@dataclass(frozen=True, slots=True)
class SwitchSide:
    """None is what the policy leaves open; `notes` say so. A class is a priority, a traffic class and a queue of one number.

    by_dscp: the class of each of the 64 values; what is neither RoCE nor a notification is class 0.
    """

    mtu: int | None
    lossless: int
    dscp: int
    cnp: int
    cnp_dscp: int
    by_dscp: Mapping[int, int]
    cable_length_m: int
    ecn: Ecn | None
    bandwidth_percent: int | None
    watchdog: Watchdog | None
    notes: tuple[str, ...]


def switch_side(values: Values) -> SwitchSide:
    """
    Raises:
        ValueError: the policy contradicts itself, or a value is one that no switch takes; the text names the key.
    """
    fabric, switch = values.fabric, values.switch
    _refuse_impossible(values)
    ecn, watchdog = _ecn(values), _watchdog(values)
    classes = dict.fromkeys(_DSCPS, 0) | {fabric.cnp.dscp: fabric.cnp.priority, fabric.dscp: fabric.lossless_priority}
    open_keys = {
        "switch.mtu": switch.mtu,
        "switch.ecn": ecn,
        "switch.roce_bandwidth_percent": switch.roce_bandwidth_percent,
        "switch.pfc_watchdog": watchdog,
    }
    return SwitchSide(
        mtu=switch.mtu,
        lossless=fabric.lossless_priority,
        dscp=fabric.dscp,
        cnp=fabric.cnp.priority,
        cnp_dscp=fabric.cnp.dscp,
        by_dscp=classes,
        cable_length_m=fabric.cable_length_m,
        ecn=ecn,
        bandwidth_percent=switch.roce_bandwidth_percent,
        watchdog=watchdog,
        notes=tuple(
            f"the policy leaves {key} open: nothing is set for it" for key, value in open_keys.items() if value is None
        ),
    )


def of_one_fabric(sides: Mapping[str, SwitchSide]) -> SwitchSide:
    """One for all nodes, by name. Of different cables the longest counts: headroom must suffice for each.

    Raises:
        ValueError: they differ in more; the text names two nodes and what they differ in.
    """
    (first, side), *others = sides.items()
    longest = max(sides.values(), key=lambda each: each.cable_length_m).cable_length_m
    for name, other in others:
        differs = [
            field.name
            for field in dataclasses.fields(side)
            if field.name not in ("cable_length_m", "notes") and getattr(side, field.name) != getattr(other, field.name)
        ]
        if differs:
            raise ValueError(
                f"nodes of one fabric share its classes and thresholds; {first} and {name} differ in {', '.join(differs)}"
            )
    if all(each.cable_length_m == longest for each in sides.values()):
        return side
    note = f"cables differ from node to node; the longest, {longest} m, counts"
    return dataclasses.replace(side, cable_length_m=longest, notes=(*side.notes, note))


def _refuse_impossible(values: Values) -> None:
    fabric, switch = values.fabric, values.switch
    if fabric.trust != "dscp":
        raise ValueError(
            f"fabric.trust is `{fabric.trust}`: switches are told to classify by DSCP, as nodes must then be too"
        )
    if fabric.global_pause:
        raise ValueError("fabric.global_pause is on: a port has global pause or PFC, not both")
    if fabric.dscp == fabric.cnp.dscp:
        raise ValueError(f"fabric.dscp and fabric.cnp.dscp are both {fabric.dscp}: data and its notifications need two")
    if fabric.lossless_priority == fabric.cnp.priority:
        raise ValueError(
            f"fabric.lossless_priority and fabric.cnp.priority are both {fabric.cnp.priority}: they need two"
        )
    needed = fabric.mtu.netdev + _AROUND_THE_PACKET
    if switch.mtu is not None and switch.mtu < needed:
        raise ValueError(
            f"switch.mtu is {switch.mtu}, and fabric.mtu.netdev of {fabric.mtu.netdev} makes frames of {needed}"
        )


def _ecn(values: Values) -> Ecn | None:
    asked = values.switch.ecn
    if asked.min_bytes is None or asked.max_bytes is None or asked.probability_percent is None:
        return None
    if not 0 <= asked.min_bytes <= asked.max_bytes:
        raise ValueError(
            f"switch.ecn.min_bytes is {asked.min_bytes}, and max_bytes {asked.max_bytes}: the first is the smaller one"
        )
    return Ecn(asked.min_bytes, asked.max_bytes, asked.probability_percent)


def _watchdog(values: Values) -> Watchdog | None:
    asked = values.switch.pfc_watchdog
    if asked.detection_ms is None or asked.restoration_ms is None:
        return None
    # sonic-pfcwd.yang, and within it Cumulus Linux's polling interval.
    for key, value, most in (
        ("detection_ms", asked.detection_ms, 5000),
        ("restoration_ms", asked.restoration_ms, 5000),
    ):
        if not 100 <= value <= most:
            raise ValueError(f"switch.pfc_watchdog.{key} is {value}; switches take 100 to {most}")
    return Watchdog(asked.detection_ms, asked.restoration_ms, asked.action)
