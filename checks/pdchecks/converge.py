"""The remedy that a role of ours is."""

from pdchecks.finding import Impact, Remedy


def converge(role: str, text: str, *by_hand: str, impact: Impact = Impact.NONE, survives_reboot: bool = True) -> Remedy:
    """Run the role that carries the policy to the node; by_hand: the same without it."""
    command = f"pdctl provision INVENTORY --tags {role}"
    return Remedy(text, role, (role,), (command, *by_hand), survives_reboot=survives_reboot, impact=impact)
