"""What a port's bridging must be by the policy, from what it is. Pure: values in, values out."""

from ansible.module_utils import pdctl_bridging as bridging

# What mlx5 reserves for a pause that is under way: linux mlx5 en/port_buffer.c, calculate_xoff().
SLOWEST_MBPS = 40000
# A card rounds a buffer up to whole cells; none is known with larger ones.
CELL = 1024


def xoff_bytes(speed_mbps, cable_m, mtu):
    return int((301 + 2.16 * cable_m) * max(speed_mbps, SLOWEST_MBPS) / 1000 + 2.72 * mtu)


def wishes(now, fabric, share, speed_mbps, mtu):
    """(kind -> value, problems). now: kind -> live value; kinds that the port does not have are left alone.

    fabric: the policy's section. share: of the lossless class in percent, None leaves the shares alone. speed_mbps: None where the
    link has none.
    """
    lossless, cnp = fabric["lossless_priority"], fabric["cnp"]
    wanted, problems = {}, []
    if "pause" in now and not fabric["global_pause"]:
        wanted["pause"] = "rx off tx off"
    if "dcbx" in now and fabric["dcbx"] == "os":
        flags = set(now["dcbx"].split())
        wanted["dcbx"] = "os" if flags & {"os", "firmware"} else " ".join(sorted((flags - {"lld-managed"}) | {"host"}))
    if "trust" in now:
        wanted["trust"] = fabric["trust"]
    if fabric["trust"] == "dscp":
        mapping = bridging.pairs(now.get("dscp", bridging.NONE))
        mapping.update({fabric["dscp"]: lossless, cnp["dscp"]: cnp["priority"]})
        wanted["dscp"] = bridging.joined(mapping)
    if "pfc" in now:
        wanted["pfc"] = str(lossless)
    if "cable" in now:
        wanted["cable"] = str(fabric["cable_length_m"])
    if "ets" in now and share is not None:
        wanted["ets"] = ets(lossless, cnp["priority"], share)
    if "buffer" in now and speed_mbps:
        needed = xoff_bytes(speed_mbps, fabric["cable_length_m"], mtu) + mtu
        wanted["buffer"], why = buffers(now["buffer"], lossless, needed)
        if why:
            problems.append({"key": "buffer", "outcome": "refused", "message": why, "wanted": needed})
    return wanted, problems


def ets(lossless, cnp, share):
    """The lossless class and the rest share the link; notification packets go before both."""
    classes = range(len(bridging.PRIORITIES))
    tsa = ["strict" if tc == cnp else "ets" for tc in classes]
    shares = dict.fromkeys(classes, 0)
    shares.update({0: 100 - share, lossless: share})
    own = (lossless, cnp)
    rows = (
        ("tsa", tsa),
        ("bw", shares.values()),
        ("map", [prio if prio in own else 0 for prio in bridging.PRIORITIES]),
    )
    return " ".join(f"{name}={','.join(map(str, row))}" for name, row in rows)


def buffers(now, lossless, needed):
    """(value, why it cannot be): the lossless priority alone in a buffer that holds `needed` bytes, taken from the largest other."""
    rows = bridging.parts(now)
    sizes, mapping = [int(size) for size in rows["sizes"]], [int(number) for number in rows["map"]]
    total = int(rows.get("total", ["0"])[0])
    mine = mapping[lossless]
    alone = [prio for prio, number in enumerate(mapping) if number == mine] == [lossless]
    if alone and sizes[mine] >= needed:
        return now, ""
    if not alone:
        free = [number for number in range(1, len(sizes)) if number not in mapping]
        if not free:
            return now, "no receive buffer is free for the lossless priority alone"
        mine = mapping[lossless] = free[0]
    # What the card does not give to any buffer is there to be taken; without a total nothing is known beyond the sum.
    spare = max(0, total - sum(sizes))
    lack = max(0, needed + CELL - sizes[mine] - spare)
    largest = max((number for number in range(len(sizes)) if number != mine), key=lambda number: sizes[number])
    if lack >= sizes[largest]:
        return (
            now,
            f"the port's receive buffers hold {total or sum(sizes)} bytes, too few for {needed} of the lossless priority",
        )
    sizes[mine] = needed
    if lack:
        sizes[largest] = (sizes[largest] - lack) // CELL * CELL
    return f"sizes={','.join(map(str, sizes))} map={','.join(map(str, mapping))}" + (
        f" total={total}" if total else ""
    ), ""


def holds(kind, wanted, live):
    """Whether a live value is what was asked. A card rounds its buffers up to whole cells, and that is as good."""
    if kind != "buffer" or live == "absent":
        return wanted == live
    asked, found = bridging.parts(wanted), bridging.parts(live)
    used = set(asked["map"])
    enough = all(int(asked["sizes"][int(number)]) <= int(found["sizes"][int(number)]) for number in used)
    return asked["map"] == found["map"] and enough
