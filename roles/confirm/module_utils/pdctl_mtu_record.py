"""The MTU of an interface as it is recorded for the next boot, by whoever configures the interface. Pure: text to text."""

import re

from ansible.module_utils import pdctl_owner

UDEV_HEAD = "# Written by pdctl from its policy: interfaces that no network manager configures.\n"
NM_HEAD = "# Written by pdctl from its policy: for profiles that name no MTU of their own.\n"
NETPLAN_HEAD = "# Written by pdctl from its policy; netplan joins it with the other files by each interface's id.\n"
# ifupdown's methods that know the option `mtu`, interfaces(5); others run a command.
KNOW_MTU = ("static", "manual", "loopback", "tunnel")


def networkd(mtu):
    return f"# Written by pdctl from its policy.\n[Link]\nMTUBytes={mtu}\n"


def udev(wanted):
    """wanted: interface -> MTU. NAME is known where udev renamed the interface, KERNEL where nothing did."""
    rule = 'ACTION=="add", SUBSYSTEM=="net", {key}=="{name}", ATTR{{mtu}}="{mtu}"\n'
    rows = [
        rule.format(key=key, name=name, mtu=mtu) for name, mtu in sorted(wanted.items()) for key in ("KERNEL", "NAME")
    ]
    return UDEV_HEAD + "".join(rows)


def networkmanager(wanted):
    """wanted: interface -> MTU. A section for each, NetworkManager.conf(5)."""
    section = "[connection-pdctl-{name}]\nmatch-device=interface-name:={name}\nethernet.mtu={mtu}\n"
    return NM_HEAD + "".join(section.format(name=name, mtu=mtu) for name, mtu in sorted(wanted.items()))


def says(text, mtu):
    """Whether a file that netplan generated, for systemd-networkd or NetworkManager, holds this MTU."""
    return re.search(rf"^(MTUBytes|mtu)={mtu}$", text, re.MULTILINE) is not None


def netplan(wanted):
    """wanted: (section, id) -> MTU."""
    lines = [NETPLAN_HEAD.rstrip("\n"), "network:", "  version: 2"]
    for section in sorted({section for section, _name in wanted}):
        lines.append(f"  {section}:")
        for (of, name), mtu in sorted(wanted.items()):
            if of == section:
                lines += [f"    {name}:", f"      mtu: {mtu}"]
    return "\n".join(lines) + "\n"


def ifupdown(text, name, mtu):
    """The file with the MTU in the first stanza of the interface; anything else of it stays."""
    lines = text.splitlines()
    begin, end = pdctl_owner.stanza(lines, name)
    method = [*lines[begin].split(), "", ""][3]
    option = f"    mtu {mtu}" if method in KNOW_MTU else f"    post-up ip link set dev {name} mtu {mtu}"
    ours = re.compile(rf"^\s+(mtu\s|(post-)?up\s+(/s?bin/)?ip\s+link\s+set\s+(dev\s+)?{re.escape(name)}\s+mtu\s)")
    kept = [line for line in lines[begin + 1 : end] if not ours.match(line)]
    at = len(kept)
    # Behind its last option: what follows belongs to the next stanza.
    while at and (not kept[at - 1].strip() or kept[at - 1].startswith("#")):
        at -= 1
    stanza = [lines[begin], *kept[:at], option, *kept[at:]]
    return "\n".join([*lines[:begin], *stanza, *lines[end:]]) + "\n"
