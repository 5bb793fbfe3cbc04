"""The remedy that a role of ours is."""

from collections.abc import Mapping

from pdchecks.facts.host import OsRelease
from pdchecks.finding import Impact, Remedy
from pdchecks.nodefacts import NodeFacts


def converge(role: str, text: str, *by_hand: str, impact: Impact = Impact.NONE, survives_reboot: bool = True) -> Remedy:
    """`pdctl provision --tags ROLE` carries the policy to the node; by_hand: commands that do the same without it."""
    return Remedy(text, role, (role,), commands=by_hand, survives_reboot=survives_reboot, impact=impact)


def setting(role: str, text: str, *until_reboot: str, impact: Impact = Impact.NONE) -> Remedy:
    """Of what no driver keeps: the role makes it again at each boot, commands by hand hold until then."""
    return Remedy(text, role, (role,), until_reboot=until_reboot, impact=impact)


def of_family(node: NodeFacts, *, debian: str, redhat: str) -> str:
    """The command of the node's own family; both, each with its family in a shell comment, where that is not known."""
    family = next((fact.family for fact in node.all(OsRelease)), "")
    both = f"{debian}   # RHEL family: {redhat}"
    return {"Debian": debian, "RedHat": redhat}.get(family, both)


# The record of role sysctl: by hand and by role the next boot reads one file.
SYSCTL_RECORD = "/etc/sysctl.d/90-pdctl.conf"


def kernel_parameters(text: str, wanted: Mapping[str, int | str]) -> Remedy:
    """wanted: keys and values. By hand: recorded for every boot, and applied from that record."""
    return Remedy(
        text,
        "sysctl",
        ("sysctl",),
        commands=(
            *(f"echo '{key} = {value}' >> {SYSCTL_RECORD}" for key, value in wanted.items()),
            f"sysctl -p {SYSCTL_RECORD}",
        ),
        until_reboot=tuple(f"sysctl -w '{key}={value}'" for key, value in wanted.items()),
    )
