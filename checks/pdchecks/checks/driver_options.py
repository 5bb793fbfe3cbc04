"""Module options that no module knows: they are accepted, ignored and do nothing."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge
from pdchecks.evidence import Quote
from pdchecks.facts.host import ModuleOption, ModuleParameters
from pdchecks.facts.log import KernelEvent
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import Unknown

# Taken from every module's options by the module loader itself (linux kernel/module/main.c, lib/dynamic_debug.c).
_LOADER = {"dyndbg", "async_probe"}
# Modules that the role mlx5 looks at whatever the policy says.
_OF_THE_ROLE = {"mlx5_core", "mlx5_ib"}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    accepted = {fact.module: fact for fact in node.all(ModuleParameters)}
    ghosts: dict[str, dict[str, list[Quote]]] = {}
    good: dict[str, list[ModuleOption]] = {}
    for option in node.all(ModuleOption):
        known = accepted.get(option.module)
        if known is None or isinstance(known.names, Unknown):
            continue
        if option.name in known.names or option.name in _LOADER:
            good.setdefault(option.module, []).append(option)
        else:
            ghosts.setdefault(option.module, {}).setdefault(option.name, [option.quote]).append(known.quote)
    for event in node.all(KernelEvent):
        if event.kind == "unknown-parameter":
            ghosts.setdefault(event.device.replace("-", "_"), {}).setdefault(event.detail, []).append(event.quote)
    for module, names in ghosts.items():
        yield _ghost(module, names, accepted.get(module))
    for module, options in good.items():
        if module not in ghosts:
            listed = ", ".join(f"{option.name}={option.value}" for option in options)
            summary = f"every option set is one that the module has: {listed}"
            yield Verdict(Status.PASS, module, summary, quotes=tuple(option.quote for option in options))


def _ghost(module: str, names: dict[str, list[Quote]], accepted: ModuleParameters | None) -> Verdict:
    has = accepted.names if accepted else None
    real = f" It has: {', '.join(sorted(has)) or 'none at all'}." if isinstance(has, frozenset) else ""
    sizes = (
        " mlx5 takes queue depths from the program (max_send_wr) and ring sizes from ethtool -G, not from options."
        if module == "mlx5_core"
        else ""
    )
    return Verdict(
        Status.WARN,
        module,
        f"option {', '.join(names)} does not exist in this module and does nothing",
        f"The kernel loads the module, writes one line that it ignores the option, and reports success.{real}{sizes}",
        tuple(dict.fromkeys(quote for quotes in names.values() for quote in quotes)),
        (f"modinfo -p {module}", f"modprobe -c | grep '^options {module} '", "dmesg | grep 'unknown parameter'"),
        _remedy(module),
    )


def _remedy(module: str) -> Remedy:
    text = (
        f"Take the option out of /etc/modprobe.d and rebuild the initramfs, which may hold a copy of {module} with it."
    )
    commands = (f"grep -rn {module} /etc/modprobe.d", "update-initramfs -u   # dracut -f on the RHEL family")
    if module in _OF_THE_ROLE:
        return converge("mlx5", text, *commands, impact=Impact.DRIVER_RELOAD)
    return Remedy(text, commands=commands, impact=Impact.DRIVER_RELOAD)


CHECK = NodeCheck(
    id="PD-DRV-002",
    topic="driver.options",
    title="Module option that does not exist",
    severity=Severity.LOW,
    tools=("modprobe", "modprobe.d", "dmesg"),
    sources=("linux kernel/module/main.c, unknown_module_param_cb()", "linux mlx5 core/main.c"),
    silence_passes=True,
    judge=judge,
)
