"""SONiC: a part of config_db.json, in the tables and words of sonic-buildimage's YANG models (sonic-port-qos-map, -dscp-tc-map,
-wred-profile, -scheduler, -pfcwd, -cable-length)."""

import json
import re
from collections.abc import Sequence
from typing import Any

from pdctl.errors import UsageError
from pdctl.switches.settings import PRIORITIES, Printed, SwitchSide

_NAME = "PDCTL"
_COLOURS = ("green", "yellow", "red")
_RANGE = re.compile(r"\d-\d")


def printed(side: SwitchSide, ports: Sequence[str]) -> Printed:
    """
    Raises:
        UsageError: a port is a range, which config_db has none of.
    """
    for port in filter(_RANGE.search, ports):
        raise UsageError(
            f"`{port}` is no port of SONiC, whose config_db names each one",
            hint="give each: `--port Ethernet0,Ethernet4`; `show interfaces status` names them",
        )
    notes = [*side.notes]
    if not ports:
        notes.append(
            "no --port was given: PORT, PORT_QOS_MAP, QUEUE, PFC_WD and CABLE_LENGTH, which name ports, are left out"
        )
    notes += [
        f"buffers are the ASIC's: priority group {side.lossless} of each port needs a lossless profile "
        f"(BUFFER_PG `PORT|{side.lossless}`: profile NULL in the dynamic buffer model)",
        "on Mellanox and Barefoot ASICs a port also needs pfc_to_pg_map; the table is printed, the reference is not",
        "load it with `config load FILE -y`, look with `show pfc priority`, `show ecn`, `pfcwd show config`, then `config save`",
    ]
    tables = {**_maps(side), **_profiles(side), **_of_ports(side, ports)}
    return Printed(json.dumps(tables, indent=4), tuple(notes))


def _maps(side: SwitchSide) -> dict[str, Any]:
    same = {str(priority): str(priority) for priority in PRIORITIES}
    groups = {str(tc): str(tc if tc == side.lossless else 0) for tc in PRIORITIES}
    return {
        "DSCP_TO_TC_MAP": {_NAME: {str(dscp): str(tc) for dscp, tc in sorted(side.by_dscp.items())}},
        "TC_TO_QUEUE_MAP": {_NAME: same},
        "TC_TO_PRIORITY_GROUP_MAP": {_NAME: groups},
        "MAP_PFC_PRIORITY_TO_QUEUE": {_NAME: same},
        "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": {_NAME: {str(side.lossless): str(side.lossless)}},
    }


def _profiles(side: SwitchSide) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    if side.ecn:
        profile: dict[str, str] = {"ecn": "ecn_all"}
        for colour in _COLOURS:
            profile |= {
                f"wred_{colour}_enable": "true",
                f"{colour}_min_threshold": str(side.ecn.min_bytes),
                f"{colour}_max_threshold": str(side.ecn.max_bytes),
                f"{colour}_drop_probability": str(side.ecn.probability_percent),
            }
        tables["WRED_PROFILE"] = {f"{_NAME}_LOSSLESS": profile}
    tables["SCHEDULER"] = {f"{_NAME}_CNP": {"type": "STRICT"}}
    if (share := side.bandwidth_percent) is not None:
        tables["SCHEDULER"][f"{_NAME}_LOSSLESS"] = {"type": "DWRR", "weight": str(share)}
        if share < 100:
            tables["SCHEDULER"][f"{_NAME}_OTHER"] = {"type": "DWRR", "weight": str(100 - share)}
    return tables


def _of_ports(side: SwitchSide, ports: Sequence[str]) -> dict[str, Any]:
    if not ports:
        return {}
    lossless = str(side.lossless)
    of_port = {"dscp_to_tc_map": _NAME, "tc_to_queue_map": _NAME, "tc_to_pg_map": _NAME, "pfc_to_queue_map": _NAME}
    of_port["pfc_enable"] = lossless
    if side.watchdog:
        of_port["pfcwd_sw_enable"] = lossless
    tables: dict[str, Any] = {
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, f"{side.cable_length_m}m")},
        "PORT_QOS_MAP": dict.fromkeys(ports, of_port),
        "QUEUE": {f"{port}|{queue}": given for port in ports for queue, given in _queues(side).items()},
    }
    if side.mtu is not None:
        tables["PORT"] = {port: {"mtu": str(side.mtu)} for port in ports}
    if side.watchdog:
        times = {
            "action": side.watchdog.action,
            "detection_time": str(side.watchdog.detection_ms),
            "restoration_time": str(side.watchdog.restoration_ms),
        }
        # The yang model wants both times to be no shorter than it.
        interval = str(min(side.watchdog.detection_ms, side.watchdog.restoration_ms, 1000))
        tables["PFC_WD"] = {"GLOBAL": {"POLL_INTERVAL": interval}, **dict.fromkeys(ports, times)}
    return tables


def _queues(side: SwitchSide) -> dict[str, dict[str, str]]:
    queues: dict[str, dict[str, str]] = {str(side.cnp): {"scheduler": f"{_NAME}_CNP"}}
    lossless: dict[str, str] = {}
    if side.bandwidth_percent is not None:
        lossless["scheduler"] = f"{_NAME}_LOSSLESS"
        if side.bandwidth_percent < 100:
            queues["0"] = {"scheduler": f"{_NAME}_OTHER"}
    if side.ecn:
        lossless["wred_profile"] = f"{_NAME}_LOSSLESS"
    if lossless:
        queues[str(side.lossless)] = lossless
    return dict(sorted(queues.items()))
