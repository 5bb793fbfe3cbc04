"""Who configures an interface at boot, and the file in which its MTU stands. Nothing of Ansible is needed here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from ansible.module_utils import pdctl_rails as rails

NETWORKD = Path("/run/systemd/netif/links")
NETPLAN = Path("/etc/netplan")
INTERFACES = Path("/etc/network/interfaces")
UDEV_RULES = "/etc/udev/rules.d/90-pdctl-mtu.rules"
NETPLAN_FILE = "/etc/netplan/90-pdctl.yaml"
DROP_IN = "90-pdctl-mtu.conf"
# NetworkManager.conf(5): what profiles take that name no MTU of their own.
NM_DEFAULTS = "/etc/NetworkManager/conf.d/90-pdctl-mtu.conf"
# Netplan generates nothing elsewhere: a file of this name in /etc is the site's.
_NETPLAN_UNIT = re.compile(
    r"/run/(?:systemd/network/10-netplan-(?P<networkd>.+)\.network|NetworkManager/system-connections/netplan-(?P<NetworkManager>.+)"
    r"\.nmconnection)$"
)
_LINKS = Path("/run/systemd/network")
_BY_CARD = re.compile(r"^(?:(?:Permanent)?MACAddress|Driver|mac-address)=", re.MULTILINE)
_SECTION = {"bond": "bonds", "vlan": "vlans", "bridge": "bridges"}
_BOUND_S = 20


def said(argv):
    """stdout of a command, empty where it is absent, fails or hangs."""
    if shutil.which(argv[0]) is None:
        return ""
    # nmcli answers in the language of whoever asks, and shows names of files as far as the locale has their letters.
    english = dict(os.environ, LC_ALL="C.UTF-8", LANGUAGE="C")
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_BOUND_S,
            env=english,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.decode("utf-8", "replace") if ended.returncode == 0 else ""


def owner(name):
    """{"by": networkd | networkmanager | networkmanager-defaults | netplan | ifupdown | nobody, "file": what holds or will hold the
    MTU, ...}; "why": the MTU can stand nowhere."""
    return _networkmanager(name) or _networkd(name) or _ifupdown(name) or {"by": "nobody", "file": UDEV_RULES}


def files(name):
    """Paths that recording the MTU of an interface may make or change, each with who must read it again."""
    of = owner(name)
    path = of["file"]
    if of["by"] == "networkd":
        return [{"path": str(Path(path).parent)}, {"path": path}]
    reads = of["by"] if of["by"].startswith(("netplan", "networkmanager")) else None
    return [{"path": path, **({"apply": reads} if reads else {})}] if path else []


def _networkd(name):
    index = rails.text(rails.SYS_NET / name / "ifindex")
    state = _assignments(NETWORKD / index) if index else {}
    unit = state.get("NETWORK_FILE")
    if not unit or state.get("ADMIN_STATE") in (None, "unmanaged"):
        return None
    netplan = _netplan(name, unit)
    if netplan:
        return netplan
    folder = f"/etc/systemd/network/{Path(unit).name}.d"
    return {"by": "networkd", "file": f"{folder}/{DROP_IN}", "shared": _shares(name, unit), "unit": unit}


def _shares(name, unit):
    """Other interfaces that the same file of networkd configures."""
    found = []
    for each in sorted(rails.SYS_NET.glob("*")):
        index = rails.text(each / "ifindex")
        if each.name != name and index and _assignments(NETWORKD / index).get("NETWORK_FILE") == unit:
            found.append(each.name)
    return found


def _networkmanager(name):
    if said(["nmcli", "-g", "RUNNING", "general"]).strip() != "running":
        return None
    state, _newline, uuid = said(["nmcli", "-g", "GENERAL.STATE,GENERAL.CON-UUID", "device", "show", name]).partition(
        "\n"
    )
    uuid = uuid.strip()
    # What it found configured by another it only watches.
    if not uuid or "externally" in state:
        return None
    rows = said(["nmcli", "-t", "-e", "no", "-f", "UUID,FILENAME", "connection", "show"]).splitlines()
    file = next((row[len(uuid) + 1 :] for row in rows if row.startswith(f"{uuid}:")), "")
    netplan = _netplan(name, file)
    if netplan:
        return netplan
    if file.startswith("/etc/"):
        return {"by": "networkmanager", "file": file, "uuid": uuid}
    return _without_a_file(uuid, file)


def _without_a_file(uuid, file):
    """NetworkManager made the profile up for an interface that has none, and makes it up anew at each boot."""
    profile = dict.fromkeys(("connection.id", "802-3-ethernet.mtu"), "")
    for key in profile:
        profile[key] = said(["nmcli", "-g", key, "connection", "show", "uuid", uuid]).strip()
    if profile["802-3-ethernet.mtu"] in ("", "0", "auto"):
        return {"by": "networkmanager-defaults", "file": NM_DEFAULTS}
    why = f"its connection `{profile['connection.id']}` names an MTU and stands in no file below /etc ({file or 'in memory'})"
    return {
        "by": "networkmanager",
        "file": "",
        "uuid": uuid,
        "why": f"{why}: `nmcli connection modify` it once, or make one of your own",
    }


def _netplan(name, unit):
    match = _NETPLAN_UNIT.match(unit)
    if match is None or not NETPLAN.is_dir():
        return None
    ((renderer, identity),) = [(key, value) for key, value in match.groupdict().items() if value]
    section = _SECTION.get(rails.kind(name), "ethernets")
    found = {
        "by": "netplan", "file": NETPLAN_FILE, "section": section, "id": identity, "renderer": renderer, "unit": unit,
    }  # fmt: skip
    # For an MTU netplan generates a .link file, and only the first one that matches a card counts: without a name in it the card keeps
    # the kernel's (systemd.link(5)). One that matches by name matches nothing before systemd has named the card.
    if _BY_CARD.search(_text(unit)) and not (_LINKS / f"10-netplan-{identity}.link").exists():
        why = (
            f"netplan knows `{identity}` by its card alone, so that with an MTU systemd would no longer name it at boot"
        )
        return dict(found, file="", why=f"{why}: give it `set-name: {name}`")
    return found


def _text(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _ifupdown(name):
    for path in interfaces_files():
        if stanza(path.read_text(encoding="utf-8", errors="replace").splitlines(), name):
            return {"by": "ifupdown", "file": str(path)}
    return None


def interfaces_files():
    """/etc/network/interfaces and what it reads, interfaces(5)."""
    if not INTERFACES.is_file():
        return []
    files = [INTERFACES]
    for line in INTERFACES.read_text(encoding="utf-8", errors="replace").splitlines():
        verb, _space, pattern = line.strip().partition(" ")
        pattern = pattern.strip().lstrip("/")
        if verb == "source" and pattern:
            files += sorted(each for each in Path("/").glob(pattern) if each.is_file())
        elif verb == "source-directory" and pattern:
            names = (each for each in Path("/").glob(f"{pattern}/*") if re.match(r"^[A-Za-z0-9_-]+$", each.name))
            files += sorted(each for each in names if each.is_file())
    return files


def stanza(lines, name):
    """(first line, line behind the last) of the first stanza of an interface, or None."""
    begin = None
    for number, line in enumerate(lines):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if begin is not None and words[0] in ("iface", "auto", "mapping", "source", "source-directory", "no-scripts"):
            return begin, number
        if begin is not None and (words[0].startswith("allow-") or words[0] == "no-auto-down"):
            return begin, number
        if words[:2] == ["iface", name]:
            begin = number
    return None if begin is None else (begin, len(lines))


def _assignments(path):
    lines = _text(path).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
