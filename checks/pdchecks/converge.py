"""The remedy that a role of ours is."""

from pdchecks.finding import Impact, Remedy


def converge(role: str, text: str, *by_hand: str, impact: Impact = Impact.NONE, survives_reboot: bool = True) -> Remedy:
    """`pdctl provision --tags ROLE` carries the policy to the node; by_hand: commands that do the same without it."""
    return Remedy(text, role, (role,), by_hand, survives_reboot=survives_reboot, impact=impact)
