"""Where and how SSH reaches an inventory's host: inventory variables first, then OpenSSH's own configuration."""

import getpass
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.inventory import Host

_ARGUMENT_VARIABLES = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_SHORT_OPTIONS = {"-J": "proxyjump", "-i": "identityfile", "-p": "port", "-l": "user"}


@dataclass(frozen=True, slots=True)
class SshTarget:
    """accept_new: an unknown host key is taken; a changed one is refused all the same. jump: reached through these."""

    host: str
    port: int
    user: str
    keys: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    accept_new: bool
    password: str | None = None
    jump: tuple["SshTarget", ...] = ()


def ssh_target(host: Host) -> SshTarget:
    """The target of an inventory's host, with its `ansible_ssh_*_args` (-o, -J, -i) understood as ssh does."""
    given = _arguments(host.variables)
    password = host.variables.get("ansible_password") or host.variables.get("ansible_ssh_pass")
    return _resolve(
        host.address,
        given,
        user=host.user,
        port=host.port if host.port != 22 else None,
        key=host.private_key,
        password=str(password) if isinstance(password, str) else None,
    )


def _resolve(
    name: str,
    given: Mapping[str, str],
    *,
    user: str | None = None,
    port: int | None = None,
    key: Path | None = None,
    password: str | None = None,
    is_jump: bool = False,
) -> SshTarget:
    options = {**_configured(name), **given}
    keys = [key] if key else [Path(item).expanduser() for item in options.get("identityfile", "").split("\n") if item]
    known = options.get("userknownhostsfile", "~/.ssh/known_hosts")
    strict = options.get("stricthostkeychecking", "yes").lower()
    jump = "" if is_jump else options.get("proxyjump", "")
    return SshTarget(
        host=options.get("hostname", name),
        port=port or int(options.get("port", "22")),
        user=user or options.get("user") or getpass.getuser(),
        keys=tuple(keys),
        known_hosts=(*(Path(item).expanduser() for item in shlex.split(known)), _SYSTEM_KNOWN_HOSTS),
        accept_new=strict in ("no", "off", "accept-new"),
        password=password,
        jump=tuple(_jump(part, given) for part in jump.split(",") if part and part.lower() != "none"),
    )


def _jump(part: str, given: Mapping[str, str]) -> SshTarget:
    """One of `[user@]host[:port]`. Host-key options of the command line hold for the jump too."""
    user, _, rest = part.strip().removeprefix("ssh://").rpartition("@")
    host, port = rest, None
    if rest.count(":") == 1:
        host, _, digits = rest.partition(":")
        port = int(digits) if digits.isdigit() else None
    inherited = {k: v for k, v in given.items() if k in ("userknownhostsfile", "stricthostkeychecking", "identityfile")}
    return _resolve(host, inherited, user=user or None, port=port, is_jump=True)


def _arguments(variables: Mapping[str, Any]) -> dict[str, str]:
    """The options in ssh's own words; the first of a name wins, as in ssh."""
    options: dict[str, str] = {}
    for variable in _ARGUMENT_VARIABLES:
        for name, value in _words(str(variables.get(variable) or "")):
            options.setdefault(name, value)
    return options


def _words(text: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(text))
    for word in words:
        if word == "-o" or (word.startswith("-o") and len(word) > 2):
            pair = next(words, "") if word == "-o" else word[2:]
            name, _, value = pair.replace(" ", "=", 1).partition("=")
            yield name.strip().lower(), value.strip().strip('"')
        elif word[:2] in _SHORT_OPTIONS:
            yield _SHORT_OPTIONS[word[:2]], word[2:] or next(words, "")


def _configured(name: str) -> dict[str, str]:
    from paramiko.config import SSHConfig

    options: dict[str, str] = {}
    for path in (Path("~/.ssh/config").expanduser(), _SYSTEM_CONFIG):
        if not path.is_file():
            continue
        with path.open(encoding="utf-8") as stream:
            config = SSHConfig()
            config.parse(stream)
        for key, value in config.lookup(name).items():
            options.setdefault(key, "\n".join(value) if isinstance(value, list) else str(value))
    return options
