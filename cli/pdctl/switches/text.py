"""Words for a person who types them into whatever switch it is, each with the key of the policy that says so."""

from collections.abc import Iterator, Sequence

from pdctl.render.columns import columns
from pdctl.switches.settings import Printed, SwitchSide


def printed(side: SwitchSide, ports: Sequence[str]) -> Printed:
    rows = [("setting", "value", "key of the policy"), *_rows(side, ports)]
    return Printed("\n".join(columns(rows)), side.notes)


def _rows(side: SwitchSide, ports: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    yield "ports", ", ".join(ports) or "every port to a node, and between switches", "-"
    yield "largest frame (L2)", _or_open(side.mtu, " bytes"), "switch.mtu"
    yield "classify received packets by", "DSCP", "fabric.trust"
    yield (
        f"DSCP {side.dscp} (RoCE)",
        f"priority, traffic class and queue {side.lossless}",
        "fabric.dscp, fabric.lossless_priority",
    )
    yield f"DSCP {side.cnp_dscp} (CNP)", f"priority, traffic class and queue {side.cnp}", "fabric.cnp"
    yield "every other DSCP", "priority, traffic class and queue 0", "-"
    yield "PFC, both directions", f"priority {side.lossless}, and no other", "fabric.lossless_priority"
    yield "headroom for cables of", f"{side.cable_length_m} m", "fabric.cable_length_m"
    ecn, watchdog = side.ecn, side.watchdog
    yield (
        f"ECN marks, queue {side.lossless}, from",
        _or_open(ecn.min_bytes if ecn else None, " bytes"),
        "switch.ecn.min_bytes",
    )
    yield "ECN marks everything from", _or_open(ecn.max_bytes if ecn else None, " bytes"), "switch.ecn.max_bytes"
    yield (
        "ECN probability there",
        _or_open(ecn.probability_percent if ecn else None, " %"),
        "switch.ecn.probability_percent",
    )
    yield (
        f"bandwidth of queue {side.lossless}",
        _or_open(side.bandwidth_percent, " %, weighted"),
        "switch.roce_bandwidth_percent",
    )
    yield f"bandwidth of queue {side.cnp}", "strict priority", "-"
    yield (
        "PFC watchdog: a storm after",
        _or_open(watchdog.detection_ms if watchdog else None, " ms"),
        "switch.pfc_watchdog.detection_ms",
    )
    yield (
        "PFC watchdog: over after",
        _or_open(watchdog.restoration_ms if watchdog else None, " ms"),
        "switch.pfc_watchdog.restoration_ms",
    )
    yield "PFC watchdog: meanwhile", watchdog.action if watchdog else "left open", "switch.pfc_watchdog.action"
    yield "global pause (802.3x)", "off", "fabric.global_pause"


def _or_open(value: int | None, unit: str) -> str:
    return "left open" if value is None else f"{value}{unit}"
