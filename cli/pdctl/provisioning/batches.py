"""Which hosts are run at once, and whether the next ones may begin. Pure."""

import re
from collections.abc import Iterable, Sequence

from pdctl.errors import UsageError
from pdctl.provisioning.outcome import HostResult, Status

# What no pattern of Ansible gives a meaning.
_PLAIN = re.compile(r"[^\s!&,:;*?\[\]{}~@'\"#]+")
_GOOD = (Status.OK, Status.CHANGED)


def batches(names: Sequence[str], canary: int | None, serial: str | None) -> list[tuple[str, ...]]:
    """The hosts in their order: first the canaries, then as many at once as `serial` (N, or N% of all; None: the rest).

    Raises:
        UsageError: the options, or a name that no pattern of Ansible can mean alone.
    """
    if canary is None and serial is None:
        return [tuple(names)]
    refuse_unless_plain(names)
    if canary is not None and canary >= len(names):
        return [tuple(names)]
    first = canary or 0
    size = _size(serial, len(names)) if serial is not None else len(names)
    rest = [tuple(names[at : at + size]) for at in range(first, len(names), size)]
    return [tuple(names[:first]), *rest] if first else rest


def refuse_unless_plain(names: Iterable[str]) -> None:
    """
    Raises:
        UsageError: no pattern of Ansible can mean one of them alone.
    """
    if named := [name for name in names if not _PLAIN.fullmatch(name)]:
        raise UsageError(
            f"the host `{named[0]}` cannot be run apart from others",
            detail="its name holds a character that means something else in a pattern of Ansible",
            hint="give the host a plain name, with its address in `ansible_host`, or leave out --canary, --serial and --drift",
        )


def pattern(names: Sequence[str]) -> str | None:
    """Exactly these hosts as a pattern of Ansible; None where a name cannot stand in one."""
    return ",".join(names) if names and all(map(_PLAIN.fullmatch, names)) else None


def bad(batch: Iterable[HostResult]) -> list[HostResult]:
    """The hosts for which the next batch does not begin."""
    return [host for host in batch if host.status not in _GOOD or host.unverified is not None]


def _size(serial: str, hosts: int) -> int:
    """A share of less than one host is one host."""
    number = re.fullmatch(r"(\d{1,6})(%?)", serial, re.ASCII)
    value = int(number[1]) if number else 0
    if number is None or value < 1 or (number[2] and value > 100):
        raise UsageError(f"`--serial {serial}` is no size", hint="a number of hosts from 1, or a share from 1% to 100%")
    return max(1, hosts * value // 100) if number[2] else value
