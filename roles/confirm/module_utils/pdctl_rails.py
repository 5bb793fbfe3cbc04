"""Which interfaces of a node are its fabric, and what they stand on. Read from sysfs; nothing of Ansible is needed here."""

from pathlib import Path

SYS_NET = Path("/sys/class/net")
SYS_RDMA = Path("/sys/class/infiniband")
# linux include/uapi/linux/if_arp.h
ARPHRD_ETHER = "1"


def text(path):
    """First line of a file, empty where it cannot be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[0].strip() if lines else ""


def exists(name):
    return (SYS_NET / name).is_dir()


def mtu(name):
    """The live MTU, None where there is no such interface."""
    value = text(SYS_NET / name / "mtu")
    return int(value) if value.isdigit() else None


def kind(name):
    """bond, vlan, bridge, ... as the kernel calls it; empty for a port."""
    if (SYS_NET / name / "bonding").is_dir():
        return "bond"
    try:
        lines = (SYS_NET / name / "uevent").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line[len("DEVTYPE=") :] for line in lines if line.startswith("DEVTYPE=")), "")


def beside(name, link):
    """Interfaces that `name` has as `lower` or `upper`."""
    return sorted(each.name[len(link) + 1 :] for each in (SYS_NET / name).glob(f"{link}_*"))


def of_device(device):
    """Ethernet interfaces of one RDMA device: of its PCI function, or the one that a software device stands on."""
    folder = SYS_RDMA / device
    found = [each.name for each in folder.glob("device/net/*")] or [text(folder / "parent")]
    found += [text(each) for each in sorted(folder.glob("ports/*/gid_attrs/ndevs/*"))]
    real = [each for each in dict.fromkeys(found) if each and text(SYS_NET / each / "type") == ARPHRD_ETHER]
    # A port of the switch inside the card (pf0vf1, pf0sf2) is no port of the fabric.
    return [each for each in real if "f" not in text(SYS_NET / each / "phys_port_name")[2:]]


def devices(unused=()):
    """Names of the RDMA devices but those that no cable is meant to reach."""
    return sorted(each.name for each in SYS_RDMA.glob("*") if each.name not in unused)


def found(unused=()):
    """Ports of RDMA devices, with the bonds and VLANs on them."""
    names = [name for device in devices(unused) for name in of_device(device)]
    for name in names:
        # The list grows while it is read: a VLAN may stand on a bond.
        uppers = beside(name, "upper")
        names += [each for each in uppers if each not in names and kind(each) in ("bond", "vlan")]
    return list(dict.fromkeys(names))


def rails(named=(), unused=()):
    """The fabric's interfaces, those below first. named: by the policy; empty means what RDMA devices have."""
    return lower_first(named or found(unused))


def lower_first(names):
    ordered = []

    def put(name, depth):
        if depth < 8:
            for each in beside(name, "lower"):
                if each in names:
                    put(each, depth + 1)
        if name not in ordered:
            ordered.append(name)

    for name in names:
        put(name, 0)
    return ordered


def below(names):
    """What the rails stand on and is no rail itself, the lowest first."""
    found_below = []
    for name in names:
        for each in beside(name, "lower"):
            if each not in names and each not in found_below:
                found_below += [*(lower for lower in below([each]) if lower not in found_below), each]
    return found_below


def ports(names):
    """The ports among the rails and below them: what has a driver of its own, as QoS needs it."""
    every = [*below(names), *names]
    return [name for name in every if not kind(name) and exists(name)]
