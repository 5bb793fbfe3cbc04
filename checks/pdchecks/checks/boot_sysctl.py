"""Kernel settings that are right now and wrong after the next boot, or the other way round."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pdchecks.check import NodeCheck, Verdict
from pdchecks.facts.host import Sysctl, SysctlLine
from pdchecks.finding import Remedy, Severity, Status
from pdchecks.nodefacts import NodeFacts
from pdchecks.policy import Policy
from pdchecks.unknown import known

# sysctl.d(5): a file of an earlier directory hides the one of the same name in a later.
_DIRECTORIES = ("/etc/sysctl.d/", "/run/sysctl.d/", "/usr/local/lib/sysctl.d/", "/usr/lib/sysctl.d/")
_OLD_FILE = "/etc/sysctl.conf"


def judge(node: NodeFacts, policy: Policy) -> Iterator[Verdict]:
    lines = node.all(SysctlLine)
    if not lines:
        return
    live = {fact.key: value for fact in node.all(Sysctl) if (value := known(fact.value)) is not None}
    for key, setting in policy.values.sysctl.items():
        wanted = None if setting is None else " ".join(str(setting).split())
        line = _last(key, lines)
        if wanted is None or line is None:
            continue
        now = live.get(key)
        place = f"{line.path}, line {line.line}"
        if line.value == wanted and now in (wanted, None):
            yield Verdict(Status.PASS, key, f"{key} stays {wanted} after a boot ({place})", quotes=(line.quote,))
        elif line.value != wanted and now == wanted:
            yield Verdict(
                Status.WARN,
                key,
                f"{key} is {wanted} now and {line.value} after the next boot: {place}",
                "Files of sysctl.d are read in the order of their names, whatever their folder, and the last one wins.",
                (line.quote,),
                ("systemd-analyze cat-config sysctl.d", f"grep -rs '{key}' /etc/sysctl.conf /etc/sysctl.d"),
                Remedy(
                    f"Take the line out of {line.path}, or rename the file so that it sorts before the role's drop-in.",
                    commands=(f"sed -i '{line.line}d' {line.path}", "sysctl --system"),
                ),
            )


def _last(key: str, lines: tuple[SysctlLine, ...]) -> SysctlLine | None:
    """The line that decides at boot: of the last file by name; a pattern counts only where no line names the key."""
    hidden = _hidden({line.path for line in lines})
    ordered = sorted(
        (line for line in lines if line.path not in hidden),
        key=lambda line: (line.path == _OLD_FILE, line.path.rsplit("/", 1)[-1], line.line),
    )
    named = [line for line in ordered if line.key == key]
    deciding = named or [line for line in ordered if "*" in line.key and fnmatchcase(key, line.key)]
    return deciding[-1] if deciding else None


def _hidden(paths: set[str]) -> set[str]:
    return {
        f"{later}{path.rsplit('/', 1)[-1]}"
        for path in paths
        for place, directory in enumerate(_DIRECTORIES)
        if path.startswith(directory)
        for later in _DIRECTORIES[place + 1 :]
    }


CHECK = NodeCheck(
    id="PD-BOOT-001",
    topic="sysctl.boot",
    title="Kernel setting that the next boot undoes",
    severity=Severity.MEDIUM,
    tools=("grep",),
    sources=("sysctl.d(5)", "systemd-sysctl.service(8)", "procps sysctl(8), --system"),
    on_demand=True,
    judge=judge,
)
