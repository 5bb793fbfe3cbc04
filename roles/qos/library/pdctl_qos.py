#!/usr/bin/python
"""Says how the fabric's quality of service must change on this node, live and at boot, and records it for the boot."""

from ansible.module_utils import pdctl_bridging as bridging
from ansible.module_utils import pdctl_look, pdctl_rails
from ansible.module_utils import pdctl_qos_wish as wish
from ansible.module_utils import pdctl_settings as settings
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_qos
short_description: Look at trust, priorities, PFC, buffers and marks of the fabric's ports, and record them for the boot
description:
  - "Looking changes nothing; it gives the commands that set the live values and those that undo them, for pdctl_confirmed."
  - By `dcb` where the driver answers it, else by `mlnx_qos`; marks by configfs or sysfs.
  - Recording writes a script, a unit that runs it at boot, and a rule of udev that starts the unit when a rail appears.
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
  share:
    description: Percent of the link that the lossless class is sure of. None leaves the shares alone.
    type: int
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


def speed_mbps(port):
    value = pdctl_rails.text(pdctl_rails.SYS_NET / port / "speed")
    return int(value) if value.isdigit() and int(value) > 0 else None


def of_port(port, fabric, share, problems, notices):
    """{name: wanted} of one port."""
    now = bridging.look(port, settings.run)
    pause = settings.read(f"pause {port}")
    if not now:
        message = f"no bridging here ({bridging.why_none(port, settings.run)}): trust, PFC and buffers were left"
        notices.append({"key": port, "message": message})
        return {}
    if pause != settings.ABSENT:
        now["pause"] = pause
    speed, mtu = speed_mbps(port), pdctl_rails.mtu(port) or fabric["mtu"]["netdev"]
    wanted, refused = wish.wishes(now, fabric, share, speed, max(mtu, fabric["mtu"]["netdev"]))
    problems += [dict(each, key=f"{each['key']} {port}") for each in refused]
    if "buffer" in now and speed is None:
        notices.append({"key": f"buffer {port}", "message": "the link has no speed, so no headroom was computed"})
    return {f"{kind} {port}": wanted[kind] for kind in settings.QOS if kind in wanted}


def marks(devices, ports, fabric):
    """{name: wanted} of what marks packets: RoCE's DSCP with ECT(0), RFC 3168, and that of notification packets."""
    found = {}
    for device in devices:
        for name in settings.marks(device):
            found[name] = str(fabric["dscp"] << 2 | 2)
    for port in ports:
        for path, what in settings.notification_marks(port).items():
            found[f"file {path}"] = str(fabric["cnp"][what])
    return found


def holds(name, wanted, live):
    kind = name.partition(" ")[0]
    if kind == "tos":
        # The kernel keeps the DSCP and drops ECN's two bits.
        return live.isdigit() and int(live) >> 2 == int(wanted) >> 2
    return wish.holds(kind, wanted, live)


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "record"], "default": "look"},
            "fabric": {"type": "dict", "required": True},
            "share": {"type": "int"},
            "unused": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    fabric, unused = module.params["fabric"], module.params["unused"]
    problems, notices, wanted = [], [], {}
    ports = pdctl_rails.ports(pdctl_rails.rails(fabric.get("rails") or (), unused))
    if not ports:
        message = "no RDMA device has an Ethernet port here, and the policy names no rails: nothing was set"
        notices.append({"key": "rails", "message": message})
    for port in ports:
        wanted.update(of_port(port, fabric, module.params["share"], problems, notices))
    if ports:
        wanted.update(marks(pdctl_rails.devices(unused), ports, fabric))
    pdctl_look.answer(module, "qos", "quality of service of the fabric", wanted, holds, problems, notices, ports)


if __name__ == "__main__":
    main()
