"""Data centre bridging of one port, by `dcb` where the driver answers it, else by `mlnx_qos`. Values are lines of text.

dcbx: `host ieee` | `os`; trust: `dscp`; dscp: `26:3 48:6`; pfc: `3`; cable: metres; ets: `tsa=.. bw=.. map=..`;
buffer: `sizes=.. map=.. total=..`. A value in a file or of a wish may leave the total away.
"""

import json
import re

KINDS = ("dcbx", "trust", "dscp", "pfc", "cable", "ets", "buffer")
PRIORITIES = range(8)
NONE = "none"
_TC = re.compile(r"^tc: (?P<tc>[0-7]) .*tsa: (?P<tsa>\w+)(?:, bw: (?P<bw>\d+)%)?", re.MULTILINE)
_DSCPS = re.compile(r"prio:([0-7]) dscp:([\d, ]+)")


def tool(port, run):
    """dcb, mlnx_qos, or None."""
    return _looked(port, run)[0]


def why_none(port, run):
    """What the tools say of a port that has no bridging."""
    code, _printed, words = run(["dcb", "-j", "pfc", "show", "dev", port])
    other, printed, _words = run(["mlnx_qos", "-i", port])
    said = words.strip().splitlines()[-1:] or [f"exit {code}"]
    second = "mlnx_qos is not installed" if other == 127 else f"mlnx_qos: {(printed.strip().splitlines() or ['-'])[-1]}"
    return f"dcb: {said[0]}; {second}"


def look(port, run):
    """Kind -> value, of those that the port has."""
    return _looked(port, run)[1]


def _looked(port, run):
    shown = {what: _json(run(["dcb", "-j", "-N", what, "show", "dev", port])) for what in ("pfc",)}
    if isinstance(shown["pfc"].get("prio_pfc"), list):
        for what in ("app", "ets", "buffer", "dcbx"):
            shown[what] = _json(run(["dcb", "-j", "-N", what, "show", "dev", port]))
        return "dcb", {kind: value for kind, value in _from_dcb(shown).items() if value is not None}
    code, printed, _words = run(["mlnx_qos", "-i", port])
    if code == 0 and "PFC configuration" in printed:
        return "mlnx_qos", from_mlnx_qos(printed)
    return None, {}


def commands(port, kind, value, now, run):
    by = tool(port, run)
    if by == "dcb":
        return _by_dcb(port, kind, value, now)
    return _by_mlnx_qos(port, kind, value, now) if by else []


def pairs(value):
    """{dscp: priority}"""
    return {int(dscp): int(prio) for dscp, prio in (each.split(":") for each in value.split())} if value != NONE else {}


def joined(mapping):
    return " ".join(f"{dscp}:{prio}" for dscp, prio in sorted(mapping.items())) or NONE


def priorities(value):
    return {int(each) for each in value.split(",")} if value != NONE else set()


def parts(value):
    """{name: list of words} of a value like `sizes=1,2 map=0,0`."""
    return {name: words.split(",") for name, words in (each.split("=") for each in value.split())}


def _json(answer):
    code, printed, _words = answer
    # iproute2 leaves a stray comma and blank in the lists of the application table.
    text = re.sub(r'(?:,\s*)?" "(?=\s*\])', "", printed)
    text = re.sub(r",(\s*[\]}])", r"\1", text)
    try:
        loaded = json.loads(text) if code == 0 and text.strip() else {}
    except ValueError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _from_dcb(shown):
    pfc, ets, buffer = shown["pfc"], shown["ets"], shown["buffer"]
    on = ",".join(str(prio) for prio, enabled in enumerate(pfc["prio_pfc"]) if enabled) or NONE
    mapping = {each[0]: each[1] for each in shown["app"].get("dscp_prio") or [] if len(each) == 2}
    found = {"pfc": on, "dscp": joined(mapping)}
    if ets.get("prio_tc"):
        rows = (("tsa", ets["tc_tsa"]), ("bw", ets["tc_bw"]), ("map", ets["prio_tc"]))
        found["ets"] = " ".join(f"{name}={','.join(map(str, row))}" for name, row in rows)
    if buffer.get("buffer_size"):
        rows = (
            ("sizes", buffer["buffer_size"]),
            ("map", buffer["prio_buffer"]),
            ("total", [buffer.get("total_size", 0)]),
        )
        found["buffer"] = " ".join(f"{name}={','.join(map(str, row))}" for name, row in rows)
    flags = sorted(name for name, on in shown["dcbx"].items() if on is True)
    if flags:
        found["dcbx"] = " ".join(flags)
    return found


def from_mlnx_qos(printed):
    found = {}
    for kind, pattern in (
        ("dcbx", r"^DCBX mode: (\w+) controlled"),
        ("trust", r"^Priority trust state: (\w+)"),
        ("cable", r"^Cable len: (\d+)"),
    ):
        match = re.search(pattern, printed, re.MULTILINE)
        if match:
            found[kind] = match.group(1).lower()
    mapping = {
        int(dscp): int(prio)
        for prio, dscps in _DSCPS.findall(printed)
        for dscp in dscps.replace(" ", "").split(",")
        if dscp.isdigit()
    }
    if mapping:
        found["dscp"] = joined(mapping)
    rows = {
        row: values.split()
        for row, values in re.findall(r"^\s*(enabled|buffer)((?:\s+\d+){8})\s*$", printed, re.MULTILINE)
    }
    if "enabled" in rows:
        found["pfc"] = ",".join(str(prio) for prio, on in enumerate(rows["enabled"]) if on != "0") or NONE
    sizes = re.search(
        r"^Receive buffer size \(bytes\): ([\d,]+?),(?:max_buffer_size=(\d+))?\s*$", printed, re.MULTILINE
    )
    if sizes and "buffer" in rows:
        found["buffer"] = f"sizes={sizes.group(1)} map={','.join(rows['buffer'])} total={sizes.group(2) or 0}"
    shares = _classes(printed)
    if shares:
        found["ets"] = shares
    return found


def _classes(printed):
    """The value of `ets`, or None. A class that no priority goes to is not printed, and stands as one without a share."""
    classes = list(_TC.finditer(printed))
    bounds = [match.start() for match in classes] + [len(printed)]
    tsa, bw, mapping = ["ets"] * len(PRIORITIES), ["0"] * len(PRIORITIES), {}
    for number, match in enumerate(classes):
        tc = int(match.group("tc"))
        tsa[tc], bw[tc] = match.group("tsa"), match.group("bw") or "0"
        for prio in re.findall(r"priority:\s+([0-7])", printed[bounds[number] : bounds[number + 1]]):
            mapping[int(prio)] = str(tc)
    if len(mapping) != len(PRIORITIES):
        return None
    return f"tsa={','.join(tsa)} bw={','.join(bw)} map={','.join(mapping[prio] for prio in PRIORITIES)}"


def _by_dcb(port, kind, value, now):
    of = ["dev", port]
    if kind == "dcbx":
        return [["dcb", "dcbx", "set", *of, *value.split()]]
    if kind == "pfc":
        on = [f"{prio}:on" for prio in sorted(priorities(value))]
        return [["dcb", "pfc", "set", *of, "prio-pfc", "all:off", *on]]
    if kind == "cable":
        return [["dcb", "pfc", "set", *of, "delay", value]]
    if kind == "dscp":
        wanted, former = pairs(value), pairs(now or NONE)
        gone = [f"{dscp}:{prio}" for dscp, prio in sorted(former.items()) if dscp not in wanted]
        come = [f"{dscp}:{prio}" for dscp, prio in sorted(wanted.items()) if former.get(dscp) != prio]
        steps = [["dcb", "app", "replace", *of, "dscp-prio", *come]] if come else []
        return steps + ([["dcb", "app", "del", *of, "dscp-prio", *gone]] if gone else [])
    rows = parts(value)
    if kind == "ets":
        asked = [
            word
            for name, row in (("tc-tsa", "tsa"), ("tc-bw", "bw"), ("prio-tc", "map"))
            for word in (name, *_listed(rows[row]))
        ]
        return [["dcb", "ets", "set", *of, *asked]]
    if kind == "buffer":
        return [
            ["dcb", "buffer", "set", *of, "buffer-size", *_listed(rows["sizes"]), "prio-buffer", *_listed(rows["map"])]
        ]
    return []


def _listed(row):
    return [f"{number}:{value}" for number, value in enumerate(row)]


def _by_mlnx_qos(port, kind, value, now):
    of = ["mlnx_qos", "-i", port]
    if kind == "dcbx":
        return [[*of, "-d", "os" if value == "os" else "fw"]]
    if kind == "trust":
        return [[*of, f"--trust={value}"]]
    if kind == "pfc":
        on = priorities(value)
        return [[*of, "--pfc=" + ",".join("1" if prio in on else "0" for prio in PRIORITIES)]]
    if kind == "cable":
        return [[*of, f"--cable_len={value}"]]
    if kind == "dscp":
        wanted, former = pairs(value), pairs(now or NONE)
        gone = [("del", dscp, prio) for dscp, prio in sorted(former.items()) if dscp not in wanted]
        come = [("set", dscp, prio) for dscp, prio in sorted(wanted.items()) if former.get(dscp) != prio]
        return [[*of, f"--dscp2prio={verb},{dscp},{prio}"] for verb, dscp, prio in come + gone]
    rows = parts(value)
    if kind == "ets":
        shares = ",".join(rows["bw"][tc] if tsa == "ets" else "0" for tc, tsa in enumerate(rows["tsa"]))
        return [[*of, f"--tsa={','.join(rows['tsa'])}", f"--tcbw={shares}", f"--prio_tc={','.join(rows['map'])}"]]
    if kind == "buffer":
        return [[*of, f"--buffer_size={','.join(rows['sizes'])}", f"--prio2buffer={','.join(rows['map'])}"]]
    return []
