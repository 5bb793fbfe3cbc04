#!/usr/bin/python
"""Says how the fabric's MTU must change on this node, live and at boot, and records it for the boot."""

import json
from pathlib import Path

from ansible.module_utils import pdctl_boot, pdctl_owner, pdctl_rails
from ansible.module_utils import pdctl_mtu_record as record
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_mtu
short_description: Look at the MTU of the fabric's interfaces, and record it for the next boot
description:
  - Rails get the wanted MTU. What they stand on is raised to it and never lowered.
  - "Looking changes nothing; it gives the commands that set the live values and those that undo them, for pdctl_confirmed."
  - Recording writes the file of whoever configures the interface (NetworkManager, netplan, systemd-networkd, ifupdown).
  - Where nobody does, a rule of udev sets the MTU when the interface appears.
options:
  phase:
    description: look, or record.
    type: str
    choices: [look, record]
    default: look
  mtu:
    description: The MTU of a rail in bytes.
    type: int
    required: true
  rails:
    description: The rails by name; empty means the Ethernet ports of RDMA devices, with the bonds and VLANs on them.
    type: list
    elements: str
    default: []
  unused:
    description: RDMA devices that are no part of the fabric.
    type: list
    elements: str
    default: []
author: pdctl
"""

RETURN = r"""
wanted:
  description: "Settings that are not as asked: key, wanted, live."
  returned: by look
  type: list
steps:
  description: Commands that set the live values.
  returned: by look
  type: list
undo:
  description: Commands that set the former values.
  returned: by look
  type: list
records:
  description: Files that recording would change.
  returned: always
  type: list
state:
  description: Setting -> live value.
  returned: by look
  type: dict
"""


class Plan:
    """What holds, what must be, and who records it."""

    def __init__(self, module):
        self.module = module
        self.problems, self.notices = [], []
        unused = module.params["unused"]
        named = module.params["rails"]
        rails = [name for name in pdctl_rails.rails(named, unused) if self._there(name)]
        if not named and not rails:
            message = "no RDMA device has an Ethernet port here, and the policy names no rails: nothing was set"
            self.notices.append({"key": "rails", "message": message})
        self.wanted = dict.fromkeys(rails, module.params["mtu"])
        for name in pdctl_rails.below(rails):
            self.wanted[name] = max(module.params["mtu"], pdctl_rails.mtu(name) or 0)
        self.live = {name: pdctl_rails.mtu(name) for name in self.wanted}
        for name in list(self.wanted):
            self._bounds(name)
        self.owners = {name: pdctl_owner.owner(name) for name in self.wanted}
        self.files = self._files()

    def _there(self, name):
        if pdctl_rails.exists(name):
            return True
        message = "the policy names this interface as a rail, and the node has none of that name"
        self.problems.append({"key": name, "outcome": "absent", "message": message})
        return False

    def _bounds(self, name):
        """What the driver says that it cannot do is not tried."""
        code, printed, _words = self.module.run_command(["ip", "-json", "-details", "link", "show", "dev", name])
        try:
            shown = json.loads(printed)[0] if code == 0 else {}
        except (ValueError, IndexError):
            shown = {}
        most, least = shown.get("max_mtu") or 0, shown.get("min_mtu") or 0
        wanted = self.wanted[name]
        if (most and wanted > most) or wanted < least:
            message = f"the driver of {name} takes {least} to {most}: nothing was set"
            problem = {"key": f"mtu {name}", "outcome": "refused", "message": message}
            self.problems.append(dict(problem, wanted=wanted, live=self.live[name]))
            del self.wanted[name]

    def differing(self):
        return [name for name, wanted in self.wanted.items() if self.live[name] != wanted]

    def steps(self):
        """What is raised goes from below to above, what is lowered the other way: a VLAN is never above its port."""
        names = pdctl_rails.lower_first(self.differing())
        raised = [name for name in names if self.wanted[name] > self.live[name]]
        lowered = [name for name in reversed(names) if self.wanted[name] < self.live[name]]
        steps = [_set(name, self.wanted[name]) for name in raised + lowered]
        # A bond gives its MTU to its ports, and a port that is lowered takes its VLANs along: all that may have moved goes back.
        moved = {*names, *(lower for name in names for lower in pdctl_rails.beside(name, "lower"))}
        moved |= {
            upper for name in names for upper in pdctl_rails.beside(name, "upper") if pdctl_rails.kind(upper) == "vlan"
        }
        former = {name: pdctl_rails.mtu(name) for name in moved}
        order = pdctl_rails.lower_first(sorted(name for name in moved if former[name]))
        back_up = [name for name in order if former[name] >= self.wanted.get(name, former[name])]
        back_down = [name for name in reversed(order) if name not in back_up]
        return steps, [_set(name, former[name]) for name in back_down + back_up]

    def _files(self):
        """Path -> the text that it must have, of every file that holds the MTU of an interface."""
        files, by_udev, by_netplan, by_defaults = {}, {}, {}, {}
        for name, owner in self.owners.items():
            if name not in self.wanted:
                continue
            mtu, path = self.wanted[name], owner["file"]
            others = [each for each in owner.get("shared", ()) if each not in self.wanted]
            if owner.get("why"):
                self._not_at_boot(name, owner["why"])
            elif others:
                message = f"{owner['unit']} configures {', '.join(others)} as well"
                self._not_at_boot(name, f"{message}: the MTU of one alone cannot stand in it")
            elif owner["by"] == "networkd":
                files[path] = record.networkd(mtu)
            elif owner["by"] == "netplan":
                by_netplan[owner["section"], owner["id"]] = mtu
            elif owner["by"] == "ifupdown":
                files[path] = record.ifupdown(files.get(path, pdctl_boot.text_of(path) or ""), name, mtu)
            elif owner["by"] == "networkmanager-defaults":
                by_defaults[name] = mtu
            elif owner["by"] == "nobody":
                by_udev[name] = mtu
        if by_udev:
            files[pdctl_owner.UDEV_RULES] = record.udev(by_udev)
        if by_defaults:
            files[pdctl_owner.NM_DEFAULTS] = record.networkmanager(by_defaults)
        if by_netplan:
            files[pdctl_owner.NETPLAN_FILE] = record.netplan(by_netplan)
        return files

    def _not_at_boot(self, name, message):
        self.problems.append({"key": f"mtu {name} at boot", "outcome": "refused", "message": message})

    def overruled(self):
        """Says where netplan was told, and another file of its own says otherwise."""
        for name, owner in self.owners.items():
            if owner["by"] != "netplan" or owner.get("why") or name not in self.wanted:
                continue
            if not record.says(pdctl_boot.text_of(owner["unit"]) or "", self.wanted[name]):
                message = f"netplan reads {pdctl_owner.NETPLAN_FILE} and still gives `{owner['id']}` another MTU"
                self._not_at_boot(name, f"{message}: a file that it reads later names one (`netplan get`)")

    def by_networkmanager(self):
        """[(name, uuid, MTU as its connection has it)] of those that NetworkManager records with another."""
        found = []
        for name, owner in self.owners.items():
            if owner["by"] == "networkmanager" and owner["file"] and name in self.wanted:
                argv = ["nmcli", "-g", "802-3-ethernet.mtu", "connection", "show", "uuid", owner["uuid"]]
                code, printed, words = self.module.run_command(argv)
                if code != 0:
                    self._not_at_boot(name, f"nmcli: {words.strip()}")
                elif printed.strip() != str(self.wanted[name]):
                    found.append((name, owner["uuid"], printed.strip()))
        return found


def _set(name, mtu):
    return ["ip", "link", "set", "dev", name, "mtu", str(mtu)]


def take_up(module, plan, changed):
    """Whoever generates files from what was written does it now, so that the next boot has them. Live values stay."""
    if pdctl_owner.NETPLAN_FILE in changed:
        code, _printed, words = module.run_command(["netplan", "generate"])
        if code != 0:
            plan.problems.append(
                {"key": pdctl_owner.NETPLAN_FILE, "outcome": "refused", "message": f"netplan: {words.strip()}"}
            )
        else:
            plan.overruled()
        if module.get_bin_path("nmcli"):
            module.run_command(["nmcli", "connection", "reload"])
    if pdctl_owner.NM_DEFAULTS in changed:
        module.run_command(["systemctl", "reload", "--", "NetworkManager.service"])
    if pdctl_owner.UDEV_RULES in changed and module.get_bin_path("udevadm"):
        module.run_command(["udevadm", "control", "--reload"])


def write_records(module, plan, files, connections):
    for path in files:
        # What netplan reads may hold secrets of others; it warns of a mode above this.
        mode = 0o600 if path == pdctl_owner.NETPLAN_FILE else 0o644
        pdctl_boot.write(path, plan.files[path], Path(path).stat().st_mode & 0o7777 if Path(path).exists() else mode)
        if module.selinux_enabled():
            module.set_default_selinux_context(path, False)
    for name, uuid, _live in connections:
        argv = ["nmcli", "connection", "modify", "uuid", uuid, "802-3-ethernet.mtu", str(plan.wanted[name])]
        code, _printed, words = module.run_command(argv)
        if code != 0:
            module.fail_json(msg=f"mtu {name} at boot: nmcli: {words.strip()}")
    take_up(module, plan, files)
    for name, _uuid, live in plan.by_networkmanager():
        plan.problems.append(
            {
                "key": f"mtu {name} at boot",
                "outcome": "clamped",
                "live": live,
                "message": "nmcli took it and shows another",
            }
        )


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "record"], "default": "look"},
            "mtu": {"type": "int", "required": True},
            "rails": {"type": "list", "elements": "str", "default": []},
            "unused": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    plan = Plan(module)
    former = {path: pdctl_boot.text_of(path) for path in plan.files}
    files = [path for path, text in plan.files.items() if former[path] != text]
    connections = plan.by_networkmanager()
    if pdctl_owner.NETPLAN_FILE not in files:
        plan.overruled()
    records = files + [plan.owners[name]["file"] for name, _uuid, _live in connections]
    steps, undo = plan.steps()
    differing = plan.differing()
    diff = [
        {"before_header": path, "after_header": path, "before": former[path] or "", "after": plan.files[path]}
        for path in files
    ]
    diff += [
        {"before_header": uuid, "after_header": uuid, "before": f"mtu {live}\n", "after": f"mtu {plan.wanted[name]}\n"}
        for name, uuid, live in connections
    ]
    if differing:
        sides = [{name: plan.live[name] for name in differing}, {name: plan.wanted[name] for name in differing}]
        before, after = ("".join(f"mtu {name} = {value}\n" for name, value in side.items()) for side in sides)
        diff.append({"before_header": "live", "after_header": "live", "before": before, "after": after})
    if module.params["phase"] == "record" and not module.check_mode:
        write_records(module, plan, files, connections)
    module.exit_json(
        changed=bool(records) if module.params["phase"] == "record" else False,
        wanted=[{"key": f"mtu {name}", "wanted": plan.wanted[name], "live": plan.live[name]} for name in differing],
        steps=steps,
        undo=undo,
        records=records,
        state={f"mtu {name}": live for name, live in plan.live.items()},
        problems=plan.problems,
        notices=plan.notices,
        diff=diff,
    )


if __name__ == "__main__":
    main()
