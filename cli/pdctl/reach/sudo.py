"""The password that a node's sudo asks for, as Ansible takes it."""

from pdctl.inventory import Host

_VARIABLES = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
_METHODS = ("sudo", "ansible.builtin.sudo")


def sudo_password(host: Host, asked: str | None) -> str | None:
    """asked: what somebody typed for all nodes; what the inventory gives to one counts more.

    None where there is none, where the inventory becomes root by something else than sudo, or where it is no line.
    """
    if str(host.variables.get("ansible_become_method") or _METHODS[0]) not in _METHODS:
        return None
    given = (host.variables.get(name) for name in _VARIABLES)
    password = next((value for value in given if isinstance(value, str) and value), asked)
    return password if password and password.isprintable() else None
