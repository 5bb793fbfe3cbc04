"""Module options that the next boot does not see: it loads the module from an initramfs that is older than they are."""

from collections.abc import Iterator

from pdchecks.check import NodeCheck, Verdict
from pdchecks.converge import converge, of_family
from pdchecks.facts.host import InitramfsModules, InitramfsOptions, ModuleOption, NewerOption
from pdchecks.finding import Impact, Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy

# Modules that the role mlx5 looks at whatever the policy says.
_OF_THE_ROLE = {"mlx5_core", "mlx5_ib"}


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    held = {fact.image: fact for fact in node.all(InitramfsModules)}
    configured = {option.module for option in node.all(ModuleOption)}
    asked = _OF_THE_ROLE | set(policy.values.modules.options)
    for compared in node.all(InitramfsOptions):
        newer: dict[str, list[NewerOption]] = {}
        for option in compared.newer:
            newer.setdefault(option.module, []).append(option)
        for module, options in newer.items():
            yield _judge(node, module, options, compared, held.get(compared.image))
        for module in sorted((configured & asked) - set(newer)):
            summary = f"no option of it is newer than {compared.image}"
            yield Verdict(Status.PASS, module, summary, quotes=(compared.quote,))


def _judge(
    node: NodeFacts, module: str, options: list[NewerOption], compared: InitramfsOptions, held: InitramfsModules | None
) -> Verdict:
    image = compared.image
    listed = ", ".join(f"{option.text} ({option.path})" for option in options[:4])
    if held is None:
        summary = f"not known whether the boot loads it from {image}, which is older than {listed}: its modules were not listed"
        return Verdict(Status.UNKNOWN, module, summary, quotes=(compared.quote,), verify=_verify(image, module))
    if module not in held.names:
        summary = f"the boot loads it from the disk, with {listed}: {image} is older, and does not hold it"
        return Verdict(Status.PASS, module, summary, quotes=(compared.quote, held.quote))
    return Verdict(
        Status.WARN,
        module,
        f"the next boot does not see {listed}: it loads {module} from {image}, which is older",
        "An initramfs has its own copy of modprobe.d, as it was when the image was made. A module that is loaded from it gets the "
        "options of that copy, and keeps them: loading it a second time does nothing.",
        (compared.quote, held.quote),
        _verify(image, module),
        _remedy(node, module),
    )


def _verify(image: str, module: str) -> tuple[str, ...]:
    return (f"find /etc/modprobe.d -newer {image}", f"lsinitramfs {image} | grep {module}   # RHEL family: lsinitrd")


def _remedy(node: NodeFacts, module: str) -> Remedy:
    text = "Make the initramfs again, which copies the options of now."
    command = of_family(node, debian="update-initramfs -u", redhat="dracut -f")
    if module in _OF_THE_ROLE:
        return converge("mlx5", text, command, impact=Impact.DRIVER_RELOAD)
    return Remedy(text, commands=(command,))


CHECK = NodeCheck(
    id="PD-BOOT-003",
    topic="driver.boot",
    title="Module option that the initramfs does not hold",
    severity=Severity.MEDIUM,
    tools=("find", "lsinitramfs", "lsinitrd"),
    sources=("initramfs-tools(7), mkinitramfs(8)", "dracut(8), lsinitrd(1)", "modprobe.d(5)"),
    on_demand=True,
    judge=judge,
)
