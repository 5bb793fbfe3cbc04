#!/usr/bin/python
"""Says how the addresses of interfaces must change on this node, live and at boot, and records them for the boot."""

import ipaddress
import json
from pathlib import Path

from ansible.module_utils import pdctl_address_change as change
from ansible.module_utils import pdctl_address_record as record
from ansible.module_utils import pdctl_addresses as addresses
from ansible.module_utils import pdctl_boot, pdctl_owner, pdctl_rails, pdctl_routes
from ansible.module_utils import pdctl_settings as settings
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: pdctl_address
short_description: Look at the addresses of interfaces, and record them for the next boot
description:
  - A named interface gets exactly the wanted global addresses. Those that DHCP or a router gave are left, and refused for IPv4.
  - "Looking changes nothing; it gives the commands that set the live addresses and those that undo them, for pdctl_confirmed."
  - An interface is left as it is when routes or rules stand on an address that would go, or when its owner cannot record the change.
  - Recording writes the file of whoever configures the interface (NetworkManager, netplan, systemd-networkd, ifupdown).
  - Where nobody does, a unit gives the addresses at boot, and a rule of udev when the interface appears.
options:
  phase:
    description: look, or record.
    type: str
    choices: [look, record]
    default: look
  addresses:
    description: "Interface -> addresses with prefix lengths; null leaves an interface alone."
    type: dict
    required: true
author: pdctl
"""

RETURN = r"""
steps:
  description: As of pdctl_mtu; so are undo, state, wanted, records, problems, notices.
  returned: always
  type: list
"""

AREA = "address"
# Each is a command of the way back, which has its time.
MOST_ROUTES = 200
LATER = (
    "{} reads {} with its next start or reload; until then an interface that was without link gets its former addresses"
)


class Plan:
    """What each interface holds and must hold, and who records it. An interface with a problem is left as it is."""

    def __init__(self, module):
        self.module = module
        self.problems, self.notices, self.wanted, self.diff = [], [], [], []
        self.steps, self.undo, self.state = [], [], {}
        self.files, self.connections, self.by_nobody = {}, [], {}
        self.asked = {name: asked for name, asked in module.params["addresses"].items() if asked is not None}
        self.routes = pdctl_routes.every(settings.run)
        self.sources = pdctl_routes.rules(settings.run)
        for name in self.asked:
            try:
                self._plan(name, addresses.plain(self.asked[name]))
            except addresses.Refused as why:
                self._refuse(name, f"{why}: nothing was set")

    def _refuse(self, name, message):
        if not pdctl_rails.exists(name):
            message = "the policy gives addresses to this interface, and the node has none of that name"
            self.problems.append({"key": name, "outcome": "absent", "message": message})
            return
        live = settings.read(f"address {name}")
        problem = {"key": f"address {name}", "outcome": "refused", "message": message, "live": live}
        self.problems.append(dict(problem, wanted=", ".join(map(str, self.asked[name]))))

    def _plan(self, name, asked):
        held = addresses.held(name, settings.run)
        if held is None or self.routes is None:
            raise addresses.Refused("`ip` does not say what it holds")
        mine = pdctl_routes.through(name, self.routes)
        self._look_for_hindrances(name, asked, held, mine)
        owner = pdctl_owner.owner(name)
        new = record.files(name, asked, owner, lambda path: self.files.get(path, pdctl_boot.text_of(path)))
        if owner["by"] == "networkmanager":
            self._connection(name, owner, asked)
        self.files.update(new)
        if owner["by"] == "nobody":
            self.by_nobody[name] = asked
        self._say_later(name, owner, new)
        self.state[f"address {name}"] = addresses.text(held.lasting)
        self.state[f"routes {name}"] = pdctl_routes.text(mine)
        if not addresses.serves(held.lasting, asked):
            self._change(name, asked, held.lasting, mine)

    def _look_for_hindrances(self, name, asked, held, mine):
        if (pdctl_rails.SYS_NET / name / "master").exists():
            raise addresses.Refused(f"it is a port of {(pdctl_rails.SYS_NET / name / 'master').resolve().name}")
        if held.lent:
            raise addresses.Refused(
                f"{', '.join(held.lent)} was lent to it (DHCP), and whoever asked for it asks again"
            )
        elsewhere = self._elsewhere(name, asked)
        if elsewhere:
            raise addresses.Refused(f"another interface of the node has {', '.join(elsewhere)}")
        if len(mine) > MOST_ROUTES:
            raise addresses.Refused(f"{len(mine)} routes leave by it, too many to be put back one by one")
        hindrances = pdctl_routes.standing_on(name, held.lasting, asked, self.routes, self.sources)
        if hindrances:
            raise addresses.Refused(f"{'; '.join(hindrances)}. Change that first, or give both addresses meanwhile")

    def _elsewhere(self, name, asked):
        """Addresses of other interfaces, but for those that give them away in this run."""
        code, printed, _said = settings.run(["ip", "-json", "address", "show"])
        found = []
        for link in json.loads(printed) if code == 0 else []:
            other = link.get("ifname")
            given = [str(ipaddress.ip_interface(each).ip) for each in self.asked.get(other, [])]
            for row in link.get("addr_info", []):
                wanted = row.get("local") in [each.partition("/")[0] for each in asked]
                if other != name and wanted and (other not in self.asked or row["local"] in given):
                    found.append(f"{row['local']} ({other})")
        return found

    def _connection(self, name, owner, asked):
        fields = "ipv4.method,ipv4.addresses,ipv6.method,ipv6.addresses"
        argv = ["nmcli", "--escape", "no", "-g", fields, "connection", "show", "uuid", owner["uuid"]]
        code, printed, said = settings.run(argv)
        shown = [*printed.splitlines(), "", "", "", ""][:4]
        if code != 0:
            raise addresses.Refused(f"nmcli: {said.strip()}")
        properties = record.networkmanager(shown, asked)
        if properties:
            self.connections.append((owner["uuid"], owner["file"], properties))
            self.differ(owner["file"], f"{shown}\n", f"{properties}\n")

    def _say_later(self, name, owner, new):
        moved = [path for path, text in new.items() if pdctl_boot.text_of(path) != text]
        reader = {"networkd": "systemd-networkd", "netplan": "netplan"}.get(owner["by"])
        if moved and reader:
            self.notices.append({"key": f"address {name}", "message": LATER.format(reader, ", ".join(moved))})

    def _change(self, name, asked, lasting, mine):
        promote = pdctl_routes.promotes(name)
        target = change.target(lasting, asked, promote)
        again = pdctl_routes.made_again(mine, target, families=(4,))
        self.steps += change.commands(name, lasting, target, promote, again)
        # The last that was changed goes back first.
        self.undo[:0] = change.undo(name, lasting, target, pdctl_routes.made_again(mine, lasting))
        sides = {"live": addresses.text(lasting), "wanted": addresses.text(target)}
        self.wanted.append(dict(sides, key=f"address {name}"))
        self.differ("live", *(f"address {name} = {sides[side]}\n" for side in ("live", "wanted")))

    def differ(self, header, before, after):
        self.diff.append({"before_header": header, "after_header": header, "before": before, "after": after})

    def moved_files(self):
        return [path for path, text in self.files.items() if pdctl_boot.text_of(path) != text]

    def unit(self):
        """Files of the unit that gives the addresses of interfaces that nobody configures."""
        folder = pdctl_rails.SYS_NET
        steps = [(str(folder / name), change.at_boot(name, asked)) for name, asked in self.by_nobody.items()]
        what = "addresses of interfaces that no network manager configures"
        return pdctl_boot.files(AREA, what, list(self.by_nobody), steps) if steps else {}


def write_records(module, plan, files, unit):
    """Live addresses stay: no manager is restarted."""
    for path in files:
        # What netplan reads may hold secrets of others; it warns of a mode above this.
        mode = 0o600 if path.startswith("/etc/netplan/") else 0o644
        pdctl_boot.write(path, plan.files[path], Path(path).stat().st_mode & 0o7777 if Path(path).exists() else mode)
        if module.selinux_enabled():
            module.set_default_selinux_context(path, False)
    for uuid, _file, properties in plan.connections:
        code, _printed, said = module.run_command(["nmcli", "connection", "modify", "uuid", uuid, *properties])
        if code != 0:
            module.fail_json(msg=f"addresses at boot: nmcli: {said.strip()}")
    if any(path.startswith("/etc/netplan/") for path in files):
        code, _printed, said = module.run_command(["netplan", "generate"])
        if code != 0:
            module.fail_json(msg=f"addresses at boot: netplan: {said.strip()}")
    if unit:
        plan.problems += pdctl_boot.record(module, AREA, unit)


def main():
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["look", "record"], "default": "look"},
            "addresses": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    plan = Plan(module)
    unit = plan.unit()
    files, of_unit = plan.moved_files(), pdctl_boot.differing(module, AREA, unit) if unit else []
    texts = dict(plan.files, **{path: text for path, (text, _mode) in unit.items()})
    for path in [*files, *of_unit]:
        if path in texts:
            plan.differ(path, pdctl_boot.text_of(path) or "", texts[path])
    records = [*files, *of_unit, *(file for _uuid, file, _properties in plan.connections)]
    recording = module.params["phase"] == "record" and records and not module.check_mode
    if recording:
        write_records(module, plan, files, unit if of_unit else {})
    module.exit_json(
        changed=bool(recording),
        wanted=plan.wanted,
        steps=plan.steps,
        undo=plan.undo,
        records=records,
        state=plan.state,
        problems=plan.problems,
        notices=plan.notices,
        diff=plan.diff,
    )


if __name__ == "__main__":
    main()
