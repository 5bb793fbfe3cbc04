"""Live settings of the fabric, each with a name, a value in one line, and the commands that set it. Nothing of Ansible is needed.

`address eth0`, `mtu eth0`, `pfc eth0`, ... : KIND OBJECT. Whoever sets one reads it back: a command's exit code proves nothing.
"""

import re
import shutil
import subprocess
from pathlib import Path

from ansible.module_utils import pdctl_address_change as address_change
from ansible.module_utils import pdctl_address_record as address_record
from ansible.module_utils import pdctl_addresses as addresses
from ansible.module_utils import pdctl_bridging as bridging
from ansible.module_utils import pdctl_owner as owner
from ansible.module_utils import pdctl_rails as rails
from ansible.module_utils import pdctl_routes as routes

ABSENT = "absent"
ROCE_TOS = Path("/sys/kernel/config/rdma_cm")
DEBUGFS = Path("/sys/kernel/debug/mlx5")
_BOUND_S = 30
# In the order in which they are set; what is put back goes the other way. PFC is refused while 802.3x pause is on.
QOS = ("pause", *bridging.KINDS)
_PAUSE = re.compile(r"^(RX|TX):\s+(on|off)$", re.MULTILINE)


def run(argv):
    """(exit code, stdout, stderr); 127 where there is no such program, 124 where it hangs."""
    if shutil.which(argv[0]) is None:
        return 127, "", f"{argv[0]} is not installed"
    try:
        ended = subprocess.run(  # noqa: UP022 (capture_output needs Python 3.7)
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_BOUND_S
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"{argv[0]} gave no answer within {_BOUND_S} s"
    return ended.returncode, ended.stdout.decode("utf-8", "replace"), ended.stderr.decode("utf-8", "replace")


def read(name):
    """The live value, `absent` where this node has no such setting."""
    kind, _space, of = name.partition(" ")
    if kind == "mtu":
        value = rails.mtu(of)
        return ABSENT if value is None else str(value)
    if kind == "address":
        held = addresses.held(of, run)
        return ABSENT if held is None else addresses.text(held.lasting)
    if kind == "routes":
        known = routes.every(run)
        return ABSENT if known is None else routes.text(routes.through(of, known))
    if kind == "pause":
        found = dict(_PAUSE.findall(run(["ethtool", "-a", of])[1]))
        return f"rx {found['RX']} tx {found['TX']}" if len(found) == 2 else ABSENT
    if kind == "tos":
        return _roce_tos(of)
    if kind == "file":
        return _file(of)
    return bridging.look(of, run).get(kind, ABSENT)


def commands(name, value, now):
    """Commands that bring a setting from one value to another. now: None where it is not known, as at boot."""
    kind, _space, of = name.partition(" ")
    if value in (ABSENT, now):
        return []
    if kind == "mtu":
        return [["ip", "link", "set", "dev", of, "mtu", value]]
    if kind == "address":
        return _set_addresses(of, value, now)
    if kind == "pause":
        return [["ethtool", "-A", of, *value.split()]]
    if kind == "tos":
        return _set_roce_tos(of, value)
    if kind == "file":
        return [["sh", "-c", 'printf %s "$2" >"$1"', "pdctl", of, value]]
    return bridging.commands(of, kind, value, now, run)


def look(names):
    """Name -> live value."""
    return {name: read(name) for name in names}


def both_ways(names, wanted, live):
    """(commands that bring the settings from live to wanted, commands that bring them back). names: in the order of `names`."""
    steps = [argv for name in names for argv in commands(name, wanted[name], live[name])]
    # An MTU has the ones below it first on either way; of the rest, what was set last goes back first.
    mtus = [name for name in [*names, *moved_along(names)] if name.startswith("mtu ")]
    rest = [name for name in reversed(names) if name not in mtus]
    undo = [argv for name in rest for argv in _undone(name, live[name], wanted[name])]
    lowest_first = rails.lower_first([name[len("mtu ") :] for name in mtus])
    return steps, undo + [argv for each in lowest_first for argv in commands(f"mtu {each}", live[f"mtu {each}"], None)]


def moved_along(names):
    """What moves with these without being asked: MTUs of VLANs on a port that is lowered and of a bond's ports, routes of addresses."""
    of_addresses = [f"routes {name[len('address ') :]}" for name in names if name.startswith("address ")]
    of = [name[len("mtu ") :] for name in names if name.startswith("mtu ")]
    vlans = [each for name in of for each in rails.beside(name, "upper") if rails.kind(each) == "vlan"]
    ports = [each for name in of if rails.kind(name) == "bond" for each in rails.beside(name, "lower")]
    return of_addresses + [f"mtu {each}" for each in dict.fromkeys([*vlans, *ports]) if each not in of]


def names(areas):
    """What a role may set, in the order in which it is put back. areas: mappings area, rails, unused."""
    found = []
    for asked in areas:
        if asked["area"] == "address":
            found += [f"address {name}" for name in asked.get("rails") or ()]
            continue
        named = rails.rails(asked.get("rails") or (), asked.get("unused") or ())
        every = [*rails.below(named), *named]
        devices = rails.devices(asked.get("unused") or ())
        if asked["area"] == "mtu":
            # From below to above: a port that is lowered takes its VLANs along, and they are set after it.
            beside = {each for name in every for each in rails.beside(name, "upper") if rails.kind(each) == "vlan"}
            found += [f"mtu {name}" for name in rails.lower_first([*every, *sorted(beside - set(every))])]
        elif asked["area"] == "qos":
            ports = rails.ports(named)
            found += [f"file {path}" for port in ports for path in notification_marks(port)]
            found += [name for device in devices for name in marks(device)]
            found += [f"{kind} {port}" for port in ports for kind in reversed(QOS)]
        elif asked["area"] == "dcqcn":
            found += [f"file {path}" for port in rails.ports(named) for path in switches(port)]
    return list(dict.fromkeys(found))


def files(areas):
    """What the areas record beside the files that their roles name: mappings path, apply."""
    of_mtu = [name.partition(" ")[2] for name in names([each for each in areas if each["area"] == "mtu"])]
    of_address = [name for each in areas if each["area"] == "address" for name in each.get("rails") or ()]
    found = [each for name in of_mtu for each in owner.files(name)]
    found += [each for name in of_address for each in address_record.may_change(name)]
    return [each for at, each in enumerate(found) if each not in found[:at]]


def marks(device):
    """Settings of the byte with which an RDMA device marks its packets."""
    ports = sorted(each.name for each in (rails.SYS_RDMA / device / "ports").glob("*"))
    found = [f"tos {device}/{port}" for port in ports if ROCE_TOS.is_dir()]
    files = [rails.SYS_RDMA / device / "tc" / port / "traffic_class" for port in ports]
    return found + [f"file {path}" for path in files if path.exists()]


def notification_marks(port):
    """{path: dscp or priority} of what marks a port's congestion notification packets."""
    folder = rails.SYS_NET / port / "ecn" / "roce_np"
    found = {folder / "cnp_dscp": "dscp", folder / "cnp_802p_prio": "priority"}
    debug = DEBUGFS / pci(port) / "cc_params"
    found.update({debug / "np_cnp_dscp": "dscp", debug / "np_cnp_prio": "priority"})
    return {str(path): what for path, what in found.items() if path.exists()}


def switches(port):
    """Paths of what switches the roles of DCQCN on, by priority: .../roce_np/enable/3."""
    return [str(path) for path in sorted((rails.SYS_NET / port / "ecn").glob("roce_[nr]p/enable/[0-7]"))]


def pci(port):
    device = rails.SYS_NET / port / "device"
    return device.resolve().name if device.exists() else "-"


def _set_addresses(of, value, now):
    """With the routes that stand now and would go with the last address; none where those cannot be known."""
    was, wanted = ([] if each in (None, ABSENT) else addresses.words_of(each) for each in (now, value))
    known = routes.every(run)
    if known is None:
        return []
    again = routes.made_again(routes.through(of, known), wanted, families=(4,))
    return address_change.commands(of, was, wanted, routes.promotes(of), again)


def _undone(name, former, wanted):
    """Commands that bring a setting back from anywhere between the two."""
    kind, _space, of = name.partition(" ")
    if kind != "address" or ABSENT in (former, wanted):
        return commands(name, former, wanted)
    was, will = addresses.words_of(former), addresses.words_of(wanted)
    again = routes.made_again(routes.through(of, routes.every(run) or []), was)
    return address_change.undo(of, was, will, again)


def _file(path):
    """The first word or number of a file; OFED prints `Global tclass=106`, and nothing while none is set."""
    line = rails.text(path)
    if not Path(path).exists():
        return ABSENT
    return line.rpartition("=")[2].strip() if line else "-1"


def _roce_tos(of):
    """`104`, or `104 hidden` where no folder of configfs shows it. Making one to look changes nothing."""
    device, _slash, port = of.partition("/")
    folder = ROCE_TOS / device
    hidden = not folder.is_dir()
    try:
        if hidden:
            folder.mkdir()
        value = rails.text(folder / "ports" / port / "default_roce_tos")
    except OSError:
        return ABSENT
    finally:
        if hidden and folder.is_dir():
            folder.rmdir()
    return f"{value}{' hidden' if hidden else ''}" if value else ABSENT


def _set_roce_tos(of, value):
    device, _slash, port = of.partition("/")
    number, _space, hidden = value.partition(" ")
    folder = ROCE_TOS / device
    steps = [["mkdir", "-p", str(folder)]]
    steps += commands(f"file {folder}/ports/{port}/default_roce_tos", number, None)
    return steps + ([["rmdir", str(folder)]] if hidden else [])
