#!/usr/bin/python
"""Compares the firmware of each RDMA card with its family's floors; burns a newer one only where that was asked."""

import re
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_firmware
short_description: Firmware floors of RDMA cards
description:
  - Reads the running version, the PSID and the PCI device of each card from sysfs.
  - With `update` a card below its recommended version is burnt, inside the maintenance window and while no engine runs; the
    new image runs after a reset of the card, which is never done here.
options:
  families:
    description: "The policy's table: name -> prefix, parts, minimum, recommended."
    type: dict
    required: true
  vendor_psids:
    description: Prefixes of PSIDs whose images come from the card's own maker.
    type: list
    elements: str
    required: true
  update:
    description: Whether to burn.
    type: bool
    default: false
  maintenance_until:
    description: Until when the node is out of service, as 2026-12-01T04:00Z.
    type: str
    default: ""
  images:
    description: PSID -> image file on the node. A card without one is updated from the vendor's server.
    type: dict
    default: {}
author: pdctl
"""

RETURN = r"""
cards:
  description: "One record a card: device, bus, family, running, psid, state (good, below-recommended, below-minimum or unknown)."
  returned: always
  type: list
updated:
  description: "Cards that were burnt, or in check mode would be: device, bus, stored."
  returned: always
  type: list
problems:
  description: "Records: key, outcome, wanted, live, message."
  returned: always
  type: list
notices:
  description: "Records: key, message."
  returned: always
  type: list
"""

SYS = Path("/sys/class/infiniband")
# NVIDIA's scheme: family prefix, release, build. Other makers' versions are not compared.
VERSION = re.compile(r"^(\d{2})\.(\d{1,3})\.(\d{3,5})$")
# What pdctl and the common engines call their units; pdctl's checks use the same rule.
ENGINE = re.compile(r"^(?:pdctl-|pdserve|vllm|sglang|prefill|decode|mooncake).*\.service$")


def text_of(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def fields(version):
    return [int(part) for part in version.split(".")]


def cards(families, vendor_psids):
    """One record a PCI device; functions of one card stay apart, since each can be bound to another image."""
    for path in sorted(SYS.iterdir()) if SYS.is_dir() else []:
        running, psid = text_of(path / "fw_ver"), text_of(path / "board_id")
        part = text_of(path / "device" / "device")
        number = int(part, 16) if re.match(r"^0x[0-9a-f]{4}$", part) else None
        match = VERSION.match(running)
        prefix = int(match.group(1)) if match else None
        by_part = [name for name, family in families.items() if number in family["parts"]]
        by_prefix = [name for name, family in families.items() if family["prefix"] == prefix]
        family = (by_part or by_prefix or [""])[0] if match else ""
        record = {"device": path.name, "bus": (path / "device").resolve().name, "family": family, "running": running}
        floors = families.get(family) or {}
        maker = bool(psid) and not psid.startswith(tuple(vendor_psids))
        yield dict(
            record,
            psid=psid,
            maker=maker,
            minimum=floors.get("minimum"),
            recommended=floors.get("recommended"),
            state=state_of(running, floors) if family else "unknown",
        )


def state_of(running, floors):
    for floor, state in (("minimum", "below-minimum"), ("recommended", "below-recommended")):
        if floors.get(floor) and fields(running) < fields(floors[floor]):
            return state
    return "good" if floors.get("minimum") or floors.get("recommended") else "unknown"


def command(module, card, images):
    """argv that burns the card, or None where no tool is there."""
    image = images.get(card["psid"])
    if image:
        tool = module.get_bin_path("mstflint") or module.get_bin_path("flint")
        return [tool, "-d", card["bus"], "-i", image, "-y", "burn"] if tool else None
    tool = module.get_bin_path("mlxfwmanager")
    return [tool, "--online", "-u", "-y", "-d", card["bus"]] if tool else None


def remedy(card):
    if card["maker"]:
        return (
            f"PSID {card['psid']} is a server maker's image: update it with that maker's tool, or `fwupdmgr update` where the "
            "maker publishes there"
        )
    return (
        f"`mlxfwmanager --online -u -d {card['bus']}`, or `mstflint -d {card['bus']} -i IMAGE burn`, then "
        f"`mlxfwreset -d {card['bus']} reset`; by pdctl with `-e firmware_update=true -e firmware_maintenance=TIME`"
    )


def gate(module):
    """Why the window is shut, or empty."""
    until = module.params["maintenance_until"]
    if not until:
        return "no maintenance window is named (firmware_maintenance=2026-12-01T04:00Z)"
    try:
        end = time.strptime(until, "%Y-%m-%dT%H:%MZ")
    except ValueError:
        return f"firmware_maintenance: {until} is no time such as 2026-12-01T04:00Z"
    if time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()) >= time.strftime("%Y-%m-%dT%H:%MZ", end):
        return f"the maintenance window ended at {until}"
    argv = ["systemctl", "list-units", "--type=service", "--state=active,activating", "--plain", "--no-legend"]
    _code, printed, _said = module.run_command(argv)
    engines = [line.split()[0] for line in printed.splitlines() if line.split() and ENGINE.match(line.split()[0])]
    return f"an engine runs here ({', '.join(engines)}): drain the node first" if engines else ""


def stored(module, card):
    """The version in the card's flash, which runs after a reset."""
    tool = module.get_bin_path("mstflint") or module.get_bin_path("flint")
    if not tool:
        return ""
    _code, printed, _said = module.run_command([tool, "-d", card["bus"], "query"])
    found = re.search(r"^FW Version:\s*(\S+)", printed, re.MULTILINE)
    return found.group(1) if found else ""


def burn(module, card):
    """(record of the update or None, problem or None)."""
    wanted = card["recommended"] or card["minimum"]
    problem = {"key": f"{card['device']} firmware", "outcome": "refused", "wanted": wanted, "live": card["running"]}
    flash = stored(module, card)
    if VERSION.match(flash) and fields(flash) >= fields(wanted):
        # Burnt already, and waiting for its reset.
        return None, None
    argv = command(module, card, module.params["images"])
    if argv is None:
        return None, dict(problem, outcome="absent", message="neither mlxfwmanager nor mstflint is on this node")
    if module.check_mode:
        return {"device": card["device"], "bus": card["bus"], "stored": wanted}, None
    code, printed, said = module.run_command(argv)
    if code != 0:
        words = (said.strip() or printed.strip())[-500:]
        return None, dict(problem, message=f"{' '.join(argv)}: exit code {code}: {words}")
    flash = stored(module, card)
    if not VERSION.match(flash) or fields(flash) < fields(wanted):
        return None, dict(
            problem,
            live=flash,
            message=f"{' '.join(argv)} ended well, and the card holds {flash or 'no readable image'}",
        )
    return {"device": card["device"], "bus": card["bus"], "stored": flash}, None


def pending(module, card):
    """A notice of an image that waits for its reset, or None."""
    flash = stored(module, card)
    if not VERSION.match(flash) or flash == card["running"]:
        return None
    message = (
        f"pending: {flash} is stored, {card['running']} runs until `mlxfwreset -d {card['bus']} reset` or a cold boot"
    )
    return {"key": f"{card['device']} firmware", "impact": "reboot", "message": message}


def judge(card):
    """(problem, notice) of a card, as it runs."""
    key = f"{card['device']} firmware"
    about = {"key": key, "wanted": card["minimum"], "live": card["running"]}
    if card["state"] == "below-minimum" and not card["maker"]:
        return dict(
            about, outcome="refused", message=f"{card['family']} below the policy's floor: {remedy(card)}"
        ), None
    if card["state"] in ("below-minimum", "below-recommended"):
        floor = card["recommended"] or card["minimum"]
        return None, {"key": key, "message": f"{card['running']} is below {floor} ({card['family']}): {remedy(card)}"}
    if card["state"] == "unknown" and card["running"]:
        return None, {"key": key, "message": f"{card['running']}: the policy has no floor for this card"}
    return None, None


def main():
    module = AnsibleModule(
        argument_spec={
            "families": {"type": "dict", "required": True},
            "vendor_psids": {"type": "list", "elements": "str", "required": True},
            "update": {"type": "bool", "default": False},
            "maintenance_until": {"type": "str", "default": ""},
            "images": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    found = list(cards(module.params["families"], module.params["vendor_psids"]))
    updated, problems, notices = [], [], []
    low = [card for card in found if card["state"].startswith("below") and not card["maker"]]
    shut = gate(module) if module.params["update"] and low else ""
    if shut:
        problems.append({"key": "firmware_update", "outcome": "refused", "message": f"nothing was burnt: {shut}"})
    for card in found:
        if module.params["update"] and not shut and card in low:
            done, problem = burn(module, card)
            updated += [done] if done else []
            problems += [problem] if problem else []
        else:
            problem, notice = judge(card)
            problems += [problem] if problem else []
            notices += [notice] if notice else []
        waits = pending(module, card) if card["family"] else None
        notices += [waits] if waits else []
    if not found:
        notices.append({"key": "firmware", "message": "skipped: no RDMA device is on this node"})
    module.exit_json(
        changed=bool(updated),
        cards=found,
        updated=updated,
        problems=problems,
        notices=notices,
        diff=[
            {
                "before_header": f"{each['device']} firmware",
                "after_header": f"{each['device']} firmware",
                "before": "".join(f"{card['running']}\n" for card in found if card["device"] == each["device"]),
                "after": f"{each['stored']}\n",
            }
            for each in updated
        ],
    )


if __name__ == "__main__":
    main()
