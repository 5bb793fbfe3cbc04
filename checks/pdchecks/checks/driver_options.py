"""Module options that no module knows: they are accepted, ignored and do nothing."""

import re
from collections.abc import Iterable, Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge, of_family
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
    set_now = {(option.module, option.name) for option in node.all(ModuleOption)}
    looked = node.collected and node.saw("modprobe")
    past: dict[str, dict[str, list[Quote]]] = {}
    for event in node.all(KernelEvent):
        if event.kind == "unknown-parameter":
            module = event.device.replace("-", "_")
            when = past if looked and (module, event.detail) not in set_now else ghosts
            when.setdefault(module, {}).setdefault(event.detail, []).append(event.quote)
    for module, names in ghosts.items():
        yield _ghost(node, module, names, accepted.get(module))
    for module, names in past.items():
        if module not in ghosts:
            yield _past(module, names)
    for module, options in good.items():
        if module not in ghosts and module not in past:
            listed = ", ".join(f"{option.name}={option.value}" for option in options)
            summary = f"every option set is one that the module has: {listed}"
            yield Verdict(Status.PASS, module, summary, quotes=tuple(option.quote for option in options))


def _ghost(node: NodeFacts, module: str, names: dict[str, list[Quote]], accepted: ModuleParameters | None) -> Verdict:
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
        _remedy(module, names, node),
    )


def _remedy(module: str, names: Iterable[str], node: NodeFacts) -> Remedy:
    text = (
        f"Take the option out of /etc/modprobe.d and rebuild the initramfs, which may hold a copy of {module} with it."
    )
    commands = (
        f"grep -rn {module} /etc/modprobe.d",
        *(f"sed -i -E {rules} /etc/modprobe.d/*.conf" for rules in _deletions(module, names)),
        of_family(node, debian="update-initramfs -u", redhat="dracut -f"),
    )
    if module in _OF_THE_ROLE:
        return converge("mlx5", text, *commands, impact=Impact.DRIVER_RELOAD)
    return Remedy(text, commands=commands, impact=Impact.DRIVER_RELOAD)


def _deletions(module: str, names: Iterable[str]) -> Iterator[str]:
    """sed's expressions that take these options out of the module's lines, and a line that is left without any.

    None where nothing that stands for a name is one: it belongs into no shell.
    """
    plain = [re.escape(name) for name in names if re.fullmatch(r"[\w.-]{1,80}", name)]
    # modprobe.d(5): - and _ in a module's name are the same.
    line = f"/^[ \\t]*options[ \\t]+{re.escape(module).replace('_', '[-_]')}"
    if plain:
        # One at a time: two that stand side by side share the space between them.
        one = f"{line}[ \\t]/s/[ \\t]+({'|'.join(plain)})(=[^ \\t]*)?([ \\t]|$)/\\3/"
        yield f"-e ':again' -e '{one}' -e 't again' -e '{line}[ \\t]*$/d'"


def _past(module: str, names: dict[str, list[Quote]]) -> Verdict:
    return Verdict(
        Status.INFO,
        module,
        f"option {', '.join(names)} was ignored when the module was loaded; nothing sets it any more",
        "If the line comes back after a boot, the initramfs holds an old copy of the file.",
        tuple(dict.fromkeys(quote for quotes in names.values() for quote in quotes)),
    )


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
