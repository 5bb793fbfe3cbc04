"""Asks the user."""

from pdctl.errors import UsageError


def has_terminal() -> bool:
    """Whether somebody can be asked; no stdin at all is none."""
    import sys

    return sys.stdin is not None and sys.stdin.isatty()


def become_password() -> str:
    """Asked for only on a terminal, as ansible-playbook does; a script uses `ansible_become_password` from a vault."""
    import getpass

    if not has_terminal():
        raise UsageError(
            "`-K` asks for the sudo password, and there is no terminal",
            hint="set `ansible_become_password` in the inventory (a vault), or allow sudo without a password",
        )
    try:
        return getpass.getpass("BECOME password: ")
    except EOFError:
        raise UsageError("no sudo password was given") from None
