"""Who configures an interface at boot, and the file in which its MTU stands. Nothing of Ansible is needed here."""

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
_NETPLAN_UNIT = re.compile(r"(?:10-)?netplan-(?P<id>.+?)\.(?:network|nmconnection)$")
_SECTION = {"bond": "bonds", "vlan": "vlans"}
_BOUND_S = 20


def said(argv):
    """stdout of a command, empty where it is absent, fails or hangs."""
    if shutil.which(argv[0]) is None:
        return ""
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_BOUND_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.decode("utf-8", "replace") if ended.returncode == 0 else ""


def owner(name):
    """{"by": networkd | networkmanager | netplan | ifupdown | nobody, "file": what holds or will hold the MTU, ...}"""
    return _networkmanager(name) or _networkd(name) or _ifupdown(name) or {"by": "nobody", "file": UDEV_RULES}


def files(name):
    """Paths that recording the MTU of an interface may make or change, each with who must read it again."""
    of = owner(name)
    path = of["file"]
    if of["by"] == "networkd":
        return [{"path": str(Path(path).parent)}, {"path": path}]
    reads = {"netplan": "netplan", "networkmanager": "networkmanager"}.get(of["by"])
    return [{"path": path, **({"apply": reads} if reads else {})}] if path else []


def _networkd(name):
    index = rails.text(rails.SYS_NET / name / "ifindex")
    state = _assignments(NETWORKD / index) if index else {}
    unit = state.get("NETWORK_FILE")
    if not unit or state.get("ADMIN_STATE") in (None, "unmanaged"):
        return None
    netplan = _netplan(name, Path(unit).name, "networkd")
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
    if shutil.which("nmcli") is None or said(["nmcli", "-t", "-g", "RUNNING", "general"]).strip() != "running":
        return None
    uuid = said(["nmcli", "-g", "GENERAL.CON-UUID", "device", "show", name]).strip()
    if not uuid:
        return None
    rows = said(["nmcli", "-t", "-f", "UUID,FILENAME", "connection", "show"]).splitlines()
    file = next((row[len(uuid) + 1 :].replace("\\:", ":") for row in rows if row.startswith(f"{uuid}:")), "")
    netplan = _netplan(name, Path(file).name, "NetworkManager")
    return netplan or {"by": "networkmanager", "file": file, "uuid": uuid}


def _netplan(name, unit, renderer):
    match = _NETPLAN_UNIT.match(unit)
    if match is None or not NETPLAN.is_dir():
        return None
    section = _SECTION.get(rails.kind(name), "ethernets")
    return {"by": "netplan", "file": NETPLAN_FILE, "section": section, "id": match.group("id"), "renderer": renderer}


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
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
