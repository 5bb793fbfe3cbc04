"""Where and how SSH reaches an inventory's host: inventory variables first, then OpenSSH's own configuration."""

import getpass
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdctl.inventory import Host

_ARGUMENT_VARIABLES = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
_SHORT_OPTIONS = {"-J": "proxyjump", "-i": "identityfile", "-p": "port", "-l": "user", "-F": "configfile"}
_USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_NO = ("no", "off", "false", "0")
# Of jump hosts that are reached through jump hosts: a circle of configuration ends there.
_MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class SshTarget:
    """accept_new: an unknown host key is taken; a changed one is refused all the same. jump: reached through these.

    command: a shell command whose standard input and output are the connection, or empty.
    """

    host: str
    port: int
    user: str
    keys: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    accept_new: bool
    password: str | None = None
    jump: tuple["SshTarget", ...] = ()
    command: str = ""


def ssh_target(host: Host) -> SshTarget:
    """The target of an inventory's host, with its `ansible_ssh_*_args` (-o, -J, -F, -i) understood as ssh does, and
    Ansible's environment where the inventory says nothing."""
    given = _arguments(host.variables)
    password = host.variables.get("ansible_password") or host.variables.get("ansible_ssh_pass")
    key = os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    port = os.environ.get("ANSIBLE_REMOTE_PORT", "")
    return _resolve(
        host.address,
        given,
        user=host.user or os.environ.get("ANSIBLE_REMOTE_USER") or None,
        port=host.port if host.port != 22 else int(port) if port.isdecimal() else None,
        key=host.private_key or (Path(key).expanduser() if key else None),
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
    hops: int = 0,
) -> SshTarget:
    options = {**_configured(name, given.get("configfile")), **given}
    if "proxycommand" in given and "proxyjump" not in given:
        # The two are one option to ssh.
        options.pop("proxyjump", None)
    keys = [key] if key else [Path(item).expanduser() for item in options.get("identityfile", "").split("\n") if item]
    known = options.get("userknownhostsfile", "~/.ssh/known_hosts")
    strict = options.get("stricthostkeychecking", "yes").lower()
    jump = "" if hops == _MOST_HOPS else _unless_none(options.get("proxyjump", ""))
    made = SshTarget(
        host=options.get("hostname", name),
        port=port or int(options.get("port", "22")),
        user=user or options.get("user") or getpass.getuser(),
        keys=tuple(keys),
        known_hosts=(*(Path(item).expanduser() for item in shlex.split(known)), _SYSTEM_KNOWN_HOSTS),
        accept_new=strict in ("no", "off", "accept-new"),
        password=password,
        jump=_jumps([part for part in jump.split(",") if part], given, hops + 1),
    )
    command = "" if jump else _unless_none(options.get("proxycommand", ""))
    return replace(made, command=_filled_in(command, made, name))


def _unless_none(value: str) -> str:
    return "" if value.strip().lower() == "none" else value.strip()


def _filled_in(command: str, target: SshTarget, name: str) -> str:
    values = {"h": target.host, "p": str(target.port), "r": target.user, "n": name, "%": "%"}
    return re.sub(r"%([hprn%])", lambda token: values[token[1]], command)


def _jumps(parts: list[str], given: Mapping[str, str], hops: int) -> tuple[SshTarget, ...]:
    """The first is reached as its own configuration says, each other one through the one before it."""
    found: list[SshTarget] = []
    for number, part in enumerate(parts):
        made = _jump(part, given, hops if number == 0 else _MOST_HOPS)
        found += [*made.jump, replace(made, jump=())]
    return tuple(found)


def _jump(part: str, given: Mapping[str, str], hops: int) -> SshTarget:
    """One of `[user@]host[:port]`. Host-key options of the command line hold for the jump too; its keys are its own."""
    user, _, rest = part.strip().removeprefix("ssh://").rpartition("@")
    host, port = rest, None
    if rest.count(":") == 1:
        host, _, digits = rest.partition(":")
        port = int(digits) if digits.isdigit() else None
    inherited = {k: v for k, v in given.items() if k in ("userknownhostsfile", "stricthostkeychecking", "configfile")}
    made = _resolve(host, inherited, user=user or None, port=port, hops=hops)
    if made.keys or "identityfile" not in given:
        return made
    # ssh itself would not offer these; where the usual ones are taken too, they do no harm.
    named = [Path(item).expanduser() for item in given["identityfile"].split("\n")]
    return replace(made, keys=(*usual_keys(), *named))


def usual_keys() -> tuple[Path, ...]:
    """Those of `ssh`'s default keys that are there."""
    return tuple(path for name in _USUAL_KEYS if (path := Path("~/.ssh", name).expanduser()).is_file())


def _arguments(variables: Mapping[str, Any]) -> dict[str, str]:
    """The options in ssh's own words; the first of a name wins, as in ssh."""
    options: dict[str, str] = {}
    for variable in _ARGUMENT_VARIABLES:
        text = variables.get(variable) or os.environ.get(variable.upper()) or ""
        for name, value in _words(str(text)):
            options.setdefault(name, value)
    if _checks_no_host_key(variables):
        options.setdefault("stricthostkeychecking", "no")
    return options


def _checks_no_host_key(variables: Mapping[str, Any]) -> bool:
    names = ("ansible_ssh_host_key_checking", "ansible_host_key_checking")
    said = [variables.get(name) for name in names] + [os.environ.get(name.upper()) for name in names]
    return any(str(value).lower() in _NO for value in said if value is not None)


def _words(text: str) -> Iterator[tuple[str, str]]:
    words = iter(shlex.split(text))
    for word in words:
        if word == "-o" or (word.startswith("-o") and len(word) > 2):
            pair = next(words, "") if word == "-o" else word[2:]
            name, *value = re.split(r"\s*=\s*|\s+", pair.strip(), maxsplit=1)
            yield name.lower(), re.sub(r'^"(.*)"$', r"\1", "".join(value))
        elif word[:2] in _SHORT_OPTIONS:
            yield _SHORT_OPTIONS[word[:2]], word[2:] or next(words, "")


def _configured(name: str, only: str | None) -> dict[str, str]:
    """only: the one file to read (`-F`), instead of the user's and the system's."""
    from paramiko.config import SSHConfig

    class Config(SSHConfig):
        # It would fill in the port of the configuration, where the inventory's counts.
        TOKENS_BY_CONFIG_KEY = SSHConfig.TOKENS_BY_CONFIG_KEY | {"proxycommand": []}

    options: dict[str, str] = {}
    for path in (Path(only),) if only else (Path("~/.ssh/config"), _SYSTEM_CONFIG):
        if not path.expanduser().is_file():
            continue
        with path.expanduser().open(encoding="utf-8") as stream:
            config = Config()
            config.parse(stream)
        for key, value in config.lookup(name).items():
            options.setdefault(key, "\n".join(value) if isinstance(value, list) else str(value))
    return options
