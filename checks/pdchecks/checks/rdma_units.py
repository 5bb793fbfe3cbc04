"""RDMA units and modules of the distribution: whether the node has what loads its RDMA stack at boot."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict, mild
from pdchecks.converge import converge, of_family
from pdchecks.fabric import ports
from pdchecks.facts.gpu import Gpu, GpuPresent
from pdchecks.facts.host import LoadedModules, ModuleParameters, OsRelease, Unit, UnitAsked
from pdchecks.facts.net import NicDriver
from pdchecks.facts.rdma import NoRdmaDevice, RdmaDevice, RdmaPort
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.parse.modules import canonical
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown, known

# Before rdma-core 32 (2020) and in EL7 one unit loaded the modules; Debian never had it.
_OLD_UNIT = "rdma.service"
# NVIDIA's own stack loads them by its own unit.
_VENDOR_UNIT = "openibd.service"
_CONNECTION_MANAGER = ("rdma_cm", "rdma_ucm")
_VERIFY = ("systemctl list-unit-files 'rdma*'", "lsmod | grep -E 'ib_uverbs|rdma_cm'", "ls /dev/infiniband")


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    units = {unit.name: unit for unit in node.all(Unit)}
    for asked in node.all(UnitAsked):
        if asked.name.removesuffix(".service") == "rdma":
            yield _old_unit_asked(asked, node)
    vendor = units.get(_VENDOR_UNIT)
    if vendor is not None and vendor.load == "loaded":
        yield _vendor(vendor)
    else:
        for name in _wanted_units(node, policy):
            if name in units:
                yield _unit(units[name], node)
    old = units.get(_OLD_UNIT)
    if old is not None and old.load == "loaded" and old.active == "failed":
        yield _failed(old)
    yield from _modules(node, policy)
    if cards := _cards_without_device(node):
        yield _no_device(cards, node)


def _wanted_units(node: NodeFacts, policy: Policy) -> list[str]:
    families = policy.values.services.get("rdma", {})
    release = next(iter(node.all(OsRelease)), None)
    if release is not None and release.family in families:
        return families[release.family].units
    return list(dict.fromkeys(unit for family in families.values() for unit in family.units))


def _uses_rdma(node: NodeFacts) -> bool:
    return bool(node.all(RdmaDevice) or node.all(RdmaPort)) and not node.all(NoRdmaDevice)


def _unit(unit: Unit, node: NodeFacts) -> Verdict:
    if unit.load == "not-found":
        return Verdict(
            Status.FAIL if _uses_rdma(node) else Status.WARN,
            unit.name,
            f"{unit.name} does not exist on this node",
            "The distribution's rdma-core brings it; without it nothing loads ib_uverbs and rdma_cm when the "
            "card appears.",
            (unit.quote,),
            _VERIFY,
            converge(
                "rdma",
                "Install rdma-core, whose udev rules and units load the modules.",
                of_family(node, debian="apt-get install -y rdma-core", redhat="dnf install -y rdma-core"),
            ),
        )
    if unit.load == "masked":
        return _masked(unit)
    if unit.load != "loaded" or unit.active == "failed":
        return _failed(unit)
    return Verdict(
        Status.PASS, unit.name, f"{unit.name} is {unit.load}, {unit.active or 'state not shown'}", quotes=(unit.quote,)
    )


def _masked(unit: Unit) -> Verdict:
    return Verdict(
        Status.FAIL,
        unit.name,
        f"{unit.name} is masked: nothing can start it",
        "Somebody linked it to /dev/null, so that the card's appearance at boot no longer loads the RDMA stack by it.",
        (unit.quote,),
        (f"systemctl status {unit.name}", f"ls -l /etc/systemd/system/{unit.name}"),
        Remedy("Take the link away.", commands=(f"systemctl unmask {unit.name}",)),
    )


def _failed(unit: Unit) -> Verdict:
    how = f" ({unit.result})" if unit.result and unit.result != "success" else ""
    return Verdict(
        Status.FAIL,
        unit.name,
        f"{unit.name} is {unit.load}, {unit.active}{how}",
        "systemd could not do what the unit says; its journal names the module or file.",
        (unit.quote,),
        (f"systemctl status {unit.name}", f"journalctl -b -u {unit.name}"),
        Remedy("Fix what the journal names and start it again.", commands=(f"systemctl restart {unit.name}",)),
    )


def _vendor(unit: Unit) -> Verdict:
    if unit.active == "failed":
        return _failed(unit)
    summary = f"{unit.name} loads the RDMA stack (NVIDIA's packages), {unit.active or 'state not shown'}"
    return Verdict(Status.PASS, unit.name, summary, quotes=(unit.quote,))


def _old_unit_asked(asked: UnitAsked, node: NodeFacts) -> Verdict:
    loaded = {name for fact in node.all(LoadedModules) for name in fact.names}
    running = "; ib_uverbs is loaded without it" if "ib_uverbs" in loaded else ""
    return Verdict(
        Status.INFO,
        _OLD_UNIT,
        f"{_OLD_UNIT} does not exist here, and nothing needs it{running}",
        "rdma-core removed it in version 32 (2020); Debian and Ubuntu never had it. Now udev pulls in "
        "rdma-hw.target and "
        "rdma-load-modules@rdma.service, NVIDIA's packages use openibd.service.",
        (asked.quote,),
        _VERIFY,
    )


def _modules(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lists = node.all(LoadedModules)
    if not lists:
        return
    loaded = {name for fact in lists for name in fact.names}
    installed = {fact.module: fact.names for fact in node.all(ModuleParameters)}
    for module in policy.values.modules.load:
        name = canonical(module)
        if name in loaded:
            yield Verdict(Status.PASS, f"module {module}", f"module {module} is loaded", quotes=(lists[0].quote,))
        elif not _lacks(node, name):
            continue
        elif isinstance(absent := installed.get(name), Unknown):
            yield Verdict(
                Status.UNKNOWN,
                f"module {module}",
                f"not known whether module {module} is at work where the kernel is: not loaded as seen here; {absent.reason}",
                "The kernel that runs has no such module; a container shares its host's kernel and modules.",
                (lists[0].quote,),
                (f"modinfo {module}", "uname -r"),
            )
        elif name in installed or _uses_rdma(node):
            verdict = Verdict(
                Status.FAIL if _uses_rdma(node) else Status.WARN,
                f"module {module}",
                f"module {module} is not loaded",
                "Verbs programs reach the card through it (/dev/infiniband), and connect by rdma_cm.",
                (lists[0].quote,),
                _VERIFY,
                converge("rdma", "Load it now and at boot.", f"modprobe {module}"),
            )
            unneeded = name in _CONNECTION_MANAGER and _has_no_connection_manager(node)
            yield mild(verdict, "which EFA has no use for") if unneeded else verdict


def _lacks(node: NodeFacts, module: str) -> bool:
    lists = node.all(LoadedModules)
    return any(fact.lacks(module) for fact in lists) and not any(module in fact.names for fact in lists)


def _has_no_connection_manager(node: NodeFacts) -> bool:
    """EFA, whose ports are neither Ethernet nor InfiniBand, is addressed by libfabric without rdma_cm."""
    return bool(ports(node)) and all(port.layer == "Unspecified" for port in ports(node))


def _cards_without_device(node: NodeFacts) -> list[NicDriver]:
    """Each of their kind has RDMA; of other makers' many serve as plain Ethernet."""
    shown = node.all(NicDriver) if node.all(NoRdmaDevice) and not node.all(RdmaPort) else ()
    return [fact for fact in shown if known(fact.driver) == "mlx5_core"]


def _no_device(cards: list[NicDriver], node: NodeFacts) -> Verdict:
    absent = ": mlx5_ib is not loaded" if _lacks(node, "mlx5_ib") else ""
    names = ", ".join(dict.fromkeys(card.netdev for card in cards))
    return Verdict(
        Status.FAIL if bool(node.all(Gpu)) or bool(node.all(GpuPresent)) else Status.WARN,
        "RDMA devices",
        f"the kernel shows no RDMA device, although {names} belongs to a card that has one (mlx5_core){absent}",
        "Verbs programs find nothing and fall back to TCP, or stop. mlx5_ib is not built for this kernel (Ubuntu keeps it in "
        "linux-modules-extra), kept out by modprobe.d, or refused the card; or RDMA is switched off for the device, or is in "
        "another network namespace.",
        (node.all(NoRdmaDevice)[0].quote, *(card.quote for card in cards[:7])),
        (
            "lsmod | grep mlx5_ib",
            "dmesg | grep -i mlx5_ib",
            "modprobe -c | grep mlx5_ib",
            "devlink dev param show",
            "rdma system",
        ),
        Remedy(
            "Load it, and see in the kernel log why it was not loaded by itself.",
            commands=("modprobe mlx5_ib", "ls /sys/class/infiniband"),
            survives_reboot=False,
        ),
    )


CHECK = NodeCheck(
    id="PD-SVC-001",
    topic="service.rdma",
    title="RDMA stack is not loaded at boot",
    severity=Severity.HIGH,
    tools=("systemctl", "lsmod"),
    sources=(
        "rdma-core commit aaf389f44 (2020): the rdma unit removed",
        "rdma-core redhat/ and debian/: rdma-hw.target, rdma-load-modules@.service",
        "NVIDIA OFED: openibd.service",
    ),
    judge=judge,
)
