"""Asks the user."""

from pdctl.errors import UsageError


def become_password() -> str:
    """Asked for only on a terminal, as ansible-playbook does; a script uses `ansible_become_password` from a vault."""
    import getpass
    import sys

    if not sys.stdin.isatty():
        raise UsageError(
            "`-K` asks for the sudo password, and there is no terminal",
            hint="set `ansible_become_password` in the inventory (a vault), or allow sudo without a password",
        )
    return getpass.getpass("BECOME password: ")
