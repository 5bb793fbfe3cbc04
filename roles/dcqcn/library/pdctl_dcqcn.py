#!/usr/bin/python
"""Says how congestion control (DCQCN) must change on this node, live, at boot and in the card, and records it."""

import re

from ansible.module_utils import pdctl_look, pdctl_rails
from ansible.module_utils import pdctl_settings as settings
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_dcqcn
short_description: Look at the notification and reaction points of the fabric's ports, and record them for the boot
description:
  - "Looking changes nothing; it gives the commands that set the live values and those that undo them, for pdctl_confirmed."
  - "Live by OFED's sysfs, /sys/class/net/*/ecn; where there is none, in the card by mlxconfig or mstconfig, for its next reset."
options:
  phase:
    description: look, or record.
    type: str
    choices: [look, record]
    default: look
  fabric:
    description: The section `fabric` of the policy.
    type: dict
    required: true
  unused:
    description: RDMA devices that are no part of the fabric.
    type: list
    elements: str
    default: []
author: pdctl
"""

RETURN = r"""
steps:
  description: As of pdctl_mtu; so are undo, state, wanted, records, problems, notices.
  returned: always
  type: list
"""

POINTS = {"roce_np": "notification_point", "roce_rp": "reaction_point"}
_MASK = re.compile(r"^\s*(?:\*\s+)?(ROCE_CC_PRIO_MASK_P\d)\s+(?:\S+\s+)*?(\S+)\s*$", re.MULTILINE)


def live_switches(ports, fabric):
    """{name: wanted}: since firmware 22.45 the switch is one for all priorities, so nothing but the lossless one is asked."""
    found = {}
    for port in ports:
        for path in settings.switches(port):
            point, _enable, priority = path.split("/")[-3:]
            if int(priority) == fabric["lossless_priority"]:
                found[f"file {path}"] = "1" if fabric["ecn"][POINTS[point]] else "0"
    return found


def in_the_card(module, port, lossless):
    """(notice, problem) of a port without live switches; both may be None."""
    address = settings.pci(port)
    tool = next((name for name in ("mlxconfig", "mstconfig") if module.get_bin_path(name)), None)
    if tool is None or address == "-":
        message = "no switch of DCQCN: neither /sys/class/net/*/ecn nor mlxconfig or mstconfig is there; it was left"
        return {"key": port, "message": message}, None
    code, printed, said = module.run_command([tool, "-d", address, "query"])
    masks = dict(_MASK.findall(printed)) if code == 0 else {}
    if not masks:
        why = (said or printed).strip().splitlines()[-1:] or [f"exit {code}"]
        return {"key": port, "message": f"{tool} shows no mask of congestion control ({why[0]}); it was left"}, None
    off = sorted(name for name, mask in masks.items() if not int(mask, 0) & 1 << lossless)
    if not off:
        return None, None
    asked = " ".join(f"{name}={int(masks[name], 0) | 1 << lossless}" for name in off)
    message = f"off in the card for priority {lossless}; `{tool} -d {address} set {asked}` and a reset of the card switch it on"
    return None, {"key": f"{port} {' '.join(off)}", "outcome": "refused", "message": message, "live": masks[off[0]]}


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "record"], "default": "look"},
            "fabric": {"type": "dict", "required": True},
            "unused": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    fabric, unused = module.params["fabric"], module.params["unused"]
    problems, notices = [], []
    ports = pdctl_rails.ports(pdctl_rails.rails(fabric.get("rails") or (), unused))
    wanted = live_switches(ports, fabric)
    for port in ports:
        if settings.switches(port) or not fabric["ecn"]["notification_point"]:
            continue
        notice, problem = in_the_card(module, port, fabric["lossless_priority"])
        notices += [notice] if notice else []
        problems += [problem] if problem else []
    if not ports:
        message = "no RDMA device has an Ethernet port here, and the policy names no rails: nothing was set"
        notices.append({"key": "rails", "message": message})
    pdctl_look.answer(
        module,
        "dcqcn",
        "congestion control of the fabric",
        wanted,
        lambda _n, one, two: one == two,
        problems,
        notices,
        ports,
    )


if __name__ == "__main__":
    main()
